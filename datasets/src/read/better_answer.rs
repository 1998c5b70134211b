//! Which of two columns holds the gold answer: the solution beside a category, the text beside an index.

use super::gold_value::{self, Gold};
use super::judgement::said;
use super::known_columns::{ANSWERS, COMPLETIONS, SOLUTIONS};
use super::layout::{AnswerColumn, Layout, last_turn};
use super::second_question::answered_chat;
use super::{Row, chat, names, nested};
use crate::judge;

/// Columns that hold an answer in some datasets, and a category, a source or a verdict in others.
pub(super) const WEAK_ANSWERS: [&str; 5] = ["result", "target", "Target", "targets", "label"];
/// References that stand beside a completion or a conversation, whose answer may be another: columns of the gold answer
/// behind [`super::ANSWERS`].
pub const REFERENCES: [&str; 4] =
    ["metadata.expected_answer", "metadata.reference_answer", "metadata.ground_truth", "gts"];
/// Rows that two columns are compared in, at most.
const COMPARED: usize = 100;
/// The same for a note.
const NOTED: usize = 10_000;
/// Columns with a solution that is nobody's attempt.
const REFERENCE_SOLUTIONS: [&str; 3] = ["solution", "Solution", "gold_standard_solution"];
/// Columns whose numbers do not stand for a class of words.
const EXPLAINED: [&str; 3] = ["rationale", "Rationale", "explanation"];
/// Numbers up to which those of a column may be classes, levels or ratings.
const MOST_CLASSES: f64 = 20.0;
/// Longest gold answers that are compared, in bytes.
const SHORT: usize = 60;

/// Another column whose answers differ from the gold answers, in words.
pub(super) fn conflict(layout: &Layout, rows: &[Row]) -> Option<String> {
    let rows = &rows[..rows.len().min(NOTED)];
    let beside = |row: &Row| {
        let text = layout.text_beside(row).filter(|_| !layout.is_incorrect(row));
        text.map(|(text, _)| text)
    };
    let solved = || {
        let name = rows.iter().find_map(|row| layout.text_beside(row))?.1;
        solved_otherwise(layout, rows, name, &beside)
    };
    // A chat beside its own question, which is not read otherwise.
    let told = || {
        let is_read = layout.question.is_conversation();
        let chat = layout.question.column().filter(|_| !is_read)?;
        let chat = answered_chat(rows, chat)?;
        let turn = |row: &Row| Some(chat::messages(row.values.get(chat)?).ok()?.pop()?.content);
        solved_otherwise(layout, rows, chat, &turn)
    };
    let AnswerColumn::Exact(column) = &layout.answer else {
        return worked_otherwise(layout, rows).or_else(told);
    };
    if let Some(choices) = &layout.choices {
        return choices.conflict.clone().or_else(solved);
    }
    let listed = ANSWERS.into_iter().filter(|name| !WEAK_ANSWERS.contains(name));
    let keys = rows.first().into_iter().flat_map(|row| row.values.keys());
    let named =
        keys.map(String::as_str).filter(|name| !ANSWERS.contains(name) && names::is_gold(name));
    let sure = listed.chain(named).chain(REFERENCE_SOLUTIONS);
    let read = |name: &str| {
        let name = name.to_owned();
        move |row: &Row| answer_in(row, &name)
    };
    let mut others = sure.filter(|other| other != column);
    let other =
        others.find_map(|other| against(rows, (column, &read(column)), (other, &read(other))));
    other.or_else(solved).or_else(|| number_otherwise(layout, rows, column)).or_else(told)
}

/// A worked solution, or the last turn of a chat, whose answer differs from the solution that the gold answers are
/// taken from, in words.
fn worked_otherwise(layout: &Layout, rows: &[Row]) -> Option<String> {
    let read = |name: &str| {
        let name = name.to_owned();
        let is_turn = layout.question.is_conversation() && layout.question.column() == Some(&name);
        move |row: &Row| match is_turn {
            true => marked_or_number(&last_turn(row, &layout.question)?),
            false => answer_in(row, &name).or_else(|| number_in(row, &name)),
        }
    };
    let turn = layout.question.column().filter(|_| layout.question.is_conversation());
    let column = match layout.answer {
        AnswerColumn::LastTurn => turn?,
        _ => layout.answer.column()?,
    };
    let others = SOLUTIONS.into_iter().chain(turn).filter(|other| *other != column);
    let mut found =
        others.filter_map(|other| against(rows, (column, &read(column)), (other, &read(other))));
    found.next()
}

/// What worked solutions say against the gold answers.
fn solved_otherwise(
    layout: &Layout,
    rows: &[Row],
    other: &str,
    text: &dyn Fn(&Row) -> Option<String>,
) -> Option<String> {
    let column = layout.answer.column()?;
    let own = |row: &Row| match &layout.choices {
        Some(of) => of.letter(&of.columns.choices(row)?, &*nested(&row.values, &of.key)?),
        None => answer_in(row, column).or_else(|| number_in(row, column)),
    };
    let solved = |row: &Row| {
        let text = text(row).filter(|_| !has_power(row))?;
        let letter = match gold_value::worked(&text) {
            Gold::Answer(answer) if gold_value::has_mark(&text) => Some(answer),
            _ => None,
        };
        let letter = letter.filter(|answer| layout.choices.is_some() && answer.len() == 1);
        letter.or_else(|| marked_or_number(&text))
    };
    against(rows, (column, &own), (other, &solved))
}

/// Another number, in words, in a column that may hold the gold answer too, or a class, a score or a verdict.
fn number_otherwise(layout: &Layout, rows: &[Row], column: &str) -> Option<String> {
    let keys = rows.first()?.values.keys().map(String::as_str);
    let forms = keys.filter(|name| names::is_other_form(name));
    let weak = WEAK_ANSWERS.into_iter();
    let is_weak = |name: &str| WEAK_ANSWERS.contains(&name);
    // Several completions are those of models; one is the text beside the gold answer.
    let is_compared = |name: &&str| {
        *name != column && !(COMPLETIONS.contains(name) && layout.solution.as_deref() != Some(name))
    };
    let mut others = SOLUTIONS.into_iter().chain(weak).chain(forms).filter(is_compared);
    others.find_map(|other| {
        let is_solution = SOLUTIONS.contains(&other);
        let theirs =
            |row: &Row| number_in(row, other).filter(|_| !is_solution || !layout.is_incorrect(row));
        // `arith` is no answer where a solution is a number.
        let is_class = is_weak(column) && is_solution && !EXPLAINED.contains(&other);
        let own = |row: &Row| {
            number_in(row, column).or_else(|| word_in(row, column).filter(|_| is_class))
        };
        let is_of_class = |text: &str| {
            let most = if is_weak(other) { MOST_CLASSES } else { 1.0 };
            text.parse::<f64>().is_ok_and(|number| (-1.0..=most).contains(&number))
        };
        let all: Vec<(String, String)> =
            rows.iter().filter_map(|row| own(row).zip(theirs(row))).collect();
        let same = all.iter().filter(|(own, theirs)| !is_other(own, theirs)).count();
        let are_classes = all.iter().all(|(_, theirs)| is_of_class(theirs));
        let is_answer = !are_classes || 2 * same >= all.len();
        is_answer.then(|| against(rows, (column, &own), (other, &theirs))).flatten()
    })
}

/// A column's name, and its answer in a row.
type Answers<'a> = (&'a str, &'a dyn Fn(&Row) -> Option<String>);

/// What a column says against another one, in words.
fn against(
    rows: &[Row],
    (column, own): Answers<'_>,
    (other, theirs): Answers<'_>,
) -> Option<String> {
    let differs =
        |row: &&Row| own(row).zip(theirs(row)).is_some_and(|(own, other)| is_other(&own, &other));
    let found: Vec<&Row> = rows.iter().filter(differs).collect();
    let first = found.first()?;
    Some(format!(
        "`{other}` has another answer than `{column}` in {} of {} rows, first in row {}: `{}`, not `{}`; the answer is \
         taken from `{column}`; --answer-column names another",
        found.len(),
        rows.len(),
        first.place(),
        theirs(first)?,
        own(first)?
    ))
}

/// Whether one is another answer, and not a word instead of a number, or the same with fewer decimals.
fn is_other(own: &str, theirs: &str) -> bool {
    is_word(own) && is_number(theirs) || differ(own, theirs) && !is_rounded(own, theirs)
}

/// Whether two decimals are equal but for the last place of the shorter one, which may be rounded.
fn is_rounded(one: &str, other: &str) -> bool {
    let places = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let least = places(one).min(places(other));
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    let unit = 0.1_f64.powi(i32::try_from(least).unwrap_or(i32::MAX));
    least > 0
        && places(one) != places(other)
        && numbers.is_some_and(|(one, other)| (one - other).abs() < unit)
}

/// Whether a text is a number alone: `-1,234.5`, `3/4`, `\frac{3}{4}`.
fn is_number(text: &str) -> bool {
    let bare = text.replace("\\dfrac", "").replace("\\frac", "");
    bare.starts_with(|c: char| c.is_ascii_digit() || "-+.{".contains(c))
        && bare.contains(|c: char| c.is_ascii_digit())
        && bare.chars().all(|c| c.is_ascii_digit() || "-+.,/{}".contains(c))
}

fn is_word(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).count() > 1
        && !text.contains(|c: char| c.is_ascii_digit())
}

/// The answer of a text, where it is marked, or a number and the text is short.
fn marked_or_number(text: &str) -> Option<String> {
    let is_marked = gold_value::has_mark(text);
    if !is_marked && (text.len() > SHORT || text.contains("://")) {
        return None;
    }
    let Gold::Answer(answer) = gold_value::worked(text) else { return None };
    let bare = answer.trim().trim_matches('$').trim();
    let is_answer = if is_marked { is_short(&answer) } else { is_number(bare) };
    is_answer.then(|| bare.to_owned())
}

/// Whether a power of ten in another column belongs to the answer, as SciBench's.
fn has_power(row: &Row) -> bool {
    row.text("unit").is_some_and(|unit| unit.contains("10^"))
}

/// The number that is a column's answer.
fn number_in(row: &Row, column: &str) -> Option<String> {
    let value = nested(&row.values, column).filter(|it| it.is_string() || it.is_number())?;
    let answer = marked_or_number(&gold_value::plain(&value)?).filter(|it| is_number(it))?;
    Some(answer).filter(|_| !has_power(row))
}

/// The words of a class that stand where answers do; verdicts are none.
fn word_in(row: &Row, column: &str) -> Option<String> {
    let text = row.text(column)?.trim();
    let is_class = text.len() <= SHORT && is_word(text) && said(text).is_none();
    is_class.then(|| text.to_owned())
}

/// Whether two answers may differ for certain.
fn is_short(answer: &str) -> bool {
    answer.len() <= SHORT && answer.contains(|c: char| c.is_ascii_digit())
}

/// The answer in a column, where that is short and has a number: of a solution what is marked.
fn answer_in(row: &Row, column: &str) -> Option<String> {
    let value = nested(&row.values, column)?;
    let text = gold_value::plain(&value)?;
    let is_marked = gold_value::has_mark(&text);
    if !is_marked && (text.len() > SHORT || REFERENCE_SOLUTIONS.contains(&column)) {
        return None;
    }
    let gold =
        if is_marked { gold_value::worked(&text) } else { gold_value::exact(&value).ok()? };
    let Gold::Answer(answer) = gold else { return None };
    is_short(&answer).then_some(answer)
}

/// Whether one answer is wrong where the other is the gold answer, and the other way around.
pub(super) fn differ(one: &str, other: &str) -> bool {
    judge::same(one, other) == Some(false) && judge::same(other, one) == Some(false)
}

/// Whether the answers that solutions mark are others than a column's, in most rows.
pub(super) fn marks_others(
    rows: &[Row],
    column: &str,
    solution: impl Fn(&Row) -> Option<String>,
) -> bool {
    let marked = |row: &Row| {
        let text = solution(row).filter(|text| text.contains("\\box") || text.contains("####"))?;
        let Gold::Answer(answer) = gold_value::worked(&text) else { return None };
        let other = nested(&row.values, column).and_then(|value| gold_value::plain(&value));
        Some(other.is_some_and(|other| gold_value::is_same(&answer, &other)))
    };
    let compared: Vec<bool> = rows.iter().take(COMPARED).filter_map(marked).collect();
    let same = compared.iter().filter(|is_same| **is_same).count();
    2 * same < compared.len()
}

/// Whether a column holds numbers alone, as texts or not.
pub(super) fn are_numbers(rows: &[Row], column: &str) -> bool {
    let mut values = rows.iter().filter_map(|row| gold_value::plain(row.values.get(column)?));
    values.all(|text| text.trim().parse::<f64>().is_ok())
}

/// The column, or that with the texts of the classes that it numbers: `target_text` beside `target`.
pub(super) fn text_of_index(rows: &[Row], column: &str) -> String {
    let are_numbers = rows
        .iter()
        .filter_map(|row| row.values.get(column))
        .all(|value| value.is_null() || value.is_i64());
    let texts = ["text", "name"].map(|end| format!("{column}_{end}"));
    let is_text =
        |name: &&String| rows.iter().any(|row| row.text(name).is_some_and(|text| !text.is_empty()));
    match texts.iter().find(is_text) {
        Some(text) if are_numbers => text.clone(),
        _ => column.to_owned(),
    }
}
