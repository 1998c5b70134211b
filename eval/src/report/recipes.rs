//! The commands that make the numbers of evaluations again.

use std::path::Path;

use serde_json::Value;

use super::page;
use super::view::Recipe;
use crate::results::Results;

/// Options of the commands that grade completions, with their defaults where they have one.
pub const GRADING: [(&str, &str); 19] = [
    ("dataset", ""),
    ("prompt_column", ""),
    ("answer_column", ""),
    ("verifier", ""),
    ("reward_weights", ""),
    ("correct_threshold", ""),
    ("classes", ""),
    ("gold_key", ""),
    ("completion_key", ""),
    ("filter", ""),
    ("k", ""),
    ("name", ""),
    ("model", "graded"),
    ("truncated", "wrong"),
    ("failed", "wrong"),
    ("missing", "left-out"),
    ("max_unjudged", "0.05"),
    ("require_gold", ""),
    ("prefilled_thinking", ""),
];

/// The options of a command that grades, ` --dataset x -k 1`, as its settings `config` say: those of grading and `more`,
/// without those at their default.
pub fn options(config: &Value, more: &[&str]) -> String {
    let one = |key: &str, default: &str, value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let dashes = if key.len() == 1 { "-" } else { "--" };
        let name = format!(" {dashes}{}", key.replace('_', "-"));
        match value {
            Value::Null | Value::Bool(false) => String::new(),
            Value::Bool(true) => name,
            _ if text == default => String::new(),
            _ => format!("{name} {}", page::shell_argument(Path::new(&text))),
        }
    };
    let option = |(key, default): (&str, &str)| match config.get(key) {
        None => String::new(),
        Some(Value::Array(values)) => values.iter().map(|value| one(key, default, value)).collect(),
        Some(value) => one(key, default, value),
    };
    GRADING.into_iter().chain(more.iter().map(|key| (*key, ""))).map(option).collect()
}

/// The command that graded completions from elsewhere, where one did: `grade` leaves no file of settings.
fn grading(results: &Results, output: &str) -> Option<String> {
    let file = results.config.get("file").and_then(Value::as_str)?;
    let file = page::shell_argument(Path::new(file));
    Some(format!("tealight grade {file}{} --output {output}", options(&results.config, &[])))
}

/// The commands of an evaluation, or of the comparison with those of its runs.
pub(super) fn recipes(runs: &[(&Path, &Results)], output: &Path) -> Vec<Recipe> {
    // Several write to folders of their own, which the comparison names.
    let place = |number: usize| match runs.len() {
        1 => "again".to_owned(),
        _ => format!("again-{number}"),
    };
    let one = |(number, (directory, results)): (usize, &(&Path, &Results))| {
        let (place, version) = (place(number + 1), results.tealight.clone());
        if let Some(command) = grading(results, &place) {
            return Recipe { command, version, ..Recipe::default() };
        }
        let recipe = Recipe::of_folder("eval", directory);
        if runs.len() == 1 || recipe.settings.is_none() {
            return Recipe { version, ..recipe };
        }
        let file = format!("{place}.toml");
        let command = format!("tealight eval --config {file} --output {place}");
        Recipe { command, file, version, ..recipe }
    };
    let mut all: Vec<Recipe> = runs.iter().enumerate().map(one).collect();
    if runs.len() > 1 {
        let folders: Vec<String> = (1..=runs.len()).map(place).collect();
        let output = page::shell_argument(output);
        let command = format!("tealight compare {} --output {output}", folders.join(" "));
        all.push(Recipe { command, ..Recipe::default() });
    }
    all
}
