//! `tealight train`: one run of fine-tuning by verifiable rewards.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::options::{self, DataOptions, ModelOptions};
use super::session::Session;
use crate::files;
use crate::telemetry::say;
use crate::train::rlvr::{RlvrConfig, wants_presamples};
use crate::train::{Stop, checkpoint};

/// Options of `tealight train`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct TrainOptions {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataOptions,
    #[command(flatten)]
    #[serde(flatten)]
    rlvr: RlvrConfig,
    /// Where the model, the metrics and checkpoints go.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Continue from the newest checkpoint in --output.
    #[arg(long)]
    #[serde(skip)]
    pub(super) resume: bool,
    /// Show nothing but warnings and errors.
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(options: &TrainOptions, stop: &Stop) -> Result<()> {
    let Some(output) = &options.output else { bail!("--output DIR is needed") };
    options.rlvr.settings.check()?;
    let plan = options.rlvr.plan()?;
    if options.rlvr.settings.splits() && !plan.rehearses() {
        bail!(
            "objective `{}` rehearses nothing: --pef-threshold, --extra-check, --explore and \
             --drop-unsolved have no effect",
            options.rlvr.objective
        );
    }
    if options.rlvr.settings.presamples.is_some() && !wants_presamples(&options.rlvr, &plan) {
        bail!(
            "objective `{}` needs no samples of the base: leave --presamples out",
            options.rlvr.objective
        );
    }
    let resumed = if options.resume { Some(newest(output)?) } else { None };
    if resumed.is_none() {
        if output.join("metrics.jsonl").exists() {
            bail!(
                "{}: holds a run already; add --resume to continue it, or choose another --output",
                output.display()
            );
        }
        files::writable_directory(output)?;
    }
    let (base, device) = options.model.load_to_train(options.quiet)?;
    let dataset = options.data.open(&options.data.dataset, options.quiet)?;
    options::record_config(options, output, options.quiet)?;
    let session = Session::new(&base, device, stop, options.quiet)?;
    let label = options.rlvr.objective.to_string();
    let tuned = session.fine_tune(&dataset, &options.rlvr, &label, output, resumed.as_deref())?;
    stop.check()?;
    session.save(&tuned, &output.join("final"))?;
    let (tokens, completions) = (tuned.state.num_tokens, tuned.state.num_completions);
    say(
        options.quiet,
        format!(
            "{} steps, {completions} completions, {tokens} tokens sampled; model in {}",
            tuned.state.global_step,
            output.join("final").display()
        ),
    );
    Ok(())
}

fn newest(output: &Path) -> Result<PathBuf> {
    checkpoint::latest(output)
        .with_context(|| format!("{}: no checkpoint to resume from", output.display()))
}
