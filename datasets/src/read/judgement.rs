//! Rows that say themselves whether the worked solution in them is correct, or their gold answer.

use serde_json::Value;

use super::known_columns::list;
use super::{Row, gold_value, names};
use crate::Ending;

/// Keys of a verdict on a completion, in a dataset and in a record of completions.
pub const VERDICTS: [&str; 20] = list(
    "verdict|correct|is_correct|isCorrect|Correct|is_right|exact_match|passed|is_passed|pass|matched|\
    correctness|verified|acc|accuracy|em|eval_res|correctness_math_verify|reward|score",
);
/// Those of them whose fractions are pass rates, which say how hard a problem is.
const RATES: [&str; 4] = ["correctness", "acc", "accuracy", "em"];
/// Keys that hold one in some datasets, by their values: true or false, or a word.
const OTHERS: [&str; 5] = ["result", "grade", "judge", "judgement", "solution_is_valid"];
/// The same beside a completion; beside a solution they are classes, or say whether a model solved the problem.
const OF_COMPLETIONS: [&str; 4] = ["status", "success", "solved", LABEL];
/// The key of them whose 0 and 1 are verdicts too, but for conversations.
const LABEL: &str = "label";

/// Words of the names of other columns with verdicts: on a solution, on a completion, and on what is wrong.
const GOOD: [&str; 12] = list(
    "accepted|valid|validated|validity|verified|verify|verification|correct|correctness|right|verdict|judgement",
);
const GOOD_OF_COMPLETIONS: [&str; 14] = [
    "passed", "match", "matches", "matched", "equal", "check", "checked", "graded", "grade",
    "eval", "outcome", "flag", "reward", "rm",
];
const BAD: [&str; 6] = ["wrong", "incorrect", "invalid", "error", "truncated", "failed"];
/// Words that make something else of a name.
const UNSURE: [&str; 10] =
    ["no", "not", "num", "n", "count", "rate", "ratio", "fraction", "type", "message"];
/// Columns that say why a completion ended.
const REASONS: [&str; 2] = ["finish_reason", "stop_reason"];

/// A column with verdicts, by the words of its name and by its values.
pub(super) struct Named {
    pub(super) column: String,
    /// What a solution that is incorrect has there.
    says_wrong: fn(&Value) -> bool,
}

/// Such columns, one of whose rows calls its solution incorrect.
pub(super) fn named(rows: &[Row], of: Judged) -> Vec<Named> {
    let Some(first) = rows.first() else { return Vec::new() };
    let found = first.values.keys().filter_map(|name| {
        let is_listed =
            [&VERDICTS[..], &OTHERS, &OF_COMPLETIONS].iter().any(|list| list.contains(&&**name));
        let says_wrong = says_wrong(name, of).filter(|_| !is_listed)?;
        let values =
            || rows.iter().filter_map(|row| row.values.get(name)).filter(|value| !value.is_null());
        let is_reason = REASONS.contains(&name.as_str());
        let known = values().filter(|value| is_reason || verdict(value).is_some()).count();
        // Numbers are verdicts where all are 0 or 1, and words where most are known.
        let least = if values().any(Value::is_number) {
            values().count()
        } else {
            values().count().div_ceil(2)
        };
        let is_verdict = known >= least && values().any(says_wrong);
        is_verdict.then(|| Named { column: name.clone(), says_wrong })
    });
    found.collect()
}

impl Named {
    pub(super) fn is_against(&self, row: &Row) -> bool {
        row.values.get(&self.column).is_some_and(self.says_wrong)
    }
}

/// Whether a column may hold verdicts by its name, and holds true or false.
pub(super) fn may_be_verdict(rows: &[Row], name: &str) -> bool {
    says_wrong(name, Judged::Completion).is_some() && holds(rows, name, Value::is_boolean)
}

/// What a value of a column with such a name says where the solution is incorrect; none for other names.
fn says_wrong(name: &str, of: Judged) -> Option<fn(&Value) -> bool> {
    let words = names::words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let is_good = has(&GOOD) || of != Judged::Solution && has(&GOOD_OF_COMPLETIONS);
    if of != Judged::Solution && REASONS.contains(&name) {
        return Some(|value| Ending::from_reason(value) == Ending::Truncated);
    }
    // `no_error`, `num_correct`, and answers such as `correct_answer`.
    if has(&UNSURE) || is_good && has(&BAD) || names::is_gold(name) {
        return None;
    }
    match (is_good, has(&BAD)) {
        (true, _) => Some(|value| verdict(value) == Some(false)),
        (_, true) => Some(|value| verdict(value) == Some(true)),
        _ => None,
    }
}

/// What a verdict of such a column says.
fn verdict(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(flag) => return Some(*flag),
        Value::Number(number) => {
            return match number.as_f64() {
                Some(0.0) => Some(false),
                Some(1.0) => Some(true),
                _ => None,
            };
        }
        Value::String(text) => text,
        _ => return None,
    };
    said(text)
}

/// What a word says as a verdict.
pub fn said(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "valid" | "accepted" | "verified" | "complete" => Some(true),
        "invalid" | "rejected" | "unverified" | "incomplete" | "problem not solved" => Some(false),
        text => word(text),
    }
}

/// What verdicts are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    Solution,
    Completion,
    Conversation,
}

/// The column of the rows that holds a judgement wherever it holds something: true or false, a word, -1, or a number
/// from 0 to 1.
pub(super) fn column(rows: &[Row], of: Judged) -> Option<&'static str> {
    let is_whole =
        |value: &Value| value.as_f64().is_none_or(|number| [-1.0, 0.0, 1.0].contains(&number));
    let is_of_verdict = |name: &&'static str| {
        let is_rate = RATES.contains(name);
        holds(rows, name, |value| judged(value).is_some() && (!is_rate || is_whole(value)))
    };
    let is_other = |name: &&'static str| {
        let has_flags = *name == LABEL && of == Judged::Completion;
        let is_flag = |value: &Value| has_flags && matches!(value.as_i64(), Some(0 | 1));
        holds(rows, name, |value| !value.is_number() && judged(value).is_some() || is_flag(value))
    };
    let of_completions = OF_COMPLETIONS.into_iter().filter(|_| of != Judged::Solution);
    let known = VERDICTS.into_iter().find(is_of_verdict);
    known.or_else(|| OTHERS.into_iter().chain(of_completions).find(is_other))
}

/// Whether a column holds what may be verdicts: numbers of any size, besides.
pub(super) fn is_verdict(rows: &[Row], name: &str) -> bool {
    holds(rows, name, |value| value.is_number() || judged(value).is_some())
}

/// Whether a column holds something, and always what is asked.
fn holds(rows: &[Row], name: &str, is: impl Fn(&Value) -> bool) -> bool {
    let values =
        || rows.iter().filter_map(|row| row.values.get(name)).filter(|value| !value.is_null());
    values().next().is_some() && values().all(is)
}

/// Whether a column holds words that are verdicts, and nothing else.
pub(super) fn are_words(rows: &[Row], name: &str) -> bool {
    holds(rows, name, |value| {
        value.as_str().is_some_and(|text| word(text).is_some()) && !gold_value::is_truth(value)
    })
}

/// Whether a row says of its own solution that it is incorrect.
pub(super) fn is_against(row: &Row, column: &str) -> bool {
    // A list is of several generations, one of which may be the solution.
    let is_of_others = row.values.contains_key("generations");
    let value = row.values.get(column).filter(|value| !(is_of_others && value.is_array()));
    value.and_then(judged) == Some(false)
}

/// What a judgement says: whether the solution is correct. Of a list, whether one is.
fn judged(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(is_correct) => Some(*is_correct),
        Value::Number(number) => {
            let is_share = |number: &f64| *number == -1.0 || (0.0..=1.0).contains(number);
            number.as_f64().filter(is_share).map(|number| number > 0.0)
        }
        Value::String(text) => word(text),
        Value::Array(all) if !all.is_empty() => {
            let all: Vec<bool> = all.iter().map(judged).collect::<Option<_>>()?;
            Some(all.contains(&true))
        }
        _ => None,
    }
}

fn word(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "correct" | "right" | "yes" | "passed" | "pass" => Some(true),
        "false" | "incorrect" | "wrong" | "no" | "failed" | "fail" => Some(false),
        _ => None,
    }
}

/// Refuses answers beside labels that call some of them incorrect: candidates, as MultiRC has them.
pub(super) fn refuse_candidates(rows: &[Row], column: &str) -> Result<(), String> {
    let is_flag = |value: &Value| value.is_boolean() || matches!(value.as_i64(), Some(0 | 1));
    let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
    let is_text =
        |value: &Value| value.as_str().is_some_and(|text| word(text).is_none() && !is_number(text));
    let is_against = rows.iter().any(|row| is_against(row, LABEL));
    if column == LABEL
        || !is_against
        || !holds(rows, LABEL, is_flag)
        || !holds(rows, column, is_text)
    {
        return Ok(());
    }
    Err(format!(
        "column `{LABEL}` may say whether `{column}` is correct: leave out the rows that it calls incorrect, and name \
         the answers with --answer-column {column}"
    ))
}

/// Why a row's gold answer is known to be none: MMLU-Redux's corrections, NuminaMath's problems that are not valid.
pub(super) fn known_error(row: &Row) -> Option<String> {
    for column in ["problem_is_valid", "question_is_valid", "solution_is_valid"] {
        if let Some(value) = row.values.get(column).filter(|value| verdict(value) == Some(false)) {
            return Some(format!("column `{column}` says {value}"));
        }
    }
    let error = row.text("error_type")?.trim();
    let is_of_gold =
        ["wrong_groundtruth", "no_correct_answer", "multiple_correct_answers"].contains(&error);
    is_of_gold.then(|| format!("column `error_type` says `{error}`"))
}
