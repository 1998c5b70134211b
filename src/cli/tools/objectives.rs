//! `tealight objectives [NAME]`: the objectives by kind, or one with its keys.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::learn::objective::{self, Description};
use crate::system::telemetry::out;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ObjectivesOptions {
    /// Name of one objective, whose keys are then shown; without a name all objectives and all keys are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(in crate::cli) fn run(options: &ObjectivesOptions) -> Result<()> {
    let mut out = out();
    if let Some(name) = &options.name {
        return Ok(write!(out, "{}", one(&objective::describe(name)?))?);
    }
    for (title, when, all) in objective::kinds() {
        writeln!(out, "{title}")?;
        writeln!(out, "{}", wrapped(&format!("Use: {when}"), 2))?;
        for described in all {
            writeln!(out, "  {}\n{}", described.usage, wrapped(described.about, 6))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", objective::KEYS)?;
    writeln!(out, "\ntealight objectives NAME shows the keys of one objective with their values.")?;
    Ok(())
}

fn one(described: &Description) -> String {
    let mut text = format!("{}\n{}\n\n", described.usage, wrapped(described.about, 2));
    text.push_str(&format!("Kind: {}\n", described.kind));
    text.push_str(&format!("{}\n\n", wrapped(&format!("Use: {}", described.when), 0)));
    text.push_str("Keys\n");
    for (key, value, meaning) in &described.keys {
        text.push_str(&format!("  {key}={value}\n"));
        for (number, line) in meaning.lines().enumerate() {
            let blanks = if number == 0 { 6 } else { 10 };
            text.push_str(&format!("{}\n", wrapped(line, blanks)));
        }
    }
    for paper in &described.papers {
        text.push_str(&format!("\nPaper: {paper}"));
    }
    let changed =
        described.keys.first().map_or("KEY=VALUE".into(), |(key, ..)| format!("{key}=VALUE"));
    text.push_str(&format!(
        "\nChange a key: --objective {}:{changed}. Mathematics and differences from the papers: docs/objectives.md\n",
        described.name
    ));
    text
}

/// A text in lines of at most 96 characters, each behind so many blanks.
fn wrapped(text: &str, blanks: usize) -> String {
    const WIDTH: usize = 96;
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && blanks + line.len() + 1 + word.len() > WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    let indent = " ".repeat(blanks);
    lines.iter().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}
