//! `tealight tasks [NAME]`: the tasks whose answers can be listed, one of them, or its instances as JSON lines.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tealight_core::similar::nearest;
use tealight_datasets::task::{self, Kind, instances, knobs, reasoning_gym};

use tealight_system::range::{COUNT, SEED};
use tealight_system::telemetry::out;

/// Problems that the numbers of answers are taken over.
const PROBLEMS: usize = 200;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct TasksOptions {
    /// A task, or a dataset of it: TASK/SPLIT-PARAMETERS, such as colouring/test-n7-m9. Default: all tasks are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Number of instances of NAME to print, as JSON lines.
    #[arg(short, add = COUNT)]
    n: Option<usize>,
    /// Seed of the instances; 0 gives the instances of `--dataset NAME`.
    #[arg(long, default_value_t = 0, add = SEED)]
    seed: u64,
    /// Shape of the lines: jsonl has id, prompt, answer (what the verifier compares with), solution, total and answers;
    /// reasoning-gym has question, answer and metadata, and is read again by --dataset.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
}

/// Shape of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    Jsonl,
    ReasoningGym,
}

pub(in crate::cli) fn run(options: &TasksOptions) -> Result<()> {
    match (&options.name, options.n) {
        (Some(name), Some(count)) => write_instances(options, name, count),
        (None, Some(_)) => bail!(
            "-n: name the task whose instances are printed, as in `tealight tasks colouring -n 3`"
        ),
        (_, None) if options.seed != 0 => bail!("--seed has no effect without -n N"),
        (_, None) if options.format != Format::Jsonl => {
            bail!("--format has no effect without -n N")
        }
        (Some(name), None) => describe(name),
        (None, None) => list(),
    }
}

/// The task of a name, and what follows the slash.
fn found(name: &str) -> Result<(&'static Kind, &str)> {
    let (task, split) = name.split_once('/').unwrap_or((name, ""));
    let kind = task::find(task).with_context(|| {
        let known: Vec<&str> = task::TASKS.iter().map(|kind| kind.name).collect();
        match nearest(task, known.iter().copied()) {
            Some(meant) => format!("no task `{task}`; did you mean `{meant}`?"),
            None => format!("no task `{task}`; choose one of {}", known.join(", ")),
        }
    })?;
    Ok((kind, split))
}

fn write_instances(options: &TasksOptions, name: &str, count: usize) -> Result<()> {
    let (kind, split) = found(name)?;
    let wanted = knobs::parse(kind, split)?;
    let problems = instances::with_seed(kind, split, Some(count), options.seed)?.problems;
    let mut out = out();
    for (index, problem) in problems.iter().enumerate() {
        let row = match options.format {
            Format::ReasoningGym => reasoning_gym::row(kind, &wanted, problem, index),
            Format::Jsonl => json!({
                "id": problem.id,
                "prompt": problem.prompt,
                "answer": problem.answer,
                "solution": problem.solution,
                "total": problem.total,
                "answers": (kind.texts)(problem),
            }),
        };
        writeln!(out, "{row}")?;
    }
    if problems.len() < count {
        let (all, name) = (problems.len(), kind.name);
        tracing::warn!("{name}/{}: {all} different instances were found, not {count}", wanted.name);
    }
    Ok(())
}

fn list() -> Result<()> {
    let mut out = out();
    for kind in task::TASKS {
        writeln!(out, "{}", row(kind, "")?)?;
    }
    writeln!(
        out,
        "A dataset is TASK/SPLIT-PARAMETERS, such as colouring/test-n7-m9; splits are train, valid, test and sft.\n\
         tealight tasks NAME describes one task, tealight tasks NAME -n 3 prints instances."
    )?;
    Ok(())
}

fn describe(name: &str) -> Result<()> {
    let (kind, split) = found(name)?;
    let mut out = out();
    writeln!(out, "{}", row(kind, split)?)?;
    let problems = instances::with_seed(kind, split, Some(PROBLEMS), 0)?.problems;
    let [least, median, most] = instances::spread(&problems);
    writeln!(
        out,
        "  answers a problem: {least} to {most}, median {median}, over {} problems",
        problems.len()
    )?;
    Ok(())
}

/// A task's question, an example and its parameters.
fn row(kind: &'static Kind, split: &str) -> Result<String> {
    let problems = instances::with_seed(kind, split, Some(1), 0)?.problems;
    let problem = problems.first().context("no instance")?;
    let solution = problem.solution.as_deref().unwrap_or_default();
    let total = match problem.total {
        Some(1) => "the one answer".to_owned(),
        total => format!("one of {} answers", total.unwrap_or_default()),
    };
    Ok(format!(
        "{}: {}\n  {} {solution}   ({total})\n  parameters: {}\n",
        kind.name,
        kind.about,
        problem.prompt.plain(),
        knobs::usage(kind)
    ))
}
