//! Training: one run of fine-tuning by verifiable rewards, or of supervised fine-tuning.

mod dry_run;
pub(crate) mod fine_tune;
pub(crate) mod held_out;
mod journal;
pub(crate) mod path;
mod recorder;
pub(crate) mod setup;
pub mod sft;
pub(crate) mod space;

use std::path::PathBuf;

use anyhow::{Result, bail};
use candle_core::Device;
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;
use tealight_eval::number::counted;

use crate::app::directory::{self, RunDirectory, Start};
use crate::app::folder_settings;
use crate::app::session::Session;
use crate::app::settings::{DataOptions, ModelOptions};
use crate::app::{data_file, lengths};
use crate::solvers::remote::EngineOptions;
pub use dry_run::{DryRun, dry_run};
pub use held_out::HeldOutOptions;
use held_out::HeldOutSet;
pub use setup::OnStep;
use setup::RunSetup;
use tealight_core::run_folder::{FINAL, METRICS};
use tealight_formats::pretrained::Pretrained;
use tealight_learn::train::checkpoint;
use tealight_learn::train::rlvr::{Rewarding, RlvrConfig, reads_base};
use tealight_system::claim::Claim;
use tealight_system::process::Process;
use tealight_system::stop::{Interrupted, Stop};

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
    /// The servers that sample in place of this process.
    #[command(flatten)]
    #[serde(flatten)]
    pub engine: EngineOptions,
    /// The problems that runs are evaluated on while they go.
    #[command(flatten)]
    #[serde(flatten)]
    pub held_out: HeldOutOptions,
}

/// A run that is done.
#[derive(Debug, Clone, Serialize)]
pub struct Trained {
    /// Training steps done, those before a resume included.
    pub global_step: usize,
    /// Completions sampled, those of the base included.
    pub num_completions: usize,
    /// Tokens sampled, all steps together.
    pub num_tokens: usize,
    /// Steps whose gradient was not finite.
    pub skipped_steps: usize,
    /// Where the model is.
    pub model: PathBuf,
}

/// Fine-tunes a model by verifiable rewards in `run_directory`; `on_step` sees the row of metrics of every step.
///
/// ```no_run
/// use tealight::app::directory::RunDirectory;
/// use tealight::app::settings::defaults;
/// use tealight::app::training;
/// use tealight::system::process::Process;
///
/// let mut options: training::TrainOptions = defaults();
/// options.model.model = "Qwen/Qwen2.5-0.5B-Instruct".into();
/// options.data.dataset = "gsm8k/train.jsonl".into();
/// let trained = training::run(&options, &RunDirectory::new("run"), &Process::alone(), None)?;
/// println!("{} steps; model in {}", trained.global_step, trained.model.display());
/// # anyhow::Ok(())
/// ```
pub fn run(
    options: &TrainOptions,
    run_directory: &RunDirectory,
    process: &Process,
    on_step: Option<&OnStep<'_>>,
) -> Result<Trained> {
    let Process { stop, ranks } = process;
    options.check_in(run_directory)?;
    let RunDirectory { path: output, start } = run_directory;
    let mut claim = None;
    let resumed = ranks.first(|| {
        options.rlvr.settings.report_to.iter().try_for_each(|target| target.check())?;
        let (taken, resumed) = run_directory.take()?;
        claim = Some(taken);
        Ok(resumed)
    })?;
    if matches!(start, Start::Resume(_)) && resumed.is_none() {
        tracing::info!("{}: no checkpoint yet; starting from the beginning", output.display());
    }
    let mut options = options.clone();
    options.model.template.set_date(run_directory.unreplaced(), ranks)?;
    let (mut dataset, mut held_out) = options.open()?;
    options.model.precision.check(options.rlvr.settings.lora.use_peft)?;
    let (mut base, device) = options.model.load_on(ranks, ModelOptions::load_to_train)?;
    let options = &options.with_length(&mut dataset, held_out.as_mut(), &base)?;
    stop.saves();
    let session = options.session(&mut base, device, stop)?.with_ranks(ranks);
    let setup = RunSetup {
        label: &options.rlvr.objective.to_string(),
        output,
        resume: resumed.as_deref(),
        begin: &|| {
            directory::begin(claim.as_ref(), output, start.existing())?;
            folder_settings::record(options, output)
        },
        on_step,
        held_out: held_out.as_ref(),
        path: None,
        engine: options.engine.remote.engine.is_some().then_some(&options.engine),
        correction: options.engine.correction(),
    };
    let tuned = session.fine_tune(&dataset, &options.rlvr, &setup);
    if matches!(&tuned, Err(error) if error.is::<Interrupted>()) {
        // Also while the base is sampled.
        folder_settings::say_how_to_continue("train", options, output);
    }
    let tuned = tuned?;
    ranks.first(|| claim.as_ref().map_or(Ok(()), Claim::check))?;
    if let Some(code) = ranks.first(|| Ok(stop.exit_code()))? {
        folder_settings::say_how_to_continue("train", options, output);
        return Err(Interrupted(code).into());
    }
    let model = output.join(FINAL);
    session.save(&tuned, &model)?;
    let state = tuned.state;
    tracing::info!(
        "{}, {}, {} sampled; model in {}",
        counted(state.global_step, "step"),
        counted(state.num_completions, "completion"),
        counted(state.num_tokens, "token"),
        model.display()
    );
    // A schedule that depends on the number of steps cannot be taken further.
    let may_go_on = options.rlvr.identity().settings.max_steps == 0;
    if may_go_on && checkpoint::find(output, "")?.is_some() {
        tracing::info!(
            "for more steps: tealight train --resume {} --max-steps {}{}",
            directory::as_argument(output),
            state.global_step.saturating_mul(2),
            folder_settings::to_continue(options, output)?
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

impl RunDirectory {
    /// Refuses a directory that a run cannot begin in; nothing is taken.
    fn check(&self) -> Result<()> {
        let output = &self.path;
        match &self.start {
            Start::New if output.join(METRICS).exists() && !directory::is_free(output) => {
                bail!(
                    "{}: holds a run already; add --resume to continue it, --overwrite to begin anew, or choose another --output",
                    output.display()
                )
            }
            Start::Resume(_) => Ok(()),
            Start::New | Start::Replace => directory::check(output, self.start.existing()),
        }
    }

    /// Takes the directory for this process alone, and says which checkpoint the run goes on from.
    fn take(&self) -> Result<(Claim, Option<PathBuf>)> {
        self.check()?;
        let output = &self.path;
        Ok(match &self.start {
            Start::Resume(which) => {
                let claim = Claim::take(output)?;
                let checkpoint = checkpoint::find(output, which)?;
                // A run that ended and left no checkpoint would begin anew, over its result.
                if checkpoint.is_none() && output.join(FINAL).exists() {
                    bail!(
                        "{}: this run has ended and has no checkpoint to continue from; begin anew with --overwrite in \
                         place of --resume",
                        output.display()
                    );
                }
                (claim, checkpoint)
            }
            Start::New | Start::Replace => (Claim::take(output)?, None),
        })
    }
}

/// Whether a run holds the base's weights beside the policy's: because something reads them, or for an adapter.
fn holds_base(config: &RlvrConfig) -> Result<bool> {
    // A policy that starts elsewhere is never the base, whose samples and log-probabilities are asked for at the start.
    let is_moved = config.settings.initial_policy.is_some();
    Ok(is_moved || config.settings.lora.use_peft || reads_base(config, &config.plan()?))
}

/// Whether it does for the log alone.
fn holds_base_to_log(config: &RlvrConfig) -> Result<bool> {
    let silent = RlvrConfig { settings: config.settings.unlogged(), ..config.clone() };
    Ok(holds_base(config)? && !holds_base(&silent)?)
}

impl TrainOptions {
    /// A session that holds the base where training uses it.
    fn session<'s>(
        &self,
        base: &'s mut Pretrained,
        device: Device,
        stop: &'s Stop,
    ) -> Result<Session<'s>> {
        if holds_base(&self.rlvr)? {
            return Session::new(base, device, stop);
        }
        tracing::info!("training does not use the base: only one copy of the weights is in memory");
        Session::without_base(base, device, stop)
    }

    /// Refuses settings that would have no effect.
    fn check(&self) -> Result<()> {
        self.rlvr.settings.check()?;
        self.rlvr.objective.open(self.rlvr.settings.num_generations)?;
        if let Some(start) =
            self.rlvr.settings.initial_policy.as_ref().filter(|start| !start.is_dir())
        {
            bail!("--initial-policy {}: there is no such directory", start.display());
        }
        let plan = self.rlvr.plan()?;
        let rounds = self.model.precision.rollout_dtype.is_some();
        self.engine.check(rounds)?;
        let of_rollouts =
            [("--engine", self.engine.remote.engine.is_some()), ("--rollout-dtype", rounds)];
        let given = of_rollouts.iter().find(|(_, is_given)| *is_given);
        if let (Some((option, _)), false) = (given, plan.is_on_policy()) {
            bail!(
                "objective `{}` samples nothing while it trains: {option} has no effect",
                self.rlvr.objective
            );
        }
        let settings = &self.rlvr.settings;
        if settings.presamples.is_some() && !plan.needs_presamples() {
            bail!(
                "objective `{}` needs no samples of the base: leave --presamples out",
                self.rlvr.objective
            );
        }
        Ok(())
    }

    /// Refuses such settings, and a directory to replace that holds what the run reads.
    fn check_in(&self, RunDirectory { path, start }: &RunDirectory) -> Result<()> {
        self.check()?;
        let presamples = self.rlvr.settings.presamples.as_deref();
        let start_from = self.rlvr.settings.initial_policy.as_deref();
        let inputs = self.model.paths().chain(presamples).chain(start_from);
        directory::refuse_inside(path, start.existing(), inputs)
    }

    /// The problems to train on, and those held out, which are others.
    fn open(&self) -> Result<(Dataset, Option<HeldOutSet>)> {
        let dataset = self.data.open_for_training()?;
        Rewarding::new(&self.rlvr, &self.rlvr.plan()?, dataset.verifier.grading())?;
        let held_out = self.held_out.open(&self.data, self.rlvr.settings.truncated)?;
        if let Some(held_out) = &held_out {
            data_file::refuse_overlap(&dataset, held_out.dataset(), "--eval-dataset")?;
        }
        Ok((dataset, held_out))
    }

    /// With the length of completions that is used: beside the longest prompt, held out or not. Prompts that are too
    /// long are left out first, where that is asked for.
    fn with_length(
        &self,
        dataset: &mut Dataset,
        mut held_out: Option<&mut HeldOutSet>,
        base: &Pretrained,
    ) -> Result<Self> {
        let (mut options, limits) = (self.clone(), base.tokenizer_and_context());
        let asked = &mut options.rlvr.settings.max_completion_length;
        self.data.filter(dataset, *asked, limits)?;
        if let Some(held_out) = held_out.as_deref_mut().and_then(HeldOutSet::dataset_mut) {
            self.data.filter(held_out, *asked, limits)?;
        }
        let held_out = held_out.iter().map(|set| &**set.dataset());
        let datasets = std::iter::once(&*dataset).chain(held_out);
        *asked = Some(lengths::completion_length(*asked, datasets, limits)?);
        Ok(options)
    }
}
