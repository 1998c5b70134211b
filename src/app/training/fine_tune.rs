//! One run of fine-tuning, as `train` and `study` do it: resolve, resume, train, save, log.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use serde_json::{Value, json};
use tealight_core::run_folder::METRICS;
use tealight_datasets::{Dataset, Problem};

use super::held_out::HeldOutSet;
use super::recorder::Recorder;
use super::setup::RunSetup;
use crate::app::directory::as_argument;
use crate::app::session::Session;
use crate::solvers::remote::{EngineWeights, Fleet, ServedPolicy};
use tealight_eval::number::counted;
use tealight_formats::adapter::{Adapter, LoraOptions};
use tealight_formats::pretrained::Pretrained;
use tealight_learn::objective::Plan;
use tealight_learn::presample::Presamples;
use tealight_learn::rollout::Encoded;
use tealight_learn::train::AdamW;
use tealight_learn::train::checkpoint::{self, Checkpoint, Checkpoints, State};
use tealight_learn::train::rlvr::{
    self, Data, Models, Rewarding, RlvrConfig, RolloutEngine, Run, Sampling, TrainingData,
};
use tealight_nn::generate::Engine;
use tealight_nn::policy::Policy;
use tealight_system::files::copy_atomic;
use tealight_system::telemetry::JsonLines;

/// A run that has ended.
pub(crate) struct FineTuned {
    pub(crate) policy: Policy,
    /// The adapter that was trained in place of all weights.
    pub(crate) adapter: Option<Adapter>,
    pub(crate) state: State,
}

impl Session<'_> {
    /// Fine-tunes a copy of the base, or an adapter on it, and leaves metrics, checkpoints and the settings in
    /// its directory.
    pub(crate) fn fine_tune(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        setup: &RunSetup<'_>,
    ) -> Result<FineTuned> {
        let plan = checked_plan(config, dataset.problems.len())?;
        let rewarding = Rewarding::new(config, &plan, dataset.verifier.grading())?;
        let problems = self.encoded(dataset, config)?;
        let adapter = new_adapter(&config.settings.lora, self.base, config.seed, &self.device)?;
        let policy = self.policy(config, adapter.as_ref())?;
        let identity = self.identity(config, dataset, &problems, setup)?;
        let checkpoints = Checkpoints {
            output: setup.output,
            model: self.base,
            adapter: adapter.as_ref(),
            config: &identity,
            limit: config.settings.save_total_limit,
            ranks: &self.ranks,
        };
        // Before anything is written or sampled for a run that cannot go on.
        let load = |path| checkpoints.load(path, &self.device);
        let restored = setup.resume.map(load).transpose()?;
        refuse_fewer_steps(restored.as_ref(), config.settings.max_steps)?;
        let resolved = restored.as_ref().map_or(0, |restored| restored.state.micro_batch_tokens);
        let config = &self.with_micro_batches(config, &problems, resolved)?;
        let fleet = self.fleet(setup, &policy, adapter.as_ref())?;
        let stored = self.stored_presamples(dataset, &problems, config, &plan)?;
        if let Some(Checkpoint { state, .. }) = &restored {
            self.count_presamples(stored.as_ref(), setup.resume, &mut state.clone())?;
        }
        self.open_output(restored.as_ref(), setup)?;
        // Before the policy moves: where the base is not held it is the base until then.
        let presamples = match stored {
            Some(stored) => Some(stored),
            None => self.new_presamples(dataset, &problems, config, &plan, setup.output)?,
        };
        let mut optimizer = AdamW::new(config.settings.adamw, policy.weights())?;
        let mut state = restore(restored, &policy, &mut optimizer, setup.resume)?;
        let data = TrainingData::new(&plan, problems.len(), presamples.as_ref());
        let data = data.inspect_err(|_| say_where_presamples_are(config, setup))?;
        data.notes.iter().for_each(|note| tracing::info!("  {note}"));
        self.count_presamples(presamples.as_ref(), setup.resume, &mut state)?;
        state.micro_batch_tokens = config.settings.micro_batch_tokens;
        self.warn_of_space(&checkpoints, &policy);
        let engine = setup.engine.map(|options| RolloutEngine {
            engine: fleet.as_ref().map(|fleet| fleet as &dyn Engine),
            max_staleness: options.max_staleness,
        });
        let rollout_dtype = self.base.precision.rollout_dtype;
        let is_sampled_elsewhere = engine.is_some() || rollout_dtype.is_some();
        let correction = is_sampled_elsewhere.then_some(setup.correction);
        let run = Run {
            config,
            plan: &plan,
            models: Models {
                policy: &policy,
                base: self.taken.is_none().then_some(&self.base_decoder),
                tokenizer: &self.base.tokenizer,
                sampling: Sampling { engine, rollout_dtype, correction },
            },
            data: Data {
                problems: &problems,
                training: &data,
                verifier: &*dataset.verifier,
                rewarding: &rewarding,
            },
            ranks: &self.ranks,
        };
        let mut recorder = Recorder::new(self, &run, setup, &checkpoints, state.global_step)?;
        let end = rlvr::train(&run, &mut state, &mut optimizer, self.stop, &mut |step| {
            recorder.record(step)
        })?;
        recorder.finish(end, &mut state, &optimizer)?;
        drop(fleet);
        Ok(FineTuned { policy, adapter, state })
    }

    fn encoded<'d>(&self, dataset: &'d Dataset, config: &RlvrConfig) -> Result<Vec<Encoded<'d>>> {
        let context = self.base.architecture.max_positions;
        let length = config.settings.length();
        Encoded::all(&dataset.problems, &self.base.tokenizer, context, length)
            .with_context(|| dataset.name.clone())
    }

    /// The servers that sample, where some do; the first rank alone talks to them.
    fn fleet<'f>(
        &'f self,
        setup: &'f RunSetup<'_>,
        policy: &'f Policy,
        adapter: Option<&'f Adapter>,
    ) -> Result<Option<Fleet<'f>>> {
        let Some(options) = setup.engine.filter(|_| self.ranks.is_first()) else { return Ok(None) };
        let weights = EngineWeights::of(adapter.is_some());
        let trained = ServedPolicy { base: self.base, policy, adapter };
        Fleet::new(options, weights, setup.output, trained).map(Some)
    }

    /// Begins to write to the output, and brings its files back to the checkpoint to go on from.
    fn open_output(&self, restored: Option<&Checkpoint>, setup: &RunSetup<'_>) -> Result<()> {
        self.ranks.first(|| {
            (setup.begin)()?;
            begin_metrics(restored, setup.output)?;
            let step = restored.map(|restored| restored.state.global_step);
            HeldOutSet::go_back(setup.output, step)?;
            checkpoint::clean(setup.output)
        })
    }

    /// The settings with the size of micro-batches: the run's, or one that fits the memory.
    fn with_micro_batches(
        &self,
        config: &RlvrConfig,
        problems: &[Encoded<'_>],
        resolved: usize,
    ) -> Result<RlvrConfig> {
        let tokens = self.ranks.first(|| self.micro_batch_tokens(config, problems, resolved))?;
        let mut config = config.clone();
        config.settings.micro_batch_tokens = tokens;
        Ok(config)
    }

    /// Writes a fine-tuned model, or adapter, in Hub layout to a directory of a run, in whose place no link may stand.
    pub(crate) fn save(&self, tuned: &FineTuned, directory: &Path) -> Result<()> {
        let (adapter, tensors) = (tuned.adapter.as_ref(), tuned.policy.tensors());
        self.ranks.first(|| {
            tealight_system::files::writable_subfolder(directory)?;
            self.base.save_trained(adapter, &tensors, directory)
        })
    }

    fn policy(&self, config: &RlvrConfig, adapter: Option<&Adapter>) -> Result<Policy> {
        let policy = match &self.taken {
            Some(taken) => taken.clone(),
            None => self.base.policy(adapter)?.sharing_buffers_with(&self.base_decoder),
        };
        start_from(config, self.base, &policy, &self.device)?;
        if config.settings.gradient_checkpointing { Ok(policy.recomputing()) } else { Ok(policy) }
    }

    /// Counts the base's samples as the run's, or checks that a run goes on with those that it began with.
    fn count_presamples(
        &self,
        presamples: Option<&Presamples>,
        resume: Option<&Path>,
        state: &mut State,
    ) -> Result<()> {
        let Some(presamples) = presamples else { return Ok(()) };
        let sum = checksum(&serde_json::to_string(&presamples.prompts)?);
        match resume {
            Some(path) if state.presamples != sum => bail!(
                "{} was made with other pre-samples; give the same --presamples, or choose another --output",
                path.display()
            ),
            Some(_) => {}
            None => {
                state.num_tokens += presamples.tokens();
                state.num_completions += presamples.completions();
                state.presamples = sum;
            }
        }
        Ok(())
    }

    /// All that the result of a run depends on, but for the base's samples.
    fn identity(
        &self,
        config: &RlvrConfig,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        setup: &RunSetup<'_>,
    ) -> Result<Value> {
        let mut identity = serde_json::to_value(config.identity())?;
        add_identity(&mut identity, self.base, problems.iter().map(|p| p.problem))?;
        identity["verifier"] = json!(dataset.verifier.name());
        let rewards = dataset.verifier.grading().identity;
        if !rewards.is_empty() {
            identity["rewards"] = json!(rewards);
        }
        if let Some(engine) = setup.engine {
            // Where servers are does not matter, but what is made of their samples does.
            identity["engine"] = json!({"weights": EngineWeights::of(config.settings.lora.use_peft),
                "correction": setup.correction, "max_staleness": engine.max_staleness});
        }
        if self.base.precision.rollout_dtype.is_some() {
            identity["importance_correction"] = json!(setup.correction);
        }
        Ok(identity)
    }
}

/// Of a run that cannot begin with the base's samples: where they are, for a run of other settings.
fn say_where_presamples_are(config: &RlvrConfig, setup: &RunSetup<'_>) {
    let own = setup.output.join("presamples");
    if config.settings.presamples.is_none() && own.is_dir() {
        let own = as_argument(&own);
        tracing::info!(
            "a run with another --output can use the stored samples of the base: --presamples {own}"
        );
    }
}

/// The plan of a run, whose settings are checked.
fn checked_plan(config: &RlvrConfig, problems: usize) -> Result<Plan> {
    config.settings.check()?;
    let plan = config.plan()?;
    let resolved = config.resolved()?.choices();
    tracing::info!("objective {}: {resolved}", config.objective);
    let settings = &config.settings;
    let batch = match plan.is_on_policy() {
        true => format!(
            "{} x {} of up to {}",
            counted(settings.prompts_per_step.min(problems), "prompt"),
            counted(settings.num_generations, "completion"),
            counted(settings.length(), "token")
        ),
        false => counted(settings.rehearsal_batch_size, "stored completion"),
    };
    tracing::info!(
        "training: {} of {batch}, learning rate {}, seed {}",
        counted(settings.max_steps, "step"),
        settings.schedule.stated_rate(settings.lora.use_peft),
        config.seed
    );
    let warning = settings.schedule.warning(settings.max_steps);
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    let (all, asked) = (problems, settings.prompts_per_step);
    if all < asked && plan.is_on_policy() {
        tracing::warn!(
            "each step uses the whole dataset, {}, fewer than --prompts-per-step {asked}",
            counted(all, "prompt")
        );
    }
    Ok(plan)
}

/// Refuses to go on from a checkpoint to a step before it.
pub(super) fn refuse_fewer_steps(restored: Option<&Checkpoint>, steps: usize) -> Result<()> {
    match restored.map_or(0, |restored| restored.state.global_step) {
        done if done > steps => {
            bail!("--max-steps {steps}: the run has done {}; give more", counted(done, "step"))
        }
        _ => Ok(()),
    }
}

/// Brings the metrics of a run back to the checkpoint to go on from, or begins them.
pub(super) fn begin_metrics(restored: Option<&Checkpoint>, output: &Path) -> Result<()> {
    let metrics = output.join(METRICS);
    match restored {
        Some(restored) => copy_atomic(&restored.metrics, &metrics),
        None => JsonLines::create(&metrics).map(drop),
    }
}

/// The state to go on from, with the policy and the optimizer of the checkpoint, where there is one.
pub(super) fn restore(
    restored: Option<Checkpoint>,
    policy: &Policy,
    optimizer: &mut AdamW,
    resume: Option<&Path>,
) -> Result<State> {
    let (Some(restored), Some(path)) = (restored, resume) else { return Ok(State::default()) };
    policy.restore(&restored.weights)?;
    optimizer.restore(restored.state.optimizer_steps, &restored.moments)?;
    tracing::info!("resumed from {}", path.display());
    Ok(restored.state)
}

/// Adds the model and the data to the identity of a run.
pub(super) fn add_identity<'a>(
    identity: &mut Value,
    base: &Pretrained,
    problems: impl IntoIterator<Item = &'a Problem>,
) -> Result<()> {
    identity["precision"] = json!(base.precision);
    identity["model_checksum"] = json!(base.fingerprint()?);
    base.add_prompts_identity(identity);
    identity["dataset_checksum"] = json!(dataset_checksum(problems));
    Ok(())
}

/// A checksum of what problems ask and of their answers.
pub(crate) fn dataset_checksum<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> String {
    let line = |p: &Problem| {
        let reply = p.reply.as_ref().map_or(String::new(), |reply| format!("\0{reply:?}"));
        format!("{}\0{}\0{:?}{reply}\n", p.id, p.answer, p.prompt)
    };
    checksum(&problems.into_iter().map(line).collect::<String>())
}

fn checksum(text: &str) -> String {
    format!("{:016x}", tealight_core::fnv(text.bytes()))
}

/// Gives a policy of `base` the weights that a run starts from, where it does not start at the base.
fn start_from(
    config: &RlvrConfig,
    base: &Pretrained,
    policy: &Policy,
    device: &Device,
) -> Result<()> {
    let Some(start) = &config.settings.initial_policy else { return Ok(()) };
    let weights = base.weights_to_start_from(&config.settings.lora, start, device);
    let restored = weights.and_then(|weights| Ok(policy.restore(&weights)?));
    restored.with_context(|| format!("--initial-policy {}", start.display()))
}

/// Refuses weights to start from that are not of the run's policy.
pub(super) fn check_start(config: &RlvrConfig, base: &Pretrained, device: &Device) -> Result<()> {
    if config.settings.initial_policy.is_none() {
        return Ok(());
    }
    let adapter = new_adapter(&config.settings.lora, base, config.seed, device)?;
    start_from(config, base, &base.policy(adapter.as_ref())?, device)
}

/// The adapter that is to be trained on `base`, where one is.
pub(crate) fn new_adapter(
    lora: &LoraOptions,
    base: &Pretrained,
    seed: u64,
    device: &Device,
) -> Result<Option<Adapter>> {
    // A directory is named so that it is found from elsewhere too.
    let name = match Path::new(&base.name).is_dir() {
        true => std::path::absolute(&base.name)?.display().to_string(),
        false => base.name.clone(),
    };
    let adapter = lora.adapter(&base.architecture, &name, seed, device)?;
    if let (Some(adapter), Some(trained)) = (&adapter, lora.parameters(&base.architecture)) {
        let share = trained as f64 / base.architecture.parameters() as f64 * 100.0;
        let (rank, targets) = (adapter.scaling.r, adapter.targets.join(", "));
        tracing::info!("adapter of rank {rank} on {targets}: {trained} parameters, {share:.2} %");
    }
    Ok(adapter)
}
