//! Training: one run of fine-tuning by verifiable rewards, or of supervised fine-tuning.

pub(crate) mod fine_tune;
pub(crate) mod held_out;
mod journal;
pub(crate) mod path;
pub mod sft;
pub(crate) mod space;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;

use crate::app::place;
use crate::app::session::Session;
use crate::app::settings::{self, DataOptions, ModelOptions};
use crate::files::Claim;
use crate::pretrained::Pretrained;
use crate::process::Process;
use crate::remote::EngineOptions;
use crate::rollout::Encoded;
use crate::train::memory::{Hardware, MemoryPlan};
use crate::train::rlvr::{RlvrConfig, reads_base, wants_presamples};
use crate::train::{Interrupted, checkpoint};
use fine_tune::Place;
pub use held_out::HeldOutOptions;
use held_out::HeldOutSet;
use space::sizes;

pub use journal::OnStep;

/// Options of `tealight train`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct TrainOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// The settings of the run.
    #[command(flatten)]
    #[serde(flatten)]
    pub rlvr: RlvrConfig,
    /// What samples in place of this process.
    #[command(flatten)]
    #[serde(flatten)]
    pub engine: EngineOptions,
    /// What runs are evaluated on while they go.
    #[command(flatten)]
    #[serde(flatten)]
    pub held_out: HeldOutOptions,
    /// Directory for the model, the metrics and the checkpoints.
    #[arg(long, alias = "output-dir")]
    pub output: Option<PathBuf>,
    /// Continue a run. Without a value, or with a checkpoint's name: the run in --output, from its newest checkpoint or
    /// the one named, or from the start where the run has none. With a run's directory in place of --output: that run,
    /// with the settings that it was begun with.
    #[arg(long, value_name = "RUN|CHECKPOINT", num_args = 0..=1, default_missing_value = "",
          alias = "resume-from-checkpoint")]
    #[serde(skip)]
    pub resume: Option<String>,
    /// Begin anew where --output holds a run: the files that Tealight wrote there are removed.
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    pub overwrite: bool,
    /// Print the resolved settings, the data, the first prompts and the memory plan, and stop.
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    pub dry_run: bool,
    /// Print every step's metrics as a JSON line, and the outcome as the last.
    #[arg(long)]
    #[serde(default)]
    pub json: bool,
}

/// A run that is done.
#[derive(Debug, Clone, Serialize)]
pub struct Trained {
    /// Steps.
    pub global_step: usize,
    /// Completions sampled, those of the base included.
    pub num_completions: usize,
    /// Tokens sampled.
    pub num_tokens: usize,
    /// Steps whose gradient was not finite.
    pub skipped_steps: usize,
    /// Where the model is.
    pub model: PathBuf,
}

/// Fine-tunes a model by verifiable rewards; `on_step` sees the row of metrics of every step.
///
/// # Errors
/// Settings that do not go together, files that cannot be read or written, a run that failed or was stopped.
pub fn run(
    options: &TrainOptions,
    process: &Process,
    on_step: Option<&OnStep<'_>>,
) -> Result<Trained> {
    let Process { stop, ranks } = process;
    options.check()?;

    let Some(output) = &options.output else { bail!("--output DIR is needed") };
    let mut claim = None;
    let resumed = ranks.first(|| {
        let (taken, resumed) = options.take(output)?;
        claim = Some(taken);
        Ok(resumed)
    })?;
    if options.resume.is_some() && resumed.is_none() {
        tracing::info!("{}: no checkpoint yet; from the start", output.display());
    }
    let (dataset, held_out) = options.open()?;
    options.model.precision.check(options.rlvr.settings.lora.use_peft)?;
    let (mut base, device) = options.model.load_on(ranks, ModelOptions::load_to_train)?;
    let options = &options.with_length(&dataset, held_out.as_ref(), &base)?;
    ranks.first(|| {
        place::clear(output, options.overwrite)?;
        settings::record_config(options, output)
    })?;
    stop.saves();
    let session = match options.rlvr.holds_base()? {
        true => Session::new(&base, device, stop)?,
        false => {
            tracing::info!(
                "nothing reads the base once it is trained: its weights are not held twice"
            );
            Session::without_base(&mut base, device, stop)?
        }
    };
    let session = session.among(ranks);
    let label = options.rlvr.objective.to_string();
    let place = Place {
        label: &label,
        output,
        resume: resumed.as_deref(),
        on_step,
        held_out: held_out.as_ref(),
        path: None,
        engine: options.engine.remote.engine.is_some().then_some(&options.engine),
        correction: options.engine.correction(),
    };
    let tuned = session.fine_tune(&dataset, &options.rlvr, &place)?;
    if let Some(code) = ranks.first(|| Ok(stop.exit_code()))? {
        tracing::info!("continue with: tealight train --resume {}", place::as_argument(output));
        return Err(Interrupted(code).into());
    }
    session.save(&tuned, &output.join("final"))?;
    let model = output.join("final");
    let state = tuned.state;
    tracing::info!(
        "{} steps, {} completions, {} tokens sampled; model in {}",
        state.global_step,
        state.num_completions,
        state.num_tokens,
        model.display()
    );
    // A schedule that depends on the number of steps cannot be taken further.
    let may_go_on = options.rlvr.identity().settings.max_steps == 0;
    if may_go_on && checkpoint::find(output, "")?.is_some() {
        tracing::info!(
            "for more steps: tealight train --resume {} --max-steps {}",
            place::as_argument(output),
            2 * state.global_step
        );
    }
    Ok(Trained {
        global_step: state.global_step,
        num_completions: state.num_completions,
        num_tokens: state.num_tokens,
        skipped_steps: state.skipped_steps,
        model,
    })
}

impl RlvrConfig {
    /// Whether a run holds the base's weights beside the policy's: where something reads them, or an adapter stands on
    /// them.
    ///
    /// # Errors
    /// An objective that is impossible.
    fn holds_base(&self) -> Result<bool> {
        Ok(self.settings.lora.use_peft || reads_base(self, &self.plan()?))
    }

    /// Whether it does for the log alone.
    fn holds_base_to_log(&self) -> Result<bool> {
        let silent = Self { settings: self.settings.unlogged(), ..self.clone() };
        Ok(self.holds_base()? && !silent.holds_base()?)
    }
}

impl TrainOptions {
    /// Takes the folder of the run, and says which checkpoint it goes on from.
    fn take(&self, output: &Path) -> Result<(Claim, Option<PathBuf>)> {
        Ok(match &self.resume {
            Some(which) => (Claim::take(output)?, checkpoint::find(output, which)?),
            None if output.join("metrics.jsonl").exists()
                && !place::is_free(output)
                && !self.overwrite =>
            {
                bail!(
                    "{}: holds a run already; add --resume to continue it, --overwrite to begin anew, or choose another --output",
                    output.display()
                )
            }
            None => (place::fresh(output, self.overwrite)?, None),
        })
    }

    /// Refuses settings that would have no effect.
    fn check(&self) -> Result<()> {
        let options = self;
        options.rlvr.settings.check()?;
        let plan = options.rlvr.plan()?;
        let rounds = options.model.precision.rollout_dtype.is_some();
        options.engine.check(options.rlvr.settings.lora.use_peft, rounds)?;
        if options.engine.remote.engine.is_some() && !plan.is_on_policy() {
            bail!(
                "objective `{}` samples nothing while it trains: --engine has no effect",
                options.rlvr.objective
            );
        }
        if rounds && !plan.is_on_policy() {
            bail!(
                "objective `{}` samples nothing while it trains: --rollout-dtype has no effect",
                options.rlvr.objective
            );
        }
        if options.rlvr.settings.splits() && !plan.rehearses() {
            bail!(
                "objective `{}` rehearses nothing: --pef-threshold, --extra-check, --explore, \
                 --drop-unsolved and --rehearsal-samples have no effect",
                options.rlvr.objective
            );
        }
        let logs = options.rlvr.settings.log_divergences > 0;
        if logs && (options.engine.remote.engine.is_some() || rounds) {
            bail!(
                "--log-divergences reads the policy's own samples, and another model draws them: leave it out, or \
                 --engine and --rollout-dtype"
            );
        }
        let reads_presamples = wants_presamples(&options.rlvr, &plan) || logs;
        if options.rlvr.settings.presamples.is_some() && !reads_presamples {
            bail!(
                "objective `{}` needs no samples of the base: leave --presamples out, or add --log-divergences",
                options.rlvr.objective
            );
        }
        Ok(())
    }

    /// The problems to train on, and those held out, which are others.
    fn open(&self) -> Result<(Dataset, Option<HeldOutSet>)> {
        let dataset = self.data.open(&self.data.dataset)?;
        let held_out = self.held_out.open(&self.data)?;
        if let Some(held_out) = &held_out {
            settings::refuse_overlap(&dataset, held_out.dataset(), "--eval-dataset")?;
        }
        Ok((dataset, held_out))
    }

    /// With the length of completions that is used: beside the longest prompt, held out or not.
    fn with_length(
        &self,
        dataset: &Dataset,
        held_out: Option<&HeldOutSet>,
        base: &Pretrained,
    ) -> Result<Self> {
        let mut options = self.clone();
        let asked = &mut options.rlvr.settings.max_completion_length;
        let held_out = held_out.iter().flat_map(|set| &set.dataset().problems);
        let problems = dataset.problems.iter().chain(held_out);
        *asked = Some(settings::completion_length(*asked, problems, base.room())?);
        Ok(options)
    }
}

/// Prompts that a dry run shows.
const SHOWN: usize = 2;

/// What a run would do, as far as that is known without sampling.
pub struct DryRun {
    /// The resolved settings, as TOML.
    pub settings: String,
    /// The first prompts as the model sees them: tokens, text, expected answer.
    pub prompts: Vec<(usize, String, String)>,
    /// Completions of a step.
    pub completions: usize,
    /// Most tokens of a completion.
    pub completion_length: usize,
    /// Tokens of the longest prompt.
    pub prompt_length: usize,
    /// The memory that is planned.
    pub memory: MemoryPlan,
    /// Whether the base is held beside the policy for the log alone.
    pub is_base_for_log: bool,
}

/// Finds out what a run would do, without sampling and without writing anything.
///
/// # Errors
/// Settings that do not go together, files that cannot be read.
pub fn dry_run(options: &TrainOptions) -> Result<DryRun> {
    options.check()?;
    let (dataset, held_out) = options.open()?;
    options.model.precision.check(options.rlvr.settings.lora.use_peft)?;
    let (base, device) = options.model.load_to_train()?;
    let options = &options.with_length(&dataset, held_out.as_ref(), &base)?;
    let settings = &options.rlvr.settings;
    let (context, room) = (base.architecture.max_positions, settings.length());
    let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, room)?;
    let shown = problems.iter().take(SHOWN).map(|problem| {
        let text = base.tokenizer.decode_all(&problem.prompt)?;
        Ok((problem.prompt.len(), text, problem.problem.answer.clone()))
    });
    let sizes = sizes(&options.rlvr, &problems, &base)?;
    Ok(DryRun {
        settings: toml::to_string(options)?,
        prompts: shown.collect::<Result<_>>()?,
        completions: settings.prompts_per_step.min(problems.len()) * settings.num_generations,
        completion_length: room,
        prompt_length: sizes.longest - room,
        memory: MemoryPlan::at(&base.architecture, sizes, &Hardware::of(&device, base.precision)?),
        is_base_for_log: options.rlvr.holds_base_to_log()?,
    })
}
