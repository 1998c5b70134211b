//! Mathematical answers: found in a completion, parsed, and compared by kind.
//!
//! `extract` says where the answer stands, `lex` and `parse` read plain text, LaTeX and unicode into a
//! tree, `compare` decides: exact rationals for numbers, evaluation modulo primes for rational functions,
//! complex values at 256 bits for roots and functions, and structures member by member. Everything is
//! bounded by a budget of work, never by a clock; what it does not suffice for is not judged.
//!
//! The class of a correct completion is what it computes on the way, see [`solution()`]: the final answer
//! itself is the same for all of them.

mod alphabet;
mod compare;
mod complex;
mod exact;
mod expression;
mod extract;
mod fuel;
mod lex;
mod matrix;
mod modular;
mod names;
mod numerals;
mod numeric;
mod pairing;
mod parse;
mod reading;
mod real;
mod regions;
mod relations;
mod series;
mod solution;
mod text;
mod tree;
mod units;
mod values;

use serde::{Deserialize, Serialize};

use crate::{Problem, Verdict, Verifier};
pub use extract::{Extracted, extract};
use fuel::Fuel;
pub use reading::{kind_of, number, why};
pub use solution::solution;

/// Work that one comparison may cost: about a millisecond.
const FUEL: u32 = 60_000;

/// Bytes of a gold answer that are read, from its end.
const MAX_GOLD: usize = 64 << 10;

/// Where an answer may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In a box, a tag, after "the answer is" or `####`: for rewards.
    Strict,
    /// Also the last formula or number: for evaluation.
    Flexible,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The same answer.
    Correct,
    /// Another answer.
    Wrong,
    /// No answer was found in the completion.
    NoAnswer,
    /// The text in the answer's place is not mathematics, and not the gold's words.
    UnparsableAnswer,
    /// The gold answer cannot be read, and the answer is not its text.
    UnparsableGold,
    /// Telling them apart takes more work than a comparison may cost.
    OutOfWork,
}

/// An outcome with what it was reached from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// The answer that was found.
    pub extracted: Option<Extracted<'a>>,
    /// The stage that decided: `text`, `value`.
    pub stage: &'static str,
}

impl Checked<'_> {
    /// The verdict on `completion` that the outcome stands for.
    pub fn into_verdict(self, gold: &str, completion: &str) -> Verdict {
        match (self.outcome, self.extracted) {
            (Outcome::Correct, _) => Verdict::correct(&solution(completion), gold),
            (Outcome::NoAnswer, _) | (_, None) => Verdict::NoAnswer,
            (Outcome::UnparsableAnswer, Some(found)) => {
                Verdict::Unparsable { found: super::short(&found.span) }
            }
            (Outcome::Wrong, Some(found)) => {
                let why = Some(format!("found `{}`", super::short(&found.span)));
                Verdict::Wrong { why, answer: Some(key(&found.span)) }
            }
            (Outcome::UnparsableGold, Some(_)) => {
                Verdict::unjudged(format!("the gold `{}` cannot be read", super::short(gold)))
            }
            (Outcome::OutOfWork, Some(_)) => Verdict::Unjudged {
                why: "comparing it with the gold takes more work than a verdict may cost".into(),
                is_too_costly: true,
            },
        }
    }
}

/// Checks a completion, or a bare answer, against a gold one; both may be wrapped in `$`, a box or a solution.
///
/// Total, deterministic and bounded: never a panic, no clock, the same verdict on any machine.
///
/// ```
/// use tealight_datasets::verify::math::{Mode, Outcome, check};
///
/// let checked = check("\\frac{1}{2}", "So the answer is $\\boxed{0.5}$.", Mode::Strict);
/// assert_eq!(checked.outcome, Outcome::Correct);
/// let extracted = checked.extracted.expect("a box");
/// assert_eq!((&*extracted.span, extracted.rule, extracted.at), ("0.5", "box", Some(25)));
/// ```
pub fn check<'a>(gold: &str, completion: &'a str, mode: Mode) -> Checked<'a> {
    // A gold answer that is longer is none; the work is bounded all the same.
    let bare = super::tail(self::gold(gold), MAX_GOLD);
    // Words with digits among them, `June 20`, would be taken apart by the rules for completions.
    let is_short = completion.len() <= 100;
    let is_said = completion.trim() == bare && !bare.is_empty()
        || is_worded(bare) && text::same_words(bare, completion);
    if is_short && (is_said || text::same_choice(bare, completion)) {
        let span = std::borrow::Cow::Borrowed(completion.trim());
        let at = Some(completion.len() - completion.trim_start().len());
        let extracted = Some(Extracted { span, at, rule: "whole" });
        return Checked { outcome: Outcome::Correct, extracted, stage: "text" };
    }
    let wrapped = if bare.len() > 120 { extract(bare, Mode::Flexible) } else { joined(gold) };
    let gold = wrapped.as_ref().map_or(bare, |found| &found.span);
    let Some(extracted) = extract(completion, mode) else {
        return Checked { outcome: Outcome::NoAnswer, extracted: None, stage: "extraction" };
    };
    let (outcome, stage) = compared(gold, &extracted.span);
    Checked { outcome, extracted: Some(extracted), stage }
}

/// Several boxes of a gold answer, as one list.
fn joined(gold: &str) -> Option<Extracted<'_>> {
    if gold.contains("box") { extract(gold, Mode::Flexible) } else { None }
}

fn compared(gold: &str, answer: &str) -> (Outcome, &'static str) {
    let trim = |text: &str| -> (usize, usize) {
        let inner = text.trim_matches(|c: char| c.is_whitespace() || c == '$');
        // A point ends a sentence, three go on: `0.333...`
        let inner = if inner.ends_with("..") { inner } else { inner.trim_end_matches('.') };
        let start = inner.as_ptr() as usize - text.as_ptr() as usize;
        (start, start + inner.len())
    };
    let ((a, b), (c, d)) = (trim(gold), trim(answer));
    let (gold, answer) = (&gold[a..b], &answer[c..d]);
    if !gold.is_empty() && gold == answer {
        return (Outcome::Correct, "text");
    }
    if let (Some(a), Some(b)) = (plain_integer(gold), plain_integer(answer)) {
        return (if a == b { Outcome::Correct } else { Outcome::Wrong }, "text");
    }
    let (parsed_gold, parsed_answer) = (parse::parse(gold), parse::parse(answer));
    let mut is_out = false;
    let mut equal = |gold: &tree::Answer, answer: &tree::Answer| {
        let mut fuel = Fuel::new(FUEL);
        let is_equal = compare::equal(gold, answer, &mut fuel);
        is_out |= fuel.is_out;
        is_equal
    };
    if let (Some(gold), Some(answer)) = (&parsed_gold, &parsed_answer)
        && equal(gold, answer)
    {
        return (Outcome::Correct, "value");
    }
    // `0,5` and `1000,99` are decimals where commas are points.
    let (a, b) = (with_point(gold), with_point(answer));
    if (a.is_some() || b.is_some())
        && let (Some(gold), Some(answer)) = (
            parse::parse(a.as_deref().unwrap_or(gold)),
            parse::parse(b.as_deref().unwrap_or(answer)),
        )
        && equal(&gold, &answer)
    {
        return (Outcome::Correct, "value");
    }
    let is_same_text = || {
        let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        bare(gold) == bare(answer)
    };
    // Two values that differ are not words, whatever their letters.
    let are_values = parsed_gold.as_ref().zip(parsed_answer.as_ref()).is_some_and(|(a, b)| {
        let is_math = |answer: &tree::Answer| !matches!(answer, tree::Answer::Words(_));
        is_math(a) && is_math(b)
    });
    if is_same_text()
        || text::same_choice(gold, answer)
        || (!are_values && text::same_words(gold, answer) && !has_digits(gold))
    {
        return (Outcome::Correct, "text");
    }
    if let (Some(gold), Some(rest)) =
        (&parsed_gold, text::after_choice(answer).and_then(parse::parse))
        && equal(gold, &rest)
    {
        return (Outcome::Correct, "value");
    }
    match (parsed_gold, parsed_answer) {
        (None, _) => (Outcome::UnparsableGold, "parse"),
        (_, None) => (Outcome::UnparsableAnswer, "parse"),
        _ if is_out => (Outcome::OutOfWork, "value"),
        _ => (Outcome::Wrong, "value"),
    }
}

/// A decimal comma as a point: digits, one comma, and digits that are no group of thousands. One digit
/// after it may as well be a list: `1,2`.
fn with_point(text: &str) -> Option<String> {
    let (whole, part) = text.split_once(',')?;
    let are_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_decimal = part.len() >= 2 && (part.len() != 3 || whole == "0");
    (are_digits(whole) && are_digits(part) && is_decimal).then(|| format!("{whole}.{part}"))
}

/// Whether a gold answer is words.
fn is_worded(text: &str) -> bool {
    let letters = text.trim_start_matches("\\text");
    let mut words = letters.split(|c: char| !c.is_alphabetic());
    !letters.contains(['\\', '=', '^', '_']) && words.any(|word| word.len() >= 3)
}

fn has_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The sign and digits of a plain integer, without leading zeros.
fn plain_integer(text: &str) -> Option<(bool, &str)> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some((is_negative && !digits.is_empty(), digits))
}

/// Checks mathematical answers.
#[derive(Debug, Clone, Copy)]
pub struct Math {
    /// Where answers are looked for.
    pub mode: Mode,
}

impl Default for Math {
    fn default() -> Self {
        Self { mode: Mode::Flexible }
    }
}

impl Verifier for Math {
    fn name(&self) -> &'static str {
        match self.mode {
            Mode::Strict => "math:strict",
            Mode::Flexible => "math",
        }
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        check(&problem.answer, completion, self.mode).into_verdict(&problem.answer, completion)
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        let is_read = parse::parse(self::gold(gold)).is_some();
        (!is_read).then(|| "it is neither mathematics nor words".into())
    }
}

/// A form that spellings of one wrong answer mostly share: its number, else its text without white space.
fn key(text: &str) -> String {
    match number(text) {
        Some(value) => value.to_string(),
        None => text.chars().filter(|c| !c.is_whitespace() && *c != '$').take(128).collect(),
    }
}

/// The reference answer inside a worked solution or an answer column: after `####`, else the last
/// box, else the text as it stands.
pub fn gold(text: &str) -> &str {
    let after = text.rsplit_once("####").and_then(|(_, tail)| tail.trim_start().lines().next());
    after.or_else(|| extract::last_box(text).map(|(_, inner)| inner)).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests;
