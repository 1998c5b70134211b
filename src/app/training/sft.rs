//! supervised fine-tuning, from a model or from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tealight_datasets::{Dataset, Problem, SOURCES, Source};
use tealight_eval::number::counted;

use super::fine_tune::{add_identity, begin_metrics, new_adapter, refuse_fewer_steps, restore};
use crate::app::directory::{self, RunDirectory};
use crate::app::settings::{DataOptions, ModelOptions};
use crate::app::{folder_settings, lengths};
use tealight_core::ranks::Ranks;
use tealight_core::run_folder::{self, FINAL, METRICS};
use tealight_formats::adapter::LoraOptions;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::train::AdamW;
use tealight_learn::train::checkpoint::{self, Checkpoints};
use tealight_learn::train::sft::{self, Examples, SftConfig};
use tealight_nn::policy::Sequence;
use tealight_nn::tokenizer::Example;
use tealight_system::files::writable_subfolder;
use tealight_system::stop::Stop;
use tealight_system::telemetry::{JsonLines, Progress};

/// Options of `tealight sft`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct SftOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// Start from random weights of the architecture in this config.json, instead of from --model.
    #[arg(long)]
    pub from_scratch: Option<PathBuf>,
    /// Directory with the tokenizer files, for --from-scratch.
    #[arg(long)]
    pub tokenizer: Option<PathBuf>,
    /// The settings of supervised training.
    #[command(flatten)]
    #[serde(flatten)]
    pub sft: SftConfig,
    /// The adapter that is trained, if any.
    #[command(flatten)]
    #[serde(flatten)]
    pub lora: LoraOptions,
}

/// Fine-tunes a model on the solutions of problems, or trains a fresh one.
pub fn run(options: &SftOptions, run_directory: &RunDirectory, stop: &Stop) -> Result<()> {
    let RunDirectory { path: output, start } = run_directory;
    options.check_in(run_directory)?;
    let (claim, resumed) = run_directory.take()?;
    let mut options = options.clone();
    options.model.template.set_date(run_directory.unreplaced(), &Ranks::alone())?;
    let options = &options;
    let mut datasets = options.open_data()?;
    let (mut base, device) = options.load_model_for(&mut datasets)?;
    let adapter = new_adapter(&options.lora, &base, options.sft.seed, &device)?;
    // Nothing reads the base: a policy of all weights takes its place.
    let policy = match &adapter {
        Some(_) => base.policy(adapter.as_ref())?,
        None => base.take_policy()?,
    };
    let identity = options.identity(&base, &datasets)?;
    let examples = examples(options, &base, datasets)?;
    let checkpoints = Checkpoints {
        output,
        model: &base,
        adapter: adapter.as_ref(),
        config: &identity,
        limit: options.sft.save_total_limit,
        ranks: &Ranks::alone(),
    };
    let mut optimizer = AdamW::new(options.sft.adamw, policy.weights())?;
    let restored = resumed.as_deref().map(|path| checkpoints.load(path, &device)).transpose()?;
    refuse_fewer_steps(restored.as_ref(), options.sft.max_steps)?;
    directory::begin(Some(&claim), output, start.existing())?;
    folder_settings::record(options, output)?;
    begin_metrics(restored.as_ref(), output)?;
    let mut state = restore(restored, &policy, &mut optimizer, resumed.as_deref())?;
    checkpoint::clean(output)?;
    stop.saves();
    let mut lines = JsonLines::append(&output.join(METRICS))?;
    options.announce();
    let (steps, every) = (options.sft.max_steps, options.sft.save_steps);
    let done = state.global_step;
    let mut progress = Progress::new("sft", steps.saturating_sub(done)).after(done);
    let (standing, mut saved) = ((&mut state, &mut optimizer), 0);
    let is_done = sft::run(
        &policy,
        &options.sft,
        &examples,
        standing,
        stop,
        &mut |metrics, state, optimizer| {
            progress.advance(|| format!("loss {:.4}", metrics.loss));
            lines.write(metrics)?;
            state.since_save = (state.since_save.0 - metrics.loss, state.since_save.1 + 1);
            let is_due = every > 0 && (metrics.step.is_multiple_of(every) || metrics.step == steps);
            if is_due {
                checkpoints.save(&policy.tensors(), optimizer, state)?;
                saved = metrics.step;
            }
            Ok(())
        },
    )?;
    drop(progress);
    if !is_done {
        if saved != state.global_step {
            checkpoints.save(&policy.tensors(), &optimizer, &mut state)?;
        }
        let (step, name) = (state.global_step, run_folder::checkpoint(state.global_step));
        tracing::info!("stopped after step {step}; saved {name}");
        folder_settings::say_how_to_continue("sft", options, output);
        return stop.check();
    }
    let model = output.join(FINAL);
    writable_subfolder(&model)?;
    base.save_trained(adapter.as_ref(), &policy.tensors(), &model)?;
    tracing::info!("{}; model in {}", counted(steps, "step"), model.display());
    Ok(())
}

impl SftOptions {
    /// What a run would do, in a directory where one is named: the settings, the first examples and the steps, in
    /// words. Nothing is written.
    ///
    /// # Errors
    /// As of a run: a directory that is taken, settings that do not go together, a model or data that cannot be read.
    pub fn dry_run(&self, directory: Option<&RunDirectory>) -> Result<String> {
        self.check()?;
        if let Some(directory) = directory {
            self.check_in(directory)?;
            directory.check()?;
        }
        let mut options = self.clone();
        options.model.template.set_date(None, &Ranks::alone())?;
        let mut datasets = options.open_data()?;
        let (base, _) = options.load_model_for(&mut datasets)?;
        let mut text = toml::to_string(&options)?;
        for set in &datasets {
            let rows = counted(set.problems.len(), "example");
            text.push_str(&format!("\n{}: {rows}", set.name));
            for problem in set.problems.iter().take(1) {
                let example = example(&base, problem)?;
                let shown = base.tokenizer.decode_all(&example.prompt)?;
                let end = base.tokenizer.decode_all(&example.completion)?;
                text.push_str(&format!("\nthe first, prompt and solution:\n{shown}\n{end}\n"));
            }
        }
        let (steps, size) = (counted(options.sft.max_steps, "step"), options.sft.batch_size);
        Ok(format!("{text}\n{steps} of {}", counted(size, "example")))
    }

    fn announce(&self) {
        tracing::info!(
            "training: {} of {}, learning rate {}, seed {}",
            counted(self.sft.max_steps, "step"),
            counted(self.sft.batch_size, "example"),
            self.sft.schedule.stated_rate(self.lora.use_peft),
            self.sft.seed
        );
        let warning = self.sft.schedule.warning(self.sft.max_steps);
        warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    }

    /// Refuses settings that do not go together, and a directory to replace that holds what the run reads.
    fn check_in(&self, RunDirectory { path, start }: &RunDirectory) -> Result<()> {
        self.check()?;
        directory::refuse_inside(path, start.existing(), self.model.paths())
    }

    /// Refuses settings that do not go together.
    fn check(&self) -> Result<()> {
        self.lora.check()?;
        self.model.refuse_rollout_dtype()?;
        self.model.precision.check(self.lora.use_peft)
    }

    /// The model, and the datasets without the rows that do not fit it.
    fn load_model_for(&self, datasets: &mut [Dataset]) -> Result<(Pretrained, Device)> {
        let (base, device) = self.load_model()?;
        datasets.iter().for_each(|set| lengths::warn_of_dropped(set, &base.tokenizer, true));
        self.filter(datasets, &base)?;
        Ok((base, device))
    }

    /// The model that is trained: a fresh one, or --model.
    fn load_model(&self) -> Result<(Pretrained, Device)> {
        match (&self.from_scratch, &self.tokenizer) {
            (Some(config), Some(tokenizer)) => self.fresh_model(config, tokenizer),
            (Some(_), None) => bail!("--from-scratch needs --tokenizer DIR"),
            (None, Some(_)) => bail!("--tokenizer is only for --from-scratch"),
            (None, None) => self.model.load_to_train(),
        }
    }

    /// The endless streams that --dataset names, one or several: `countdown/sft,paths/sft`. None where it names rows.
    fn streams(&self) -> Option<Vec<&'static Source>> {
        let stream = |name: &str| {
            let source = name.trim().strip_suffix("/sft")?;
            SOURCES.iter().find(|known| known.name == source)
        };
        let is_endless = self.data.max_samples.is_none();
        self.data.dataset.split(',').map(stream).collect::<Option<_>>().filter(|_| is_endless)
    }

    /// What --dataset names: one dataset, or the first problems of every stream.
    fn open_data(&self) -> Result<Vec<Dataset>> {
        match self.streams() {
            Some(streams) => {
                let once: BTreeSet<_> = streams.iter().map(|source| source.name).collect();
                once.into_iter().map(|name| self.data.open(&format!("{name}/sft"))).collect()
            }
            None if self.data.dataset.contains("/sft,") => bail!(
                "--dataset {}: only endless streams of generated problems (countdown/sft,paths/sft) can be mixed, without \
                 --max-samples",
                self.data.dataset
            ),
            None => Ok(vec![self.data.open_solutions(&self.data.dataset)?]),
        }
    }

    /// Leaves out the rows that are too long, where that is asked for. Endless streams have none.
    fn filter(&self, datasets: &mut [Dataset], base: &Pretrained) -> Result<()> {
        if !self.data.filter_overlong_prompts || self.streams().is_some() {
            return Ok(());
        }
        let context = base.architecture.max_positions;
        let fits = |problem: &Problem| -> Result<bool> {
            let example = example(base, problem)?;
            Ok(example.prompt.len() + example.completion.len() <= context)
        };
        let what = "a prompt with its solution";
        datasets.iter_mut().try_for_each(|set| lengths::keep(set, fits, what, context))
    }

    /// All that the result of a run depends on.
    fn identity(&self, base: &Pretrained, datasets: &[Dataset]) -> Result<Value> {
        let mut identity = serde_json::to_value(self.sft.identity())?;
        identity["lora"] = json!(self.lora);
        add_identity(&mut identity, base, datasets.iter().flat_map(|one| &one.problems))?;
        // The shares of several streams; one stream has all.
        if let Some(streams) = self.streams().filter(|streams| streams.len() > 1) {
            identity["streams"] = json!(streams.iter().map(|one| one.name).collect::<Vec<_>>());
        }
        Ok(identity)
    }

    /// Fresh weights, and where they are.
    fn fresh_model(&self, config: &Path, tokenizer: &Path) -> Result<(Pretrained, Device)> {
        if self.lora.use_peft || self.model.adapter.is_some() {
            bail!("an adapter needs a base: leave --from-scratch out");
        }
        self.model.refuse_quantized()?;
        let (device, described) = self.model.open_device()?;
        let (seed, precision) = (self.sft.seed, self.model.precision.on(&device));
        let base = Pretrained::from_scratch(config, tokenizer, seed, precision, &device)?;
        let base = base.with_rendering(&self.model.template.rendering()?)?;
        let shown = ModelOptions { model: base.name.clone(), ..self.model.clone() };
        shown.announce(&base.architecture, (&device, &described));
        Ok((base, device))
    }
}

/// Endless streams where sources make solved problems, else one shuffle an epoch.
fn examples<'a>(
    options: &'a SftOptions,
    base: &'a Pretrained,
    datasets: Vec<Dataset>,
) -> Result<Box<Examples<'a>>> {
    let seed = options.sft.seed;
    if let Some(streams) = options.streams() {
        return Ok(Box::new(move |step, count| {
            let problems = mixed(&streams, seed, step, count);
            problems.iter().map(|problem| sequence(base, problem)).collect()
        }));
    }
    let all = datasets.iter().flat_map(|dataset| &dataset.problems);
    let all = all.map(|problem| sequence(base, problem));
    Ok(Box::new(sft::shuffled(all.collect::<Result<_>>()?, seed)))
}

/// The `count` examples of a step: one of each stream in turn, so a stream that is named twice has twice the share.
fn mixed(streams: &[&Source], seed: u64, step: usize, count: usize) -> Vec<Problem> {
    // Later steps begin where the one before ended, so that streams have equal shares of small batches too.
    let place = |index: usize| (step * count + index) % streams.len();
    let mut shares: BTreeMap<&str, (&Source, usize)> = BTreeMap::new();
    for index in 0..count {
        let source = streams[place(index)];
        shares.entry(source.name).or_insert((source, 0)).1 += 1;
    }
    let examples =
        shares.values().map(|(source, share)| (source.examples)(seed, step as u64, *share));
    examples.flatten().collect()
}

/// The tokens of the prompt and its solution.
fn example(base: &Pretrained, problem: &Problem) -> Result<Example> {
    let at = || format!("problem `{}`", problem.id);
    let solution =
        problem.solution.as_deref().context("has no solution to imitate").with_context(at)?;
    base.tokenizer
        .encode_example(&problem.prompt, solution, problem.reply.as_ref())
        .with_context(at)
}

/// The same as a sequence that fits the model.
fn sequence(base: &Pretrained, problem: &Problem) -> Result<Sequence> {
    let Example { prompt, completion } = example(base, problem)?;
    let (length, context) = (prompt.len() + completion.len(), base.architecture.max_positions);
    if length > context {
        bail!(
            "problem `{}`: {length} tokens do not fit the model's context of {context}; leave such rows out with \
             --filter-overlong-prompts",
            problem.id
        );
    }
    Ok(Sequence { prompt, completion })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_equal_shares_and_no_example_is_drawn_twice() {
        let source = |name: &str| SOURCES.iter().find(|source| source.name == name).unwrap();
        let streams = [source("paths"), source("sat"), source("paths")];
        let all: Vec<Problem> = (0..3).flat_map(|step| mixed(&streams, 7, step, 4)).collect();
        let count = |tag: &str| all.iter().filter(|problem| problem.id.starts_with(tag)).count();
        // Named twice, `paths` has twice the share, over steps too small to have every stream alike.
        assert_eq!((count("p"), count("t")), (8, 4));
        let statements: BTreeSet<_> = all.iter().map(|problem| &problem.id).collect();
        assert_eq!(statements.len(), all.len());
    }
}
