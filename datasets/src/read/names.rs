//! What the names of columns say: their words, whatever stands between these and in whatever case.

use std::collections::BTreeSet;
use std::mem;

use serde_json::Map;

use super::better_answer::differ;
use super::choice_columns::is_empty;
use super::gold_value::{self, Gold};
use super::known_columns::{ANSWERS, QUESTIONS, SOLUTIONS, list};
use super::{Columns, Row, nested};
use crate::verify::short;

/// Words for what is known to be correct.
const GOLDS: [&str; 10] =
    list("gt|gts|gold|golden|truth|truths|groundtruth|reference|ref|expected");
/// Words that say the same before a word for an answer.
const SURE: [&str; 10] =
    list("correct|final|true|real|std|standard|numeric|numerical|verified|possible");
/// Words for answers.
const ANSWERS_OF: [&str; 10] =
    list("answer|answers|ans|solution|solutions|value|val|output|result|text");
/// The same of a name that is nothing else.
const ALONE: [&str; 3] = ["answer", "answers", "ideal"];
/// Other names of columns that may hold the gold answer, or something else.
const MAYBE: [&str; 10] = list(
    "ans|answer value|answer val|answer str|answer text|answer key|parsed answer|extracted answer|\
    solution answer|original answer",
);
/// The same of any pair of a key and a value: compared with others, and never taken.
const BARE: [&str; 2] = ["key", "value"];
/// Words of the names of columns that say which choice is right; and those that may stand beside them.
const KEYS: [&str; 8] = ["correct", "right", "answer", "ans", "gold", "label", "target", "result"];
const KEY_PARTS: [&str; 10] =
    ["idx", "index", "num", "number", "id", "option", "choice", "letter", "key", "value"];
/// Names of questions in datasets that call them otherwise than [`QUESTIONS`] do, in any case, and words with which
/// others name them.
///
/// [`QUESTIONS`]: super::known_columns::QUESTIONS
const ASKED: [&str; 10] =
    list("goal|ctx|sentence|startphrase|quiz|puzzle|q|original text|user input|content");
const QUESTION_WORDS: [&str; 5] = ["question", "problem", "prompt", "query", "qtext"];
const QUESTION_PARTS: [&str; 6] = ["text", "statement", "content", "description", "body", "en"];
/// Last words of the names of texts that a question is about.
const CONTEXT_WORDS: [&str; 16] = list(
    "context|passage|paragraph|article|story|document|narrative|scenario|background|premise|premises|hint|\
    preamble|stimulus|transcript|setup",
);
/// What follows `system` in the names of system messages.
const SYSTEM_PARTS: &str = "prompt prompts message msg instruction instructions text content turn";
/// Rows that are compared, at most.
const COMPARED: usize = 10_000;

/// The words of a name, in lower case: three of `groundTruth_label` or `Ground Truth-label`.
pub fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last = ' ';
    for letter in name.chars() {
        if letter.is_uppercase() && last.is_lowercase() || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("a word").extend(letter.to_lowercase());
        }
        last = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether every word of a name is one of those with which columns say which choice is right.
pub(super) fn is_key(name: &str) -> bool {
    let words = words(name);
    let is = |list: &[&str], word: &String| list.contains(&word.as_str());
    words.iter().any(|word| is(&KEYS, word))
        && words.iter().all(|word| is(&KEYS, word) || is(&KEY_PARTS, word))
}

/// Whether a name says that its column holds the gold answer: `gt_ans`, `goldenAnswer`.
pub(super) fn is_gold(name: &str) -> bool {
    let words = words(name);
    let is = |list: &[&str], word: &String| list.contains(&word.as_str());
    let Some((last, before)) = words.split_last() else { return false };
    let is_answer = is(&ANSWERS_OF, last);
    is(&GOLDS, last)
        || is_answer && before.iter().any(|word| is(&GOLDS, word) || is(&SURE, word))
        || matches!(words.as_slice(), [word] if is(&ALONE, word))
}

/// Whether it may hold one. A `gold_label` may be a class.
fn may_be_gold(name: &str) -> bool {
    let words = words(name);
    let joined = words.join(" ");
    let is_label = joined.ends_with(" label") && is_gold(&joined.replace("label", "answer"));
    is_label || MAYBE.contains(&&*joined) || BARE.contains(&&*joined)
}

/// Whether a name says that its column holds a text that the question is about.
pub(super) fn is_context(name: &str) -> bool {
    words(name).last().is_some_and(|word| CONTEXT_WORDS.contains(&word.as_str()))
}

/// Whether a word is one of a list with blanks between them.
pub(super) fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// Whether a name says that its column holds a system message: `sys_prompt`, `SystemInstruction`.
pub(super) fn is_system(name: &str) -> bool {
    let joined = words(name).concat();
    let rest = joined.strip_prefix("system").filter(|rest| !rest.is_empty());
    let rest = rest.or_else(|| joined.strip_prefix("sys"));
    joined == "system" || rest.is_some_and(|rest| is_in(SYSTEM_PARTS, rest))
}

/// The column of the question, where none has a name of the list.
pub(super) fn question(rows: &[Row]) -> Option<&str> {
    let names = || rows.first().into_iter().flat_map(|row| row.values.keys()).map(String::as_str);
    let holds = |name: &str, is: fn(&str) -> bool| {
        rows.iter().any(|row| row.text(name).is_some_and(|text| is(text.trim())))
    };
    let asks = |name: &str| holds(name, is_phrase);
    // A short question is one too; a number may be that of a question.
    let is_asked = |name: &str| holds(name, |text| text.contains(char::is_alphabetic));
    let other = || {
        ASKED
            .iter()
            .find_map(|known| names().find(|name| words(name).join(" ") == *known && asks(name)))
    };
    names().find(|name| is_question(name) && is_asked(name)).or_else(other)
}

/// Whether a text is of several words; Chinese and Japanese have no blanks.
pub(super) fn is_phrase(text: &str) -> bool {
    text.contains(' ') || text.chars().filter(|c| *c > '\u{2e80}').count() > 4
}

/// Whether a name says that its column holds the question.
fn is_question(name: &str) -> bool {
    let words = words(name);
    // GSM-IC's `new_question` is asked, and not the `original_question`.
    let words = words.strip_prefix(&["new".to_owned()]).unwrap_or(&words);
    let Some((first, others)) = words.split_first() else { return false };
    QUESTION_WORDS.contains(&first.as_str())
        && others.iter().all(|word| QUESTION_PARTS.contains(&word.as_str()))
}

/// Gives columns that are known but for the case of their names (`INSTRUCTION`) the usual ones, and says which; not
/// where the user's template or function reads them by name.
pub(super) fn restore_case(rows: &mut [Row], columns: &Columns) -> Option<String> {
    if columns.prompting.template.is_some() || columns.are_read() {
        return None;
    }
    let named = [&columns.prompt, &columns.answer].map(|name| name.clone().unwrap_or_default());
    let usual = |name: &String| {
        let lower = name.to_lowercase();
        let mut all = QUESTIONS.into_iter().chain(SOLUTIONS);
        let is_read = all.clone().any(|known| known == name)
            || is_question(name)
            || named.iter().any(|it| it.contains(name));
        let known = all.find(|known| *known == lower)?;
        (!is_read && rows.iter().all(|row| !row.values.contains_key(known))).then_some(known)
    };
    let names = rows.first()?.values.keys();
    let all: Vec<_> = names.filter_map(|name| Some((name.clone(), usual(name)?))).collect();
    // Where two columns come to one name, neither gets it.
    let is_alone =
        |(_, known): &&(String, &str)| all.iter().filter(|(_, other)| other == known).count() == 1;
    let found: Vec<_> = all.iter().filter(is_alone).collect();
    let (first, known) = found.first()?;
    // In the order of the file, by which a question is looked for.
    for row in rows.iter_mut() {
        let values = mem::take(&mut row.values).into_iter().map(|(name, value)| {
            let known = found.iter().find(|(own, _)| *own == name);
            (known.map_or(name, |(_, known)| (*known).to_owned()), value)
        });
        row.values = values.collect();
    }
    Some(format!("columns are read by their usual names, `{first}` as `{known}`"))
}

/// Columns, and those of their objects, with such names and with answers in nearly all rows.
fn columns(rows: &[Row], is_named: fn(&str) -> bool) -> Vec<String> {
    let mut names = BTreeSet::new();
    for (name, value) in rows.iter().flat_map(|row| &row.values) {
        let inner = value.as_object().into_iter().flat_map(Map::keys);
        names.extend(inner.filter(|inner| is_named(inner)).map(|inner| format!("{name}.{inner}")));
        names.extend(Some(name).filter(|name| is_named(name)).cloned());
    }
    let is_known = |name: &&String| {
        [&ANSWERS[..], &SOLUTIONS].iter().any(|list| list.contains(&name.as_str()))
    };
    names.retain(|name| !is_known(&name) && are_answers(rows, name));
    names.into_iter().collect()
}

/// Whether a column holds answers, or solutions that mark theirs, in nine of ten rows that have one.
fn are_answers(rows: &[Row], name: &str) -> bool {
    let read: Vec<bool> = rows
        .iter()
        .take(COMPARED)
        .filter_map(|row| nested(&row.values, name).filter(|value| !is_empty(value)))
        .filter_map(|value| match gold_value::exact(&value) {
            Ok(Gold::Missing { why: gold_value::SEVERAL, .. }) => None,
            Ok(Gold::Answer(_)) => {
                let is_link = value.as_str().is_some_and(|text| text.contains("://"));
                Some(!is_link && !value.is_boolean())
            }
            _ => Some(false),
        })
        .collect();
    let count = read.iter().filter(|is_answer| **is_answer).count();
    count > 0 && count * 10 >= read.len() * 9
}

/// The column of the gold answer by its name, where no listed one is.
pub(super) fn gold(rows: &[Row]) -> Option<String> {
    columns(rows, is_gold).into_iter().min_by_key(|name| name.contains('.'))
}

/// The only column that may hold the gold answer, where nothing else does.
pub(super) fn only(rows: &[Row]) -> Option<String> {
    let mut all = columns(rows, may_be_gold);
    all.retain(|name| !BARE.contains(&name.to_lowercase().as_str()));
    all.pop().filter(|_| all.is_empty())
}

/// Refuses a column that may hold the gold answer and has another one than what is taken from a row.
pub(super) fn refuse_other(
    rows: &[Row],
    taken: &str,
    answer: impl Fn(&Row) -> Option<Gold>,
) -> Result<(), String> {
    for other in columns(rows, may_be_gold) {
        let differs = |row: &&Row| {
            let value = nested(&row.values, &other).filter(|value| !is_empty(value))?;
            let (Some(Gold::Answer(own)), Ok(Gold::Answer(other))) =
                (answer(row), gold_value::exact(&value))
            else {
                return None;
            };
            differ(&own, &other).then_some((row.place(), other, own))
        };
        let mut found = rows.iter().take(COMPARED).filter_map(|row| differs(&row));
        if let Some((place, theirs, own)) = found.next() {
            return Err(format!(
                "columns `{other}` and `{taken}` have different answers (row {place}: `{}` and `{}`): name the one with \
                 the gold answers with --answer-column",
                short(&theirs),
                short(&own)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_their_words() {
        assert_eq!(
            words("groundTruth_final-answer 2"),
            ["ground", "truth", "final", "answer", "2"]
        );
        assert_eq!(words("ID"), ["id"]);
        for name in
            "gt_ans GT Ground_Truth groundTruth correctAnswer final-answer ANSWER".split(' ')
        {
            assert!(is_gold(name), "{name}");
        }
        for name in
            ["answer_type", "reference_url", "expected_length", "llm_answer", "gt_reasoning", "id"]
        {
            assert!(!is_gold(name) && !may_be_gold(name), "{name}");
        }
        assert!(may_be_gold("gold_label") && !may_be_gold("label") && may_be_gold("Answer Key"));
        assert!(is_key("correct_answer_num") && !is_key("id") && !is_key("answer_type"));
    }
}
