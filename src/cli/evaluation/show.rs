//! `tealight show`: completions that training logged, as people read them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::data_file;
use crate::system::telemetry::{completions, out};

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ShowOptions {
    /// A run's directory, or one of its completions/*.parquet files.
    #[arg(value_name = "RUN|FILE")]
    place: Option<PathBuf>,
    /// Training step whose completions are shown. Default: the last logged step.
    #[arg(long)]
    step: Option<usize>,
    /// Show only completions with this verdict.
    #[arg(long, value_enum)]
    verdict: Option<VerdictFilter>,
    /// Show only completions that were truncated at --max-completion-length.
    #[arg(long)]
    #[serde(default)]
    truncated: bool,
    /// Number of completions to show.
    #[arg(long, default_value_t = 10)]
    limit: usize,
    /// Print each completion as a JSON line.
    #[arg(long)]
    json: bool,
}

/// Verdicts to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VerdictFilter {
    /// A correct answer.
    Correct,
    /// An incorrect answer.
    #[value(alias = "wrong")]
    #[serde(alias = "wrong")]
    Incorrect,
    /// A completion without an answer.
    NoAnswer,
    /// An answer that could not be read.
    Unparsable,
    /// A completion that the verifier could not judge.
    Unjudged,
}

impl VerdictFilter {
    /// The name in completions/*.parquet.
    fn recorded(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Incorrect => "wrong",
            Self::NoAnswer => "no-answer",
            Self::Unparsable => "unparsable",
            Self::Unjudged => "unjudged",
        }
    }
}

pub(in crate::cli) fn run(options: &ShowOptions) -> Result<()> {
    let Some(place) = &options.place else { bail!("name a run's directory or a .parquet file") };
    let file = match (place.is_dir(), place.exists()) {
        (true, _) => chosen(place, options.step)?,
        (false, true) => place.clone(),
        (false, false) => bail!("{}: no such run or file", place.display()),
    };
    let rows = data_file::table(&file)?;
    if rows.is_empty() {
        bail!("{}: no completion", file.display());
    }
    let is_wanted = |row: &&Map<String, Value>| {
        let has_verdict =
            |wanted: VerdictFilter| row.get("verdict") == Some(&wanted.recorded().into());
        options.verdict.is_none_or(has_verdict) && (!options.truncated || is_truncated(row))
    };
    let (mut out, mut shown) = (out(), 0);
    for row in rows.iter().filter(is_wanted).take(options.limit) {
        match options.json {
            true => writeln!(out, "{}", Value::Object(row.clone()))?,
            false => writeln!(out, "{}", readable(row))?,
        }
        shown += 1;
    }
    if !options.json {
        writeln!(out, "{shown} of {} completions in {}", rows.len(), file.display())?;
    }
    Ok(())
}

/// The file of `step`, or of the last step that was logged.
fn chosen(run: &Path, step: Option<usize>) -> Result<PathBuf> {
    let folder = run.join("completions");
    let entries = std::fs::read_dir(&folder).with_context(|| {
        format!("{}: no completions were logged here; train with --log-completions", run.display())
    })?;
    let number = |name: &str| -> Option<usize> {
        name.strip_prefix("completions_")?.strip_suffix(".parquet")?.parse().ok()
    };
    let mut steps: Vec<usize> =
        entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    steps.sort_unstable();
    match step.or_else(|| steps.last().copied()) {
        Some(step) if steps.contains(&step) => Ok(completions::place(run, step)),
        Some(step) => {
            let there: Vec<String> = steps.iter().map(ToString::to_string).collect();
            bail!(
                "{}: no completions of step {step}; there are {}",
                run.display(),
                there.join(", ")
            )
        }
        None => bail!("{}: no completions were logged yet", run.display()),
    }
}

/// Whether a completion reached the limit on its length; files of other tools do not say.
fn is_truncated(row: &Map<String, Value>) -> bool {
    row.get("is_finished").and_then(Value::as_i64) == Some(0)
}

fn readable(row: &Map<String, Value>) -> String {
    let text = |name: &str| match row.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let verdict = match text("verdict") {
        recorded if recorded == VerdictFilter::Incorrect.recorded() => "incorrect".into(),
        other => other,
    };
    let advantage = row.get("advantage").and_then(Value::as_f64).unwrap_or(0.0);
    format!(
        "step {} {} reward {} advantage {advantage:+.2} {verdict} ({} tokens{})\n  {}\n  -> {}\n",
        text("step"),
        text("problem"),
        text("reward"),
        text("tokens"),
        if is_truncated(row) { ", truncated" } else { "" },
        text("prompt").trim().replace('\n', "\n  "),
        text("completion").trim().replace('\n', "\n  ")
    )
}
