//! Countdown: an expression that uses each given number once and equals the target, exactly.
//!
//! The problem's `answer` is the problem itself, `3,7,8,9=24`. The class of a correct answer is the canonical form of
//! its expression (see [`Expression::canonical`]). A completion may be the expression, or name it as mathematics is
//! answered: in a box, in `<answer>` tags, after "the answer is" or `####`. A trailing `= 24` belongs to no expression
//! and must be true.

use std::borrow::Cow;

use dashu_ratio::RBig;

use super::math::Mode;
use super::math::answer::{self, Rule};
use super::{Expression, tail};
use crate::{Problem, Verdict, Verifier};

/// Longest expression that is parsed, in bytes.
const MAX_BYTES: usize = 256;
/// Text beyond this is searched only at its end.
const MAX_SEARCHED: usize = 64 << 10;
/// Most numbers of a problem.
pub const MAX_NUMBERS: usize = 32;

/// Checks Countdown answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Countdown {
    /// Where the expression may stand: in a place of an answer or alone, or also last in a text.
    pub mode: Mode,
}

/// An expression in a completion, and the value that the completion says it has.
struct Found {
    expression: Expression,
    claimed: Option<RBig>,
}

impl Verifier for Countdown {
    fn name(&self) -> &'static str {
        match self.mode {
            Mode::Strict => "countdown:strict",
            Mode::Flexible => "countdown",
        }
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        parse_problem(gold).is_none().then(|| "it is not numbers=target".into())
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let text = tail(completion, MAX_SEARCHED).trim();
        if text.is_empty() {
            return Verdict::NoAnswer;
        }
        let found = match self.find(text) {
            Ok(found) => found,
            Err(None) => return Verdict::NoAnswer,
            Err(Some(span)) => return Verdict::Unparsable { found: super::short(&span) },
        };
        let Some((numbers, target)) = parse_problem(&problem.answer) else {
            let gold = super::short(&problem.answer);
            return Verdict::unjudged(format!("the gold `{gold}` is not numbers=target"));
        };
        found.judged(&numbers, target)
    }
}

impl Countdown {
    /// The expression of a completion; the text in its place where that is none, nothing where there is no such place.
    fn find(&self, text: &str) -> Result<Found, Option<String>> {
        let whole = read(text);
        if let Some(found) = whole {
            return Ok(found);
        }
        // Symbols alone are an attempt at the expression and nothing else.
        if !text.contains(|c: char| c.is_alphabetic() || c == '#') {
            return Err(Some(text.into()));
        }
        if let Some(span) = named(text) {
            return read(span).or_else(|| only_expression(span)).ok_or(Some(span.into()));
        }
        match self.mode {
            Mode::Strict => Err(None),
            Mode::Flexible => expressions(text).next().ok_or(None),
        }
    }
}

impl Found {
    fn judged(&self, numbers: &[u32], target: u32) -> Verdict {
        let mut used = self.expression.numbers();
        used.sort_unstable();
        if used != numbers {
            return Verdict::because("uses other numbers than the given ones".into());
        }
        let Some(value) = self.expression.value() else {
            return Verdict::because("divides by zero".into());
        };
        if value != RBig::from(target) {
            return Verdict::Wrong {
                why: Some(format!("comes to {value}, not {target}")),
                answer: Some(value.to_string()),
            };
        }
        match &self.claimed {
            Some(claimed) if *claimed != value => {
                Verdict::because(format!("comes to {value}, and is said to come to {claimed}"))
            }
            _ => {
                let class = self.expression.canonical();
                Verdict::correct(&class, &target.to_string())
            }
        }
    }
}

/// Where a completion names its answer: the last closed box, tag, phrase or line of hashes.
fn named(text: &str) -> Option<&str> {
    let of_box = answer::find(text, Mode::Strict).filter(|found| found.rule == Rule::Box);
    let of_box = of_box.and_then(|found| Some((found.span.start, text.get(found.span)?)));
    let tag = text.rfind("<answer>").map(|at| {
        let inner = &text[at + "<answer>".len()..];
        (at, inner.split("</answer>").next().unwrap_or(inner))
    });
    // A box inside a tag comes later.
    let marked = of_box.into_iter().chain(tag).max_by_key(|(at, _)| *at);
    let marked = marked.map(|(_, inner)| inner.trim()).filter(|inner| !inner.is_empty());
    let line = |at: usize, length: usize| {
        let rest = text[at + length..].trim_start_matches(['*', ':', ' ']).trim_start();
        rest.lines().next().map(str::trim).filter(|line| !line.is_empty())
    };
    let lower = text.to_ascii_lowercase();
    let phrase = ["answer is", "answer:", "####"];
    let last = phrase.iter().filter_map(|phrase| Some((lower.rfind(phrase)?, phrase.len()))).max();
    marked.or_else(|| last.and_then(|(at, length)| line(at, length)))
}

/// The text as an expression, or as an expression and its value: `3*8 = 24`, `24 = 3*8`.
fn read(text: &str) -> Option<Found> {
    if text.len() > 4 * MAX_BYTES {
        return None;
    }
    let plain = plain(text);
    // A point ends a sentence, and asterisks make letters bold.
    let plain = plain.trim_matches(['.', '*', ' ', '\n', '\r', '\t']);
    if plain.len() > MAX_BYTES {
        return None;
    }
    let parse = |side: &str| Expression::parse(side.trim());
    let Some((left, right)) = plain.split_once('=') else {
        return Some(Found { expression: parse(plain)?, claimed: None });
    };
    let (left, right) = (parse(left)?, parse(right)?);
    // The side that is a number alone is the value.
    match (&left, &right) {
        (Expression::Number(_), Expression::Binary(..)) => {
            Some(Found { claimed: left.value(), expression: right })
        }
        (_, Expression::Number(_)) => Some(Found { claimed: right.value(), expression: left }),
        _ => None,
    }
}

/// The expressions of more than one number in a text, from the last one back.
fn expressions(text: &str) -> impl Iterator<Item = Found> + '_ {
    let is_part = |c: char| c.is_ascii_digit() || "+-*/()=. ".contains(c);
    text.lines().rev().flat_map(move |line| {
        let line = plain(tail(line, 4 * MAX_BYTES));
        let runs: Vec<&str> = line.split(|c: char| !is_part(c)).collect();
        // What stands before a point is another sentence, or the number of a list's item: `2. 3*8`.
        let sentences = runs.into_iter().rev().flat_map(|run| run.rsplit(". "));
        let found = sentences.filter_map(|run| read(run.trim_matches(['=', ' '])));
        let is_operation = |found: &Found| matches!(found.expression, Expression::Binary(..));
        found.filter(is_operation).collect::<Vec<Found>>()
    })
}

/// The only expression in the place of an answer: of several it is open which is meant.
fn only_expression(text: &str) -> Option<Found> {
    let mut found = expressions(text);
    found.next().filter(|_| found.next().is_none())
}

/// LaTeX's and typographers' signs as those of expressions.
fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '$', '×', '÷', '·', '−', '[', '{']) {
        return Cow::Borrowed(text);
    }
    let mut text = fractions(text);
    const SIGNS: &str = "\\times=*|\\cdot=*|\\div=/|×=*|·=*|÷=/|−=-|\\left=|\\right=|\\(=|\\)=|\\[=|\\]=|\\,=|$=|[=(|]=)|\
        {=(|}=)";
    for (sign, plain) in SIGNS.split('|').filter_map(|entry| entry.split_once('=')) {
        text = text.replace(sign, plain);
    }
    Cow::Owned(text)
}

/// `\frac{a}{b}` as `((a)/(b))`.
fn fractions(text: &str) -> String {
    let text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac");
    let mut rest = text.as_str();
    let mut out = String::with_capacity(text.len());
    let braced = |text: &str| -> Option<(String, usize)> {
        let inner = text.strip_prefix('{')?;
        let end = answer::closing(inner)?;
        Some((inner[..end].to_owned(), end + 2))
    };
    while let Some(at) = rest.find("\\frac") {
        out.push_str(&rest[..at]);
        rest = &rest[at + "\\frac".len()..];
        let parts = braced(rest).and_then(|(above, end)| {
            let (below, more) = braced(&rest[end..])?;
            Some((above, below, end + more))
        });
        match parts {
            Some((above, below, end)) => {
                out.push_str(&format!("(({})/({}))", fractions(&above), fractions(&below)));
                rest = &rest[end..];
            }
            None => out.push_str("\\frac"),
        }
    }
    out + rest
}

/// Reads `3,7,8,9=24` into the sorted numbers and the target.
pub fn parse_problem(text: &str) -> Option<(Vec<u32>, u32)> {
    let (numbers, target) = text.split_once('=')?;
    let mut numbers: Vec<u32> =
        numbers.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
    numbers.sort_unstable();
    Some((numbers, target.trim_end_matches(':').trim().parse().ok()?))
}
