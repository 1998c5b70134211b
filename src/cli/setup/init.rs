//! `tealight init [RECIPE]`: a settings file to begin with, in the current folder.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_core::output;

use super::{recipes, schema};
use crate::cli::commands;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct InitOptions {
    /// Recipe to begin with, as `tealight recipes` lists them.
    #[arg(value_name = "RECIPE", default_value = "countdown")]
    recipe: String,
}

pub(in crate::cli) fn run(options: &InitOptions) -> Result<()> {
    let recipe = recipes::find(&options.recipe)?;
    let stem = recipe.name.rsplit('/').next().unwrap_or(recipe.name);
    let file = PathBuf::from(format!("{stem}.toml"));
    let text = text(recipe)?;
    let opened = output::open(OpenOptions::new().write(true).create_new(true), &file);
    let mut opened = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!(
                "{}: exists already and is left as it is; rename it, or go to another folder",
                file.display()
            )
        }
        opened => opened.with_context(|| format!("{}: cannot be written", file.display()))?,
    };
    opened
        .write_all(text.as_bytes())
        .with_context(|| format!("{}: cannot be written", file.display()))?;
    tracing::info!(
        "{}: wrote the recipe {}; begin with: {}",
        file.display(),
        recipe.name,
        begin(recipe)
    );
    Ok(())
}

/// The command that reads the file of a recipe.
fn begin(recipe: &recipes::Recipe) -> String {
    let stem = recipe.name.rsplit('/').next().unwrap_or(recipe.name);
    format!("tealight {} --config {stem}.toml --output runs/{stem}", recipe.command())
}

/// The options of `train`, `study` and `sft` that a new file shows where its recipe leaves them at their defaults.
const SHOWN: &str = "model device use_peft task dataset test_dataset verifier max_samples objective objectives beta \
    num_generations prompts_per_step max_completion_length temperature max_steps learning_rate seed seeds n k \
    eval_dataset eval_steps save_steps";

/// The recipe, and behind it, commented out, the options that most runs need and that the recipe leaves at their
/// defaults.
fn text(recipe: &recipes::Recipe) -> Result<String> {
    let set: toml::Table = recipe.text.parse().context("a recipe")?;
    let command = recipe.command();
    let mut text = format!("# Run this file: {}\n{}", begin(recipe), recipe.text);
    text.push_str("\n# Further options and their defaults; tealight ");
    text.push_str(&format!("{command} --help shows all.\n"));
    let described = schema::of_command(command)?;
    let entry = commands::entry(command).context("no such command")?;
    for option in schema::settings(command, &entry.plain()) {
        let id = option.get_id().as_str();
        let property = &described["properties"][id];
        if set.contains_key(id)
            || !SHOWN.split(' ').any(|shown| shown == id)
            || !property.is_object()
        {
            continue;
        }
        let about = property["description"].as_str().unwrap_or_default();
        let value = property.get("default").map_or_else(|| "...".to_owned(), Value::to_string);
        text.push_str(&format!("# {}\n# {id} = {value}\n", about.replace('\n', " ")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_files_parse_to_their_recipe() {
        let known = ["train", "study"].map(|name| schema::of_command(name).expect("a command"));
        for id in SHOWN.split(' ') {
            assert!(known.iter().any(|schema| schema["properties"][id].is_object()), "{id}");
        }
        for recipe in &recipes::RECIPES {
            let text = text(recipe).expect(recipe.name);
            let read: toml::Table = text.parse().expect(recipe.name);
            assert_eq!(Ok(read), recipe.text.parse(), "{}: comments alone are added", recipe.name);
            // With its marks taken away every line of an option is TOML of that option.
            let lines = text.lines().filter_map(|line| line.strip_prefix("# "));
            let options = lines.filter(|line| line.contains(" = ") && !line.ends_with("..."));
            let shown = options.filter(|line| line.parse::<toml::Table>().is_ok()).count();
            assert!(shown >= 2, "{}: {shown} defaults", recipe.name);
        }
    }
}
