//! `tealight show`: completions that training logged or an evaluation sampled, as people read them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tealight_eval::number::{counted, signed};

use super::questions::Questions;
use crate::app::data_file;
use crate::system::range::LIMIT_OR_ZERO;
use crate::system::telemetry::{completions, out};

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ShowOptions {
    /// Directory of a training run, an evaluation or a model of a study, or one of its completions/*.parquet or
    /// samples*.jsonl files.
    #[arg(value_name = "DIR|FILE")]
    place: Option<PathBuf>,
    /// Training step whose completions are shown. Default: the last logged step.
    #[arg(long, add = LIMIT_OR_ZERO)]
    step: Option<usize>,
    /// Show only completions with this verdict.
    #[arg(long, value_enum)]
    verdict: Option<VerdictFilter>,
    /// Show only completions that were truncated at --max-completion-length.
    #[arg(long)]
    #[serde(default)]
    truncated: bool,
    /// Number of completions to show.
    #[arg(long, default_value_t = 10, add = LIMIT_OR_ZERO)]
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
    let Some(place) = &options.place else {
        bail!("name the directory of a training run or an evaluation, or one of its files")
    };
    let files = match (place.is_dir(), place.exists()) {
        (true, _) => chosen(place, options.step)?,
        (false, true) => vec![place.clone()],
        (false, false) => bail!("{}: no such directory or file", place.display()),
    };
    let (mut out, mut shown) = (out(), 0);
    for file in files {
        if shown > 0 && shown == options.limit {
            break;
        }
        let rows = data_file::table(&file)?;
        if rows.is_empty() {
            bail!("{}: no completion", file.display());
        }
        let wanted = rows.iter().filter(|row| options.wants(row));
        let mut here: Vec<_> = wanted.take(options.limit - shown).cloned().collect();
        let lacks_question =
            |row: &Map<_, _>| !row.contains_key("prompt") || !row.contains_key("gold");
        let questions = match here.iter().any(lacks_question) {
            true => Questions::of_file(&file),
            false => Questions::default(),
        };
        for row in &mut here {
            questions.complete(row);
            match options.json {
                true => writeln!(out, "{}", Value::Object(row.clone()))?,
                false => writeln!(out, "{}", readable(row))?,
            }
        }
        shown += here.len();
        if !options.json {
            let all = counted(rows.len(), "completion");
            writeln!(out, "{} of {all} in {}", here.len(), file.display())?;
        }
    }
    Ok(())
}

impl ShowOptions {
    fn wants(&self, row: &Map<String, Value>) -> bool {
        // Training writes `no-answer`, an evaluation `no_answer`.
        let is_judged = |wanted: VerdictFilter| {
            let verdict = row.get("verdict").and_then(Value::as_str);
            verdict.is_some_and(|verdict| verdict.replace('_', "-") == wanted.recorded())
        };
        self.verdict.is_none_or(is_judged) && (!self.truncated || is_truncated(row))
    }
}

/// How the names of files begin that have the samples of a study's model.
pub(super) const STUDY_SAMPLES: &str = "samples-";

/// The files of a directory: that of `step`, or of the last step that was logged; of an evaluation those of its sets.
fn chosen(directory: &Path, step: Option<usize>) -> Result<Vec<PathBuf>> {
    let folder = directory.join("completions");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return sets(directory, step);
    };
    let number = |name: &str| -> Option<usize> {
        name.strip_prefix("completions_")?.strip_suffix(".parquet")?.parse().ok()
    };
    let mut steps: Vec<usize> =
        entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    steps.sort_unstable();
    match step.or_else(|| steps.last().copied()) {
        Some(step) if steps.contains(&step) => Ok(vec![completions::place(directory, step)]),
        Some(step) => {
            let there: Vec<String> = steps.iter().map(ToString::to_string).collect();
            bail!(
                "{}: no completions of step {step}; there are {}",
                directory.display(),
                there.join(", ")
            )
        }
        None => bail!("{}: no completions were logged yet", directory.display()),
    }
}

/// The samples of an evaluation, or of a model of a study, a file for each set; those at temperature 0 are in files of
/// their own.
fn sets(directory: &Path, step: Option<usize>) -> Result<Vec<PathBuf>> {
    let shown = directory.display();
    let listed = |folder: &Path, prefix: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|file| {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_greedy = name.ends_with(".greedy.jsonl");
            name.starts_with(prefix) && name.ends_with(".jsonl") && !is_greedy
        });
        files.sort();
        files
    };
    let mut files = listed(&directory.join("samples"), "");
    files.extend(listed(directory, STUDY_SAMPLES));
    match (files.is_empty(), step) {
        (true, _) => bail!(
            "{shown}: no completions here: training writes them every --log-completions steps (by default 10); or name \
             the --output of an evaluation"
        ),
        (false, Some(_)) => bail!("{shown}: an evaluation has no steps; leave --step out"),
        (false, None) => Ok(files),
    }
}

/// Whether a completion reached the limit on its length; files of other tools do not say.
fn is_truncated(row: &Map<String, Value>) -> bool {
    row.get("is_finished").is_some_and(|finished| *finished == 0 || *finished == false)
}

fn readable(row: &Map<String, Value>) -> String {
    let text = |name: &str| match row.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let labelled = |name: &str| match text(name) {
        value if value.is_empty() => value,
        value => format!("{name} {value}"),
    };
    let verdict = match text("verdict") {
        recorded if recorded == VerdictFilter::Incorrect.recorded() => "incorrect".into(),
        other => other.replace('_', "-"),
    };
    let advantage = row.get("advantage").and_then(Value::as_f64);
    let tokens = row.get("tokens").and_then(Value::as_u64).unwrap_or(0);
    let end = if is_truncated(row) { ", truncated" } else { "" };
    let words = [
        labelled("step"),
        text("problem"),
        labelled("sample"),
        labelled("reward"),
        advantage.map_or(String::new(), |advantage| format!("advantage {}", signed(advantage, 2))),
        verdict,
        format!("({}{end})", counted(tokens as usize, "token")),
    ];
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let mut lines = vec![words.join(" ")];
    let indented = |text: String| text.trim().replace('\n', "\n  ");
    if row.contains_key("prompt") {
        lines.push(format!("  {}", indented(text("prompt"))));
    }
    lines.push(format!("  -> {}", indented(text("completion"))));
    // The gold answer of a generated task is the prompt itself, without its colon.
    let gold = text("gold");
    if !gold.is_empty() && text("prompt").trim().trim_end_matches(':') != gold {
        lines.push(format!("  gold answer: {}", indented(gold)));
    }
    lines.push(String::new());
    lines.join("\n")
}
