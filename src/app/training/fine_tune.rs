//! One run of fine-tuning, as `train` and `study` do it: resolve, resume, train, save, log.

use std::path::Path;

use anyhow::{Result, bail};
use candle_core::Device;
use serde_json::{Value, json};
use tealight_datasets::{Dataset, Problem};
use tealight_eval::report::HeldOut;

use super::held_out::{BEST, HeldOutSet};
use super::journal::{Journal, OnStep};
use super::path::PathPoints;
use crate::adapter::{Adapter, LoraOptions};
use crate::app::session::{Draw, Session};
use crate::generate::Engine;
use crate::lab;
use crate::objective::ImportanceCorrection;
use crate::policy::{self, Policy};
use crate::presample::Presamples;
use crate::pretrained::Pretrained;
use crate::remote::{EngineOptions, Fleet};
use crate::rollout::Encoded;
use crate::telemetry::JsonLines;
use crate::train::AdamW;
use crate::train::checkpoint::{self, Checkpoints, State};
use crate::train::rlvr::{self, End, RlvrConfig, RolloutEngine, Run, Step, TrainingData};

/// Where a run goes and what it continues.
pub(crate) struct Place<'a> {
    /// What it is called while it goes.
    pub(crate) label: &'a str,
    /// Its directory.
    pub(crate) output: &'a Path,
    /// The checkpoint to continue from.
    pub(crate) resume: Option<&'a Path>,
    /// Called with every step's metrics; no progress is shown then.
    pub(crate) on_step: Option<&'a OnStep<'a>>,
    /// What it is evaluated on while it goes.
    pub(crate) held_out: Option<&'a HeldOutSet>,
    /// The steps whose weights are saved, to be evaluated when the run has ended.
    pub(crate) path: Option<PathPoints>,
    /// What samples in place of this process.
    pub(crate) engine: Option<&'a EngineOptions>,
    /// How samples of a server, or of a rounded policy, are weighted.
    pub(crate) correction: ImportanceCorrection,
}

/// A run that has ended.
pub(crate) struct FineTuned {
    pub(crate) policy: Policy,
    /// What was trained in place of all weights.
    pub(crate) adapter: Option<Adapter>,
    pub(crate) state: State,
}

impl Session<'_> {
    /// Fine-tunes a copy of the base, or an adapter on it, and leaves metrics, checkpoints and the settings in
    /// the place.
    ///
    /// # Errors
    /// Whatever goes wrong; a run that was stopped or gave up has saved a checkpoint first.
    pub(crate) fn fine_tune(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        place: &Place<'_>,
    ) -> Result<FineTuned> {
        config.settings.check()?;
        let plan = config.plan()?;
        tealight_eval::self_check::self_check()?;
        tracing::info!("objective {}: {}", config.objective, config.resolved_objective()?);
        tracing::info!("  {}", lab::self_check(&plan, &config.objective.to_string())?);
        if plan.is_inert() {
            tracing::info!(
                "  one update a batch: the importance ratio is 1, so that the trust region cannot act \
                 (--steps-per-generation or --num-iterations above 1 make it)"
            );
        }
        let output = place.output;
        let tokenizer = &self.base.tokenizer;
        let context = self.base.architecture.max_positions;
        let room = config.settings.length();
        let problems = Encoded::all(&dataset.problems, tokenizer, context, room)?;
        let lora = &config.settings.lora;
        let adapter = new_adapter(lora, self.base, config.seed, &self.device)?;
        let policy = self.policy(config, adapter.as_ref())?;
        // Before anything is sampled for a run that cannot go on.
        let fleet = match place.engine {
            None => None,
            // The first rank alone talks to servers.
            Some(_) if !self.ranks.is_first() => None,
            Some(options) => {
                let write = |folder: &Path| {
                    self.base.save_trained(adapter.as_ref(), &policy.tensors(), folder)
                };
                let size = self.base.architecture.vocab_size;
                let weights = (options.weights(adapter.is_some()), size);
                Some(Fleet::new(options, weights, output, Box::new(write))?)
            }
        };
        let mut identity = self.identity(config, dataset, &problems)?;
        if let Some(engine) = place.engine {
            // Where servers are does not matter, but what is made of their samples does.
            identity["engine"] = json!({"weights": engine.weights(adapter.is_some()),
                "correction": place.correction, "max_staleness": engine.max_staleness});
        }
        let rollout_dtype = self.base.precision.rollout_dtype;
        if rollout_dtype.is_some() {
            identity["importance_correction"] = json!(place.correction);
        }
        let checkpoints = Checkpoints {
            output,
            model: self.base,
            adapter: adapter.as_ref(),
            config: &identity,
            limit: config.settings.save_total_limit,
            ranks: &self.ranks,
        };
        let mut optimizer = AdamW::new(config.settings.adamw, policy.weights())?;
        let mut state = State::default();
        let metrics_file = output.join("metrics.jsonl");
        let load = |path| checkpoints.load(path, &self.device);
        let mut restored = place.resume.map(load).transpose()?;
        self.ranks.first(|| match &restored {
            Some(restored) => crate::files::write_atomic(&metrics_file, &restored.metrics),
            None => JsonLines::create(&metrics_file).map(drop),
        })?;
        state.global_step = restored.as_ref().map_or(0, |restored| restored.state.global_step);
        self.ranks.first(|| {
            HeldOutSet::go_back(output, place.resume.map(|_| state.global_step))?;
            checkpoint::clean(output)
        })?;
        // Before the policy moves: where the base is not held it is the base until then.
        let presamples = self.presamples(dataset, &problems, config, &plan, output)?;
        if let (Some(restored), Some(path)) = (restored.take(), place.resume) {
            policy.restore(&restored.weights)?;
            optimizer.restore(restored.state.optimizer_steps, &restored.moments)?;
            state = restored.state;
            tracing::info!("resumed from {}", path.display());
        }
        let logged = match &presamples {
            Some(_) => None,
            None => self.presamples_to_log(dataset, &problems, config)?,
        };
        let data = TrainingData::new(config, &plan, problems.len(), presamples.as_ref())?;
        data.notes.iter().for_each(|note| tracing::info!("  {note}"));
        data.cautions.iter().for_each(|caution| tracing::warn!("{caution}"));
        self.count_presamples(presamples.as_ref(), place.resume, &mut state)?;
        let mut config = config.clone();
        let resolved = state.micro_batch_tokens;
        let tokens = self.ranks.first(|| self.micro_batch_tokens(&config, &problems, resolved))?;
        (config.settings.micro_batch_tokens, state.micro_batch_tokens) = (tokens, tokens);
        self.warn_of_space(&checkpoints, &policy);

        let engine = place.engine.map(|options| RolloutEngine {
            engine: fleet.as_ref().map(|fleet| fleet as &dyn Engine),
            max_staleness: options.max_staleness,
        });
        let is_others = engine.is_some() || rollout_dtype.is_some();
        let run = Run {
            engine,
            rollout_dtype,
            correction: is_others.then_some(place.correction),
            config: &config,
            plan: &plan,
            policy: &policy,
            reference: self.taken.is_none().then_some(&self.reference),
            problems: &problems,
            data: &data,
            presamples: presamples.as_ref().or(logged.as_ref()),
            tokenizer,
            verifier: &*dataset.verifier,
            ranks: &self.ranks,
        };
        let rounding = policy::rounding(policy.decoder());
        let mut journal = match self.ranks.is_first() {
            true => Some(Journal::new(&config, place, state.global_step, rounding)?),
            false => None,
        };
        let params = config.settings.sampling(tokenizer);
        let max_num_seqs = config.settings.max_num_seqs;
        // How many samples a problem, the held-out set says.
        let draw = Draw { n: 0, params: &params, seed: config.seed, max_num_seqs };
        let check = |step: usize| -> Result<Option<HeldOut>> {
            let Some(held_out) = place.held_out else { return Ok(None) };
            let place = (step, output);
            let (found, best) = held_out.check(self, policy.decoder(), &draw, place)?;
            if let Some(best) = best {
                self.ranks.first(|| {
                    let folder = output.join(BEST);
                    self.base.save_trained(adapter.as_ref(), &policy.tensors(), &folder)?;
                    best.record(output)
                })?;
            }
            Ok(Some(found))
        };
        if state.global_step == 0
            && let (Some(found), Some(journal)) = (check(0)?, &mut journal)
        {
            journal.held_out(&found)?;
        }
        let mut saved = None;
        let end = rlvr::train(&run, &mut state, &mut optimizer, self.stop, &mut |step| {
            let reason = self.ranks.first(|| match &mut journal {
                Some(journal) => journal.record(&step, &problems),
                None => Ok(None),
            })?;
            let Step { state, optimizer, metrics, .. } = step;
            let is_last = !run.goes_on(state);
            if place.held_out.is_some_and(|set| set.is_due(state.global_step, is_last))
                && let (Some(found), Some(journal)) = (check(state.global_step)?, &mut journal)
            {
                journal.held_out(&found)?;
            }
            if place.path.is_some_and(|points| points.is_due(state.global_step)) && !is_last {
                // Before the checkpoint: a run that goes on from there finds these weights.
                self.ranks.first(|| {
                    let folder = PathPoints::model(output, state.global_step);
                    self.base.save_trained(adapter.as_ref(), &policy.tensors(), &folder)
                })?;
            }
            let merit = if metrics.reward.is_nan() { -metrics.loss } else { metrics.reward };
            if merit.is_finite() {
                state.since_save = (state.since_save.0 + merit, state.since_save.1 + 1);
            }
            let every = config.settings.save_steps;
            let is_due = every > 0 && (state.global_step.is_multiple_of(every) || is_last);
            if is_due {
                saved = Some((
                    state.global_step,
                    checkpoints.save(&policy.tensors(), optimizer, state)?,
                ));
            }
            Ok(reason)
        })?;
        drop(journal);
        drop(fleet);
        if end != End::Done {
            let path = match saved {
                Some((step, path)) if step == state.global_step => path,
                _ => checkpoints.save(&policy.tensors(), &optimizer, &mut state)?,
            };
            tracing::info!("stopped after step {}; saved {}", state.global_step, path.display());
        }
        if let End::GaveUp(reason) = end {
            bail!("{reason}");
        }
        Ok(FineTuned { policy, adapter, state })
    }

    /// Writes a fine-tuned model, or adapter, in Hub layout.
    pub(crate) fn save(&self, tuned: &FineTuned, directory: &Path) -> Result<()> {
        let (adapter, tensors) = (tuned.adapter.as_ref(), tuned.policy.tensors());
        self.ranks.first(|| self.base.save_trained(adapter, &tensors, directory))
    }

    fn policy(&self, config: &RlvrConfig, adapter: Option<&Adapter>) -> Result<Policy> {
        let policy = match &self.taken {
            Some(taken) => taken.clone(),
            None => self.base.policy(adapter)?.beside(&self.reference),
        };
        match config.settings.gradient_checkpointing {
            true => Ok(policy.recomputing()),
            false => Ok(policy),
        }
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
    ) -> Result<Value> {
        let mut identity = serde_json::to_value(config.identity())?;
        identity["precision"] = json!(self.base.precision);
        identity["model_checksum"] = json!(self.base.fingerprint()?);
        identity["dataset_checksum"] = json!(dataset_checksum(problems.iter().map(|p| p.problem)));
        identity["verifier"] = json!(dataset.verifier.name());
        Ok(identity)
    }
}

/// A checksum of what problems ask and of their answers.
pub(crate) fn dataset_checksum<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> String {
    let line = |p: &Problem| format!("{}\0{}\0{:?}\n", p.id, p.answer, p.prompt);
    checksum(&problems.into_iter().map(line).collect::<String>())
}

fn checksum(text: &str) -> String {
    format!("{:016x}", tealight_datasets::fnv(text.bytes()))
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
    if let (Some(own), Some(trained)) = (&adapter, lora.parameters(&base.architecture)) {
        let share = trained as f64 / base.architecture.parameters() as f64 * 100.0;
        let (rank, targets) = (own.scaling.r, own.targets.join(", "));
        tracing::info!("adapter of rank {rank} on {targets}: {trained} parameters, {share:.2} %");
    }
    Ok(adapter)
}
