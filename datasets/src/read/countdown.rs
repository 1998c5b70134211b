//! Rows with `nums` and `target` (Countdown-Tasks-3to4 and TinyZero's files) to problems of the `countdown` verifier.

use std::path::PathBuf;

use serde_json::Value;

use super::gold_value::plain;
use super::known_columns::{ANSWERS, SOLUTIONS};
use super::problem::prompt_of;
use super::{Columns, Row, json_array, lookup};
use crate::verify::countdown::{Countdown, MAX_NUMBERS};
use crate::{DataError, Dataset, Problem, Result};
use tealight_core::Prompt;

/// Columns of the numbers and of the target, in a row or in its gold answer.
const NUMBERS: [&str; 2] = ["nums", "numbers"];
const PLACES: [&str; 3] = ["", "reward_model.ground_truth.", "ground_truth."];
/// Columns that may hold the question as well.
const PROMPTS: [&str; 4] = ["prompt", "question", "problem", "messages"];

/// The columns of the numbers and of the target.
struct Task {
    numbers: String,
    target: String,
}

impl Task {
    /// The columns by their names, whatever they hold.
    fn named(row: &Row) -> Option<Self> {
        let is_there =
            |name: &String| lookup(&row.values, name).is_some_and(|value| !value.is_null());
        PLACES.iter().find_map(|place| {
            let target = Some(format!("{place}target")).filter(is_there)?;
            let numbers = NUMBERS.iter().map(|name| format!("{place}{name}")).find(is_there)?;
            Some(Self { numbers, target })
        })
    }

    fn detect(row: &Row) -> Option<Self> {
        PLACES.iter().find_map(|place| {
            let target = format!("{place}target");
            whole(lookup(&row.values, &target)?)?;
            let is_list = |name: &String| {
                let items = lookup(&row.values, name).and_then(list);
                items.is_some_and(|items| {
                    items.len() > 1 && items.iter().all(|n| whole(n).is_some())
                })
            };
            let names = NUMBERS.iter().map(|name| format!("{place}{name}"));
            names.into_iter().find(is_list).map(|numbers| Self { numbers, target })
        })
    }
}

/// Whether rows are of this layout, and are to be judged by its verifier. A first row whose values are malformed does
/// not change that.
pub(super) fn is_layout(rows: &[Row], columns: &Columns) -> bool {
    let is_own = |spec: &String| spec == "countdown" || spec.starts_with("countdown:");
    let is_such = |row: &Row| Task::detect(row).is_some_and(|task| !has_other_answer(row, &task));
    let is_first =
        |first: &Row| is_such(first) || (Task::named(first).is_some() && rows.iter().any(is_such));
    columns.answer.is_none()
        && columns.rewards.verifiers.iter().all(is_own)
        && rows.first().is_some_and(is_first)
}

/// What is wrong with the values of a row that has the columns of this layout.
pub(super) fn mistake(row: &Row, files: &[PathBuf], columns: &Columns) -> Option<DataError> {
    let what = problem(row, &Task::named(row)?, None, columns).err()?;
    Some(row.malformed(files, what))
}

/// Whether the row has an answer of its own that is no expression of its numbers: `0, 1`, the places of two of them.
fn has_other_answer(row: &Row, task: &Task) -> bool {
    let text = |name: &str| lookup(&row.values, name).and_then(plain).unwrap_or_default();
    let target = text(&task.target);
    let is_other = |name: &str| {
        let answer = text(name);
        let is_formula = answer.chars().all(|c| c.is_ascii_digit() || "+-*/()=×÷ .".contains(c))
            && answer.contains(['+', '-', '*', '/', '×', '÷']);
        !answer.trim().is_empty() && answer != target && !is_formula
    };
    ANSWERS
        .iter()
        .filter(|name| !name.to_lowercase().starts_with("target"))
        .any(|name| is_other(name))
}

pub(super) fn dataset(files: &[PathBuf], rows: &[Row], columns: &Columns) -> Result<Dataset> {
    let name = files[0].display().to_string();
    let first = rows.iter().find_map(|row| Some((row, Task::detect(row)?)));
    let Some((first, task)) = first else { return Err(DataError::Empty { name }) };
    let asked = columns.prompt.clone().or_else(|| {
        let has = |name: &&str| first.values.get(*name).is_some_and(|value| !value.is_null());
        PROMPTS.into_iter().find(has).map(String::from)
    });
    let mut problems = Vec::with_capacity(rows.len());
    for row in rows {
        let malformed = |what| row.malformed(files, what);
        problems.push(problem(row, &task, asked.as_deref(), columns).map_err(malformed)?);
    }
    let prompt = match (&columns.prompting.template, &asked) {
        (Some(_), _) => "by the template".to_owned(),
        (None, Some(column)) => format!("`{column}`"),
        (None, None) => "written from the numbers".to_owned(),
    };
    let (numbers, target) = (&task.numbers, &task.target);
    let notes = vec![format!(
        "columns: numbers = `{numbers}`, target = `{target}`; the prompt is {prompt}"
    )];
    let dataset = Dataset::plain(name, problems, Countdown::default());
    Ok(Dataset { notes, ..dataset })
}

fn problem(
    row: &Row,
    task: &Task,
    asked: Option<&str>,
    columns: &Columns,
) -> std::result::Result<Problem, String> {
    let column = |name: &str| {
        lookup(&row.values, name).ok_or_else(|| format!("no column `{name}` in this row"))
    };
    let items = list(column(&task.numbers)?).unwrap_or_default();
    let numbers: Option<Vec<u32>> = items.iter().map(whole).collect();
    let numbers = numbers.filter(|numbers| (1..=MAX_NUMBERS).contains(&numbers.len()));
    let numbers = numbers.ok_or_else(|| {
        format!(
            "column `{}` should hold 1 to {MAX_NUMBERS} whole numbers of up to nine digits",
            task.numbers
        )
    })?;
    let target = whole(column(&task.target)?);
    let target =
        target.ok_or_else(|| format!("column `{}` should hold a whole number", task.target))?;
    let shown: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let prompt = match (&columns.prompting.template, asked) {
        (Some(template), _) => Prompt::question(&template.render(&row.values)?),
        (None, Some(column)) => prompt_of(row, column)?.ok_or("there is no question")?,
        (None, None) => Prompt::question(&question(&shown, target)),
    };
    let solution = SOLUTIONS.iter().find_map(|name| row.text(name)).map(str::to_owned);
    let gold = format!("{}={target}", shown.join(","));
    Ok(Problem { solution, ..Problem::new(row.id(), prompt, gold) })
}

/// The question for a model that knows no such task.
fn question(numbers: &[String], target: u32) -> String {
    format!(
        "Using each of the numbers {} exactly once, write an arithmetic expression that equals {target}. You may use \
         +, -, *, / and parentheses. Think step by step, and put the expression between <answer> and </answer>, as in \
         <answer>(1 + 2) / 3</answer>.",
        numbers.join(", ")
    )
}

/// A list, which CSV files hold as a text.
fn list(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items.clone()),
        Value::String(text) => json_array(text),
        _ => None,
    }
}

/// A whole number of up to nine digits, whatever its type.
fn whole(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number.fract() == 0.0 && (0.0..1e9).contains(&number)).then_some(number as u32)
}
