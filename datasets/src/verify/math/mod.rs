//! Mathematical answers: found in a completion, parsed, and compared by kind.
//!
//! [`answer`] says where the answer stands, `read` reads plain text, LaTeX and unicode into a tree, `equality` and
//! `compare` decide: exact rationals for numbers, evaluation modulo primes for rational functions,
//! complex values at 256 bits for roots and functions, and structures member by member. Everything is
//! bounded by a budget of work, never by a clock; what it does not suffice for is not judged.
//!
//! The class of a correct completion is what it computes on the way, see [`solution()`]: the final answer
//! itself is the same for all of them.

// Tables of words, and what the words around an answer say of it.
mod languages;
mod scan;
mod standing;

// 1. The answer in a completion.
pub mod answer;

// 2. What an answer is read as: wordings in signs, tokens, one grammar, a tree.
mod alphabet;
mod amounts;
mod arrows;
mod calendar;
mod commands;
mod counts;
mod expression;
mod foreign;
mod letters;
mod lex;
mod links;
mod marked;
mod matrix_arithmetic;
mod numerals;
mod parse;
mod permutations;
mod program_output;
mod qualifiers;
mod read;
mod sets;
mod special;
mod spelled;
mod spelling;
mod structures;
mod tree;
mod units;
mod wording;

// 3. Whether two answers are equal: as texts, then by their kinds.
mod compare;
mod complex;
mod equality;
mod exact;
mod families;
mod fuel;
mod functions;
mod matrix_equality;
mod members;
mod modular;
mod names;
mod numeric;
mod quantities;
mod real;
mod regions;
mod relations;
mod values;
mod word_meanings;
mod words;

// 4. Its description for people, and the class of a correct completion.
mod explain;
mod solution;

use scan::has_digits;
use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{CompletionText, Grade, Problem, Verdict, Verifier};
pub use answer::{Found, Location, Rule};
pub use explain::{kind_of, number, why};
pub use solution::solution;

/// Work that one comparison may cost: about a millisecond.
const FUEL: u32 = 60_000;

/// Bytes of a gold answer that are read, from its end.
const MAX_GOLD: usize = 64 << 10;

/// Longest way to write yes or no: `\textbf{False}`.
const MAX_POLAR: usize = 16;

/// Where an answer may stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// In a box, a tag, after "the answer is" or `####`: for rewards.
    Strict,
    /// Also the last formula or number: for evaluation.
    #[default]
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

impl Outcome {
    fn of(is_same: bool) -> Self {
        if is_same { Self::Correct } else { Self::Wrong }
    }
}

/// An outcome with what it was reached from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked<'a> {
    /// The result of comparing the answer with the gold answer.
    pub outcome: Outcome,
    /// The answer that was found.
    pub found: Option<Found<'a>>,
    /// The stage that decided: `text`, `value`.
    pub stage: &'static str,
}

impl Checked<'_> {
    /// The verdict on `completion` that the outcome stands for.
    pub fn into_verdict(self, gold: &str, completion: &str) -> Verdict {
        match (self.outcome, self.found) {
            (Outcome::Correct, found) => {
                let answer = found.as_ref().map_or(gold, |found| &found.text);
                Verdict::correct(&solution(completion, answer), gold)
            }
            (Outcome::NoAnswer, _) | (_, None) => Verdict::NoAnswer,
            (Outcome::UnparsableAnswer, Some(found)) => {
                Verdict::Unparsable { found: super::short(&found.text) }
            }
            (Outcome::Wrong, Some(found)) => {
                let why = Some(format!("found `{}`", super::short(&found.text)));
                Verdict::Wrong { why, answer: Some(key(&found.text)) }
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
/// let found = checked.found.expect("a box");
/// assert_eq!((&*found.text, found.rule.name(), found.span), ("0.5", "box", 25..28));
/// ```
pub fn check<'a>(gold: &str, completion: &'a str, mode: Mode) -> Checked<'a> {
    // A gold answer that is longer is none; the work is bounded all the same.
    let bare = self::gold(gold);
    let bare = super::tail(&bare, MAX_GOLD);
    // Words with digits among them, `June 20`, would be taken apart by the rules for completions.
    let is_short = completion.len() <= 100 && !languages::is_case(completion);
    let is_gold_verbatim = || {
        completion.trim() == bare && !bare.is_empty()
            || completion.contains('\\')
                && !completion.contains("box")
                && spelling::are_spellings(bare, completion)
            || is_worded(bare) && words::same_words(bare, completion)
            || mode == Mode::Flexible && words::says_unknown(bare, completion)
    };
    // Beside a marked answer another one counts for nothing: `C. Or \boxed{D}`, `\boxed{Evelyn} is Alice`.
    let is_unmarked =
        || completion.trim() == bare || answer::find(completion, Mode::Strict).is_none();
    if is_short && (is_gold_verbatim() || words::same_choice(bare, completion)) && is_unmarked() {
        let found = Some(answer::part(completion, completion.trim(), Rule::Whole));
        return Checked { outcome: Outcome::Correct, found, stage: "text" };
    }
    let wrapped = if bare.len() > 120 { answer::find(bare, Mode::Flexible) } else { joined(gold) };
    let gold = wrapped.as_ref().map_or(bare, |found| &found.text);
    let Some(found) = answer::find(completion, mode) else {
        return Checked { outcome: Outcome::NoAnswer, found: None, stage: "extraction" };
    };
    let is_marked = found.rule.is_mark();
    let is_polar =
        gold.len() <= MAX_POLAR && (!is_marked || found.text.contains(' ')) && !has_digits(gold);
    let said = || match is_marked {
        // `\boxed{\text{Yes, it is}}`
        true => words::opening(&found.text),
        false => words::polarity(completion),
    };
    let polar = is_polar.then(|| languages::polar(&scan::folded(gold))).flatten();
    let polar = polar.and_then(|gold| Some(gold == said()?));
    let polar = word_meanings::same_judgement(gold, &found.text).or(polar);
    if let Some(is_same) = polar {
        return Checked { outcome: Outcome::of(is_same), found: Some(found), stage: "words" };
    }
    if let Some(is_same) = answer::same_parts(gold, &found, completion, mode) {
        return Checked { outcome: Outcome::of(is_same), found: Some(found), stage: "parts" };
    }
    let (mut outcome, stage) = equality::compared(gold, &found.text);
    let is_same = |text: &str| equality::compared(gold, text).0 == Outcome::Correct;
    // "So there are 58!"
    let is_exclaimed =
        !is_marked && found.rule != Rule::Whole && completion.trim_end().ends_with('!');
    let exclaimed = || found.text.strip_suffix('!').filter(|_| is_exclaimed).is_some_and(is_same);
    let beside = || if is_marked { None } else { answer::also_stated(completion) };
    let again = || foreign::in_other_language(&found.text, completion);
    // `$m + n = 12 + 7 = \boxed{19}$` says what the value is of, as the gold answer does.
    let is_named = || {
        let sides = gold.split_once('=').filter(|(_, value)| !value.contains('='));
        let sides = sides.zip(answer::left_side(completion, &found));
        let equal = |a: &str, b: &str| equality::compared(a, b).0 == Outcome::Correct;
        sides.is_some_and(|((name, value), of)| {
            equal(name.trim_matches(['$', ' ']), of)
                && equal(value.trim_matches(['$', ' ']), &found.text)
        })
    };
    if outcome != Outcome::Correct
        && has_digits(gold)
        && (exclaimed() || is_named() || again().or_else(beside).is_some_and(|text| is_same(&text)))
    {
        outcome = Outcome::Correct;
    }
    // "(a) \boxed{3} (b) \boxed{7}"
    let may_be_part = outcome == Outcome::Wrong && found.rule == Rule::Box;
    let all = may_be_part && gold.contains([',', ';', '=']);
    let all = all.then(|| answer::all_boxes(completion)).flatten();
    match all.filter(|all| is_same(all)) {
        Some(all) => {
            let found = Some(Found { text: all.into(), ..found });
            Checked { outcome: Outcome::Correct, found, stage }
        }
        None => Checked { outcome, found: Some(found), stage },
    }
}

/// Several boxes of a gold answer, as one list.
fn joined(gold: &str) -> Option<Found<'_>> {
    const MIN_WORKED: usize = 6;
    (gold.len() >= MIN_WORKED && !gold.contains("####")).then_some(())?;
    let has_answer = gold.contains("nswer");
    let is_worked = has_answer || gold.contains("box") || gold.trim().contains('\n');
    let is_structure = !has_answer && gold.contains("\\begin");
    if is_worked && !is_structure { answer::find(gold, Mode::Flexible) } else { None }
}

/// Whether a gold answer is words.
fn is_worded(text: &str) -> bool {
    let letters = text.trim_start_matches("\\text");
    let mut words = letters.split(|c: char| !c.is_alphabetic());
    !letters.contains(['\\', '=', '^', '_']) && words.any(|word| word.len() >= 3)
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

    fn grade(&self, problem: &Problem, completion: CompletionText<'_>) -> Grade {
        let Some(text) = completion.answer else { return Grade::from_verdict(Verdict::NoAnswer) };
        let checked = check(&problem.answer, text, self.mode);
        let offset = answer::offset_in(completion.full, text);
        let found = checked.found.as_ref().map(|found| found.location(offset));
        Grade { found, ..Grade::from_verdict(checked.into_verdict(&problem.answer, text)) }
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        let bare = self::gold(gold);
        let worked = joined(gold);
        let text = worked.as_ref().map_or(&*bare, |found| &found.text);
        (!equality::is_readable(text)).then(|| match crate::task::of_statement(gold) {
            Some(kind) => {
                format!("it is an instance of the task {0}: give --verifier {0}", kind.name)
            }
            None => "it is neither mathematics nor words".into(),
        })
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
/// box with the unit behind it, else the text as it stands.
pub fn gold(text: &str) -> Cow<'_, str> {
    if let Some(items) = printed_list(text.trim()) {
        return Cow::Owned(items);
    }
    if let Some((_, tail)) = text.rsplit_once("####")
        && let Some(line) = tail.trim_start().lines().next()
    {
        return Cow::Borrowed(line.trim());
    }
    let text = super::tail(text, MAX_GOLD).trim();
    answer::last_box(text).unwrap_or(Cow::Borrowed(text))
}

/// The members of a list of texts as Python or JSON print it: 7 of `['7']`.
fn printed_list(text: &str) -> Option<String> {
    let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let tuple = || text.strip_prefix('(')?.strip_suffix(')');
    let inner = list.or_else(tuple)?.trim().trim_end_matches(',');
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let separator = format!("{quote}, {quote}");
    let inner = inner.strip_prefix(quote)?.strip_suffix(quote)?;
    let items: Vec<&str> = inner.split(separator.as_str()).map(str::trim).collect();
    let are_plain = items.iter().all(|item| !item.contains(quote) && !item.is_empty());
    // The rows of a matrix end with two backslashes, which only a list that is not escaped has.
    let text = items.join(", ");
    let is_escaped =
        text.contains("\\\\") && !text.contains("\\begin{") || text.contains("\\\\begin");
    are_plain.then(|| if is_escaped { text.replace("\\\\", "\\") } else { text })
}
