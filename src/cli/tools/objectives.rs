//! `tealight objectives [NAME]`: the common objectives by kind, all of them, or one with its keys.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use tealight_learn::objective::{self, Anchor, Description, Objective, Rule};
use tealight_system::telemetry::out;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ObjectivesOptions {
    /// Name of one objective, whose keys are then shown; with settings, as in `divergence:f=(t-1)^2/(t+1)`, also its
    /// divergence as a formula. Default: the most common objectives are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// List all objectives and all keys.
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

pub(in crate::cli) fn run(options: &ObjectivesOptions) -> Result<()> {
    let mut out = out();
    if let Some(name) = &options.name {
        let described = one(&objective::describe(name)?);
        let text = described + &of_plan(name)?;
        return Ok(write!(out, "{text}")?);
    }
    writeln!(out, "{}\n", wrapped(objective::SYMBOLS, 0))?;
    let is_shown = |one: &Description| options.all || one.is_common;
    for (title, when, all) in objective::kinds() {
        let shown: Vec<Description> = all.into_iter().filter(is_shown).collect();
        if shown.is_empty() {
            continue;
        }
        writeln!(out, "{title}")?;
        if options.all {
            writeln!(out, "{}", wrapped(&format!("Use: {when}"), 2))?;
        }
        for described in shown {
            writeln!(out, "  {}\n{}", described.usage, wrapped(described.about, 6))?;
        }
        writeln!(out)?;
    }
    if options.all {
        writeln!(out, "{}\n", *objective::KEYS)?;
        writeln!(out, "Names in a rule (advantage=...)")?;
        objective::RULES.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        writeln!(out)?;
    } else {
        let count = objective::Objective::names().count();
        writeln!(
            out,
            "tealight objectives --all lists all {count} objectives, with the keys that change them."
        )?;
    }
    writeln!(out, "tealight objectives NAME shows the keys of one objective with their values.")?;
    Ok(())
}

/// The rule of the advantage, and the divergence as a formula with its properties, of an objective with its settings.
fn of_plan(name: &str) -> Result<String> {
    let plan = match name.parse::<Objective>() {
        Ok(objective) => objective.plan,
        // A name that needs values is described without them.
        Err(_) if !name.contains(':') => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    if let Some(rule) = plan.advantage() {
        text.push_str(&format!("\nAdvantage of a sample\n{}\n", wrapped(rule, 2)));
        for (name, value) in plan.rule.iter().flat_map(Rule::parameters) {
            text.push_str(&format!("  where {name} = {value}\n"));
        }
        text.push_str(
            "  Another rule: the key advantage=RULE (its names: tealight objectives --all)\n",
        );
    }
    let divergence = match &plan.anchor {
        Anchor::None => return Ok(text),
        Anchor::Base(regulariser) => regulariser.divergence,
        Anchor::Target(matching) => matching.divergence,
    };
    text.push_str(&format!("\nDivergence {divergence}\n"));
    for line in divergence.described()? {
        text.push_str(&format!("{}\n", wrapped(&line, 2)));
    }
    Ok(text)
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
