//! `tealight train`: one run of fine-tuning by verifiable rewards.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{ArgMatches, Args};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tealight_datasets::Dataset;

use super::config_merge;
use super::fine_tune::{Place, sizes};
use super::held_out::HeldOutOptions;
use super::options::{self, DataOptions, ModelOptions};
use super::place;
use super::session::Session;
use crate::files::Claim;
use crate::pretrained::Pretrained;
use crate::rollout::Encoded;
use crate::telemetry::{out, print};
use crate::train::memory::MemoryPlan;
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
    #[command(flatten)]
    #[serde(flatten)]
    held_out: HeldOutOptions,
    /// Where the model, the metrics and checkpoints go.
    #[arg(long, alias = "output-dir")]
    output: Option<PathBuf>,
    /// Continue from a checkpoint in --output: the newest, or the one named; from the start where there is none.
    #[arg(long, value_name = "CHECKPOINT", num_args = 0..=1, default_missing_value = "",
          alias = "resume-from-checkpoint")]
    #[serde(skip)]
    resume: Option<String>,
    /// Begin anew where --output holds a run: what Tealight wrote there is removed.
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    overwrite: bool,
    /// Print the resolved settings, the data, the first prompts and the memory plan, and stop.
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    dry_run: bool,
    /// Print every step's metrics as a JSON line, and the outcome as the last.
    #[arg(long)]
    #[serde(default)]
    json: bool,
}

/// The options of this command; `--resume` and `--dry-run` are for the command line alone.
pub(super) fn resolve(matches: &ArgMatches) -> Result<TrainOptions> {
    let mut options: TrainOptions = config_merge::resolve(matches, None)?;
    options.resume = matches.get_one("resume").cloned();
    options.dry_run = matches.get_flag("dry_run");
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}

pub(super) fn run(options: &TrainOptions, stop: &Stop) -> Result<()> {
    options.rlvr.settings.check()?;
    let plan = options.rlvr.plan()?;
    if options.rlvr.settings.splits() && !plan.rehearses() {
        bail!(
            "objective `{}` rehearses nothing: --pef-threshold, --extra-check, --explore, \
             --drop-unsolved and --rehearsal-samples have no effect",
            options.rlvr.objective
        );
    }
    if options.rlvr.settings.presamples.is_some() && !wants_presamples(&options.rlvr, &plan) {
        bail!(
            "objective `{}` needs no samples of the base: leave --presamples out",
            options.rlvr.objective
        );
    }
    if options.dry_run {
        return dry_run(options);
    }
    let Some(output) = &options.output else { bail!("--output DIR is needed") };
    let (_claim, resumed) = match &options.resume {
        Some(which) => (Claim::take(output)?, checkpoint::find(output, which)?),
        None if output.join("metrics.jsonl").exists()
            && !place::is_free(output)
            && !options.overwrite =>
        {
            bail!(
                "{}: holds a run already; add --resume to continue it, --overwrite to begin anew, or choose another --output",
                output.display()
            )
        }
        None => (place::fresh(output, options.overwrite)?, None),
    };
    if options.resume.is_some() && resumed.is_none() {
        tracing::info!("{}: no checkpoint yet; from the start", output.display());
    }
    let dataset = options.data.open(&options.data.dataset)?;
    let held_out = options.held_out.open(&options.data)?;
    if let Some(held_out) = &held_out {
        options::refuse_overlap(&dataset, held_out.dataset(), "--eval-dataset")?;
    }
    let (base, device) = options.model.load_to_train()?;
    let options = &options.with_length(&dataset, &base)?;
    place::clear(output, options.overwrite)?;
    options::record_config(options, output)?;
    stop.saves();
    let session = Session::new(&base, device, stop)?;
    let label = options.rlvr.objective.to_string();
    let place = Place {
        label: &label,
        output,
        resume: resumed.as_deref(),
        json: options.json,
        held_out: held_out.as_ref(),
    };
    let tuned = session.fine_tune(&dataset, &options.rlvr, &place)?;
    stop.check()?;
    session.save(&tuned, &output.join("final"))?;
    let (tokens, completions) = (tuned.state.num_tokens, tuned.state.num_completions);
    tracing::info!(
        "{} steps, {completions} completions, {tokens} tokens sampled; model in {}",
        tuned.state.global_step,
        output.join("final").display()
    );
    if options.json {
        let done = json!({
            "global_step": tuned.state.global_step, "num_completions": completions, "num_tokens": tokens,
            "skipped_steps": tuned.state.skipped_steps, "model": output.join("final"),
        });
        print(done)?;
    }
    Ok(())
}

impl TrainOptions {
    /// With the length of completions that is used.
    fn with_length(&self, dataset: &Dataset, base: &Pretrained) -> Result<Self> {
        let mut options = self.clone();
        let asked = &mut options.rlvr.settings.max_completion_length;
        *asked = Some(options::completion_length(*asked, &dataset.problems, base)?);
        Ok(options)
    }
}

/// Prompts that a dry run shows.
const SHOWN: usize = 2;

/// Shows what a run would do, as far as that is known without sampling.
fn dry_run(options: &TrainOptions) -> Result<()> {
    let dataset = options.data.open(&options.data.dataset)?;
    let (base, device) = options.model.load_to_train()?;
    let options = &options.with_length(&dataset, &base)?;
    let settings = &options.rlvr.settings;
    let (context, room) = (base.architecture.max_positions, settings.length());
    let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, room)?;
    let mut text = format!("{}\n", toml::to_string(options)?);
    for problem in problems.iter().take(SHOWN) {
        let prompt = base.tokenizer.decode_all(&problem.prompt)?;
        text.push_str(&format!(
            "prompt ({} tokens), answer `{}`:\n{prompt}\n\n",
            problem.prompt.len(),
            problem.problem.answer
        ));
    }
    let step = settings.prompts_per_step.min(problems.len()) * settings.num_generations;
    let sizes = sizes(&options.rlvr, &problems, &base.architecture);
    text.push_str(&format!(
        "a step: {step} completions of up to {room} tokens, prompts of up to {}\n",
        sizes.longest - room
    ));
    if device.is_cpu() {
        text.push_str("memory, planned for the longest sequences:\n");
        let plan = MemoryPlan::of(&base.architecture, sizes);
        plan.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    } else {
        text.push_str("memory is planned on the CPU alone\n");
    }
    write!(out(), "{text}")?;
    Ok(())
}
