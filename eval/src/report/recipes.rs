//! The commands that make the numbers of evaluations again.

use std::path::Path;

use serde_json::Value;

use super::page;
use super::view::Recipe;
use crate::results::Results;

/// The command that graded completions from elsewhere, where one did: `grade` leaves no file of settings.
fn grading(results: &Results) -> Option<String> {
    let setting = |key: &str| results.config.get(key);
    let argument = |text: &str| page::shell_argument(Path::new(text));
    let one = |key: &str, value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!(" --{} {}", key.replace('_', "-"), argument(&text))
    };
    let option = |key: &str| match setting(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(values)) => values.iter().map(|value| one(key, value)).collect(),
        Some(value) => one(key, value),
    };
    let file = argument(setting("file").and_then(Value::as_str)?);
    let options = [
        "dataset",
        "prompt_column",
        "answer_column",
        "verifier",
        "reward_weights",
        "correct_threshold",
        "classes",
        "gold_key",
    ];
    let options: String = options.into_iter().map(option).collect();
    Some(format!("tealight grade {file}{options} --output again"))
}

/// The commands of an evaluation, or of the comparison with those of its runs.
pub(super) fn recipes(runs: &[(&Path, &Results)], output: &Path) -> Vec<Recipe> {
    let one = |(directory, results): &(&Path, &Results)| match grading(results) {
        Some(command) => Recipe { command, version: results.tealight.clone(), ..Recipe::default() },
        None => Recipe::of_folder("eval", directory, &results.tealight),
    };
    let mut all: Vec<Recipe> = runs.iter().map(one).collect();
    if runs.len() > 1 {
        let folders = runs.iter().map(|(path, _)| page::shell_argument(path));
        let folders = folders.collect::<Vec<_>>().join(" ");
        let command =
            format!("tealight compare {folders} --output {}", page::shell_argument(output));
        all.push(Recipe { command, ..Recipe::default() });
    }
    all
}
