//! The settings of `tealight eval`, and what they exclude.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;
use tealight_datasets::suite::SuiteSet;
use tealight_eval::Truncated;
use tealight_eval::rules::Failed;

use super::engine::{self, Engine};
use super::eval_sets::EvalSet;
use super::request::{EvaluationSpec, SetSpec};
use crate::app::session::SamplingRequest;
use crate::app::settings::{DataOptions, DecodingOptions, ModelOptions};
use crate::solvers::remote::RemoteOptions;
use tealight_formats::hub;
use tealight_nn::device::Precision;
use tealight_nn::generate::{Filters, SamplingParams};
use tealight_nn::tokenizer::HubTokenizer;
use tealight_system::choices::choice;
use tealight_system::range::{COUNT, SEED, at_least};

/// Options of `tealight eval`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct EvalOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// A suite instead of --dataset: countdown, tasks, gsm8k, math500, aime, amc, or a TOML file.
    #[arg(long, conflicts_with = "dataset")]
    pub suite: Option<String>,
    /// Name of the evaluated set in the results. tealight compare matches sets by name, otherwise by file, otherwise by
    /// problems. Default: the value of --dataset.
    #[arg(long, conflicts_with = "suite")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of samples of each problem.
    #[arg(short, default_value_t = 64, add = COUNT)]
    pub n: usize,
    /// Report Pass@k and distinct correct answers at these k, each at most -n. Default: 1, 4, 16 and 64 as far as -n
    /// allows, and -n itself if it is below 64.
    #[arg(short, value_delimiter = ',', add = COUNT)]
    pub k: Vec<usize>,
    /// Also compute Pass@k, distinct correct answers and coverage from the model's probabilities of all correct
    /// answers, without sampling noise. For tasks whose answers can be listed: countdown and those of `tealight
    /// tasks`.
    #[arg(long)]
    pub exact: bool,
    /// Leave out the additional sample of each problem at temperature 0.
    #[arg(long)]
    pub no_greedy: bool,
    /// How completions are drawn.
    #[command(flatten)]
    #[serde(flatten)]
    pub decoding: DecodingOptions,
    /// Rule for completions that were truncated at the length limit: wrong (incorrect whatever the text says), or
    /// judged (the verifier decides, as in lm-evaluation-harness).
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Truncated>())]
    pub truncated: Truncated,
    /// Rule for completions without an answer that a server gave (a refusal, a content filter, a tool call, no text):
    /// wrong (incorrect), or unjudged (left out of every estimate). A prompt that the server refuses is always left
    /// out. Only with --engine.
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Failed>())]
    pub failed: Failed,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0, add = SEED)]
    pub seed: u64,
    /// Maximum number of sequences in one decoding batch.
    #[arg(long, default_value_t = 256, add = at_least(1.0).at_most(1e10))]
    pub max_num_seqs: usize,
    /// A server that samples in place of this process.
    #[command(flatten)]
    #[serde(flatten)]
    pub remote: RemoteOptions,
    /// Directory for the results, the report and the samples. Without --output the table is printed and nothing is
    /// saved. An earlier evaluation there is continued, extended (larger -n) or judged again.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Exit with status 3 if more than this share of the completions is unjudged.
    #[arg(long, default_value_t = 0.05, add = at_least(0.0).at_most(1.0))]
    pub max_unjudged: f64,
    /// Print the results as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
    /// Whether --dataset was left out: no setting, and not in `config.toml`.
    #[arg(skip)]
    #[serde(skip)]
    pub is_default_dataset: bool,
}

impl EvalOptions {
    /// The sets and their problems.
    pub(super) fn open(&self) -> Result<(Vec<SuiteSet>, Vec<Dataset>)> {
        let sets = match &self.suite {
            Some(suite) => self.data.rewards.open_suite(suite)?,
            None => self.named_sets()?,
        };
        let datasets = sets.iter().map(|set| self.data.open_set(set)).collect::<Result<_>>()?;
        Ok((sets, datasets))
    }

    /// The sets that --dataset names.
    fn named_sets(&self) -> Result<Vec<SuiteSet>> {
        let mut sets: Vec<SuiteSet> =
            self.data.dataset.split(',').map(|d| SuiteSet::new(d.trim())).collect();
        if let Some(name) = &self.name {
            let [set] = sets.as_mut_slice() else {
                bail!("--name {name} is the name of one set: give --dataset one dataset");
            };
            if name.trim().is_empty() {
                bail!("--name is empty: give the set a name, or leave --name out");
            }
            set.name = Some(name.clone());
        }
        Ok(sets)
    }

    /// Refuses to ask a model for Countdown that knows words or other tasks, unless --dataset says so, and says that it
    /// is asked for Countdown where that is not the embedded model of it.
    pub(super) fn check_default(&self, tokenizer: Option<&HubTokenizer>) -> Result<()> {
        if !self.is_default_dataset || self.suite.is_some() {
            return Ok(());
        }
        match tokenizer {
            None => tracing::warn!(
                "no --dataset: the server is asked for the generated task countdown; name a --dataset or a --suite"
            ),
            Some(_) if self.model.model == hub::EMBEDDED => {}
            Some(tokenizer) if self.model.model == hub::TASKS || engine::has_words(tokenizer)? => {
                bail!(
                    "--model {}: name what it is evaluated on, with --dataset or --suite (--dataset countdown is a \
                 generated task)",
                    self.model.model
                )
            }
            Some(_) => tracing::warn!(
                "no --dataset: --model {} is evaluated on {}, the generated task that is the default; name what it \
                 is for with --dataset or --suite",
                self.model.model,
                self.data.dataset
            ),
        }
        Ok(())
    }

    pub(super) fn request(
        &self,
        sets: &[EvalSet<'_>],
        length: usize,
        engine: &Engine,
    ) -> Result<EvaluationSpec> {
        let spec =
            |set: &EvalSet<'_>| Ok((set.file.clone(), SetSpec::new(set.dataset, set.temperature)?));
        let model = engine.model();
        Ok(EvaluationSpec {
            model: self.model.shown(),
            model_checksum: model.and_then(|model| model.fingerprint.clone()),
            engine: self.remote.engine.clone(),
            engine_model: self.remote.kwargs()?.model,
            precision: match self.remote.engine {
                Some(_) => self.model.precision,
                None => self.model.precision.on(&self.model.open_device()?.0),
            },
            filters: self.decoding.filters.into(),
            max_completion_length: length,
            seed: self.seed,
            prompts: self.data.prompts.record()?,
            chat_template: self.model.template.text()?,
            template_date: model.and_then(|model| model.tokenizer.date_in_prompts()),
            template_kwargs: self.model.template.variables()?,
            sets: sets.iter().map(spec).collect::<Result<_>>()?,
        })
    }

    /// A server has its own weights.
    pub(super) fn check_engine(&self) -> Result<()> {
        let kwargs = self.remote.kwargs()?;
        if self.remote.engine.is_none() {
            if !self.remote.engine_kwargs.is_empty() {
                bail!("--engine-kwargs has no effect without --engine");
            }
            return Ok(());
        }
        if kwargs.folder.is_some() {
            bail!(
                "--engine-kwargs folder has no effect here: only `train` gives the server weights"
            );
        }
        if self.model.template.is_changed() || self.data.filter_overlong_prompts {
            bail!(
                "--chat-template, --template-kwargs and --filter-overlong-prompts have no effect with --engine: the server renders and \
                 tokenizes prompts"
            );
        }
        if self.model.adapter.is_some() {
            bail!("--adapter has no effect with --engine: the server has its own");
        }
        if self.model.quantized || self.model.precision != Precision::default() {
            bail!(
                "--quantized, --dtype, --base-dtype and --rollout-dtype have no effect with --engine: the server has \
                 its own weights"
            );
        }
        Ok(())
    }

    /// Listed answers say something of the distribution that is sampled: the whole one, our own.
    pub(super) fn check_scoring(&self) -> Result<()> {
        if !self.exact {
            return Ok(());
        }
        if self.remote.engine.is_some() {
            bail!("--exact needs the model's own log-probabilities: leave --engine out");
        }
        if self.model.precision.rollout_dtype.is_some() {
            bail!("--exact needs the model's own log-probabilities: leave --rollout-dtype out");
        }
        let is_whole = Filters::from(self.decoding.filters) == Filters::default();
        if !is_whole || self.decoding.temperature.contains(&0.0) {
            bail!(
                "--exact compares whole distributions: leave --top-k, --top-p, --min-p and \
                 temperature 0 out, or --exact"
            );
        }
        Ok(())
    }

    pub(super) fn shown_model(&self) -> Result<String> {
        let Some(engine) = &self.remote.engine else { return Ok(self.model.sampled()) };
        let name = self.remote.kwargs()?.model;
        Ok(format!("{} at {engine}", name.as_ref().unwrap_or(&self.model.model)))
    }

    /// How `n` samples a problem are drawn.
    pub(super) fn draw<'a>(&self, n: usize, params: &'a SamplingParams) -> SamplingRequest<'a> {
        SamplingRequest { n, params, seed: self.seed, max_num_seqs: self.max_num_seqs }
    }
}
