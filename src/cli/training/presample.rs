//! `tealight presample`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::presample::{self, PresampleOptions, Summary};
use crate::cli::{NO_OUTPUT, table};
use crate::system::process::Process;
use crate::system::telemetry::print;

/// The settings of this command, and the directory that a settings file may name too.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct Settings {
    #[command(flatten)]
    #[serde(flatten)]
    presample: PresampleOptions,
    /// Directory for the samples; an interrupted call is continued there.
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(in crate::cli) fn run(settings: Settings, process: &Process) -> Result<()> {
    let output = settings.output.context(NO_OUTPUT)?;
    let summary = presample::run(&settings.presample, &output, process)?;
    let text = match settings.presample.json {
        true => serde_json::to_string_pretty(&summary)?,
        false => rows(&summary),
    };
    Ok(print(text)?)
}

fn rows(summary: &Summary) -> String {
    let mut rows = vec![vec!["base".to_owned(), "value".to_owned()]];
    let mut row = |name: String, value: String| rows.push(vec![name, value]);
    for (k, value) in &summary.pass_at_k {
        row(format!("pass@{k}"), format!("{value:.4}"));
    }
    row("prompts".into(), summary.prompts.to_string());
    row("solved at least once".into(), summary.solved.to_string());
    row("correct completions (RFT set)".into(), summary.correct_completions.to_string());
    row(
        format!("D_pef, at least {:.3} correct", summary.pef_threshold),
        summary.d_pef.len().to_string(),
    );
    row("D_exp, the rest".into(), summary.d_exp.len().to_string());
    row("failed the extra check".into(), summary.failed_extra_check.to_string());
    table::plain(&rows)
}
