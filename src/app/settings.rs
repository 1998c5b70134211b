//! Options that several commands share.

use std::path::Path;

use anyhow::{Result, bail};
use candle_core::Device;
use clap::{Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use tealight_datasets::read::{Columns, Purpose};
use tealight_datasets::{Dataset, Rewards, judge, suite::SuiteSet};
use tealight_eval::number::counted;
use tealight_eval::pass_at_k;

use crate::app::data_file::{self, DATASET_HELP};
use crate::app::filter_options::FilterOptions;
use crate::app::lengths;
use crate::app::prompts::PromptOptions;
use crate::app::rewards::{RewardOptions, checkers};
use crate::app::templates::TemplateOptions;
use crate::solvers::sampled::Sampled;
use tealight_core::ranks::Ranks;
use tealight_formats::pretrained::Pretrained;
use tealight_nn::device::{self, Kernels, Precision};
use tealight_nn::generate::SamplingParams;
use tealight_nn::model::Architecture;
use tealight_nn::tokenizer::HubTokenizer;
use tealight_system::range::{LIMIT, TOKENS, at_least};

/// Settings with every option at its default: where another program begins.
///
/// ```
/// use tealight::app::settings::defaults;
/// use tealight::app::training::TrainOptions;
///
/// let mut options: TrainOptions = defaults();
/// options.rlvr.objective = "kl-full:0.1".parse()?;
/// assert_eq!(options.rlvr.settings.num_generations, 8);
/// # anyhow::Ok(())
/// ```
///
/// # Panics
/// Never for the settings of this module: each has a default or may be left out.
pub fn defaults<T: Args + FromArgMatches>() -> T {
    let command = T::augment_args(Command::new("defaults").no_binary_name(true));
    let matches = command.get_matches_from::<_, &str>([]);
    T::from_arg_matches(&matches).expect("every option has a default or may be left out")
}

/// Which model, where it runs.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct ModelOptions {
    /// Model: a directory in Hub layout, a .gguf file, a Hub id (owner/name, owner/name@revision, or
    /// owner/name:FILE.gguf), or an embedded model: `countdown`, or `tasks`, which knows every task of `tealight
    /// tasks`.
    #[arg(long, default_value = "countdown", alias = "model-name-or-path", help_heading = "Model")]
    pub model: String,
    /// LoRA adapter of the model, in PEFT's format. --model may also name an adapter whose configuration names its
    /// base.
    #[arg(long, help_heading = "Model")]
    pub adapter: Option<String>,
    /// Its chat template.
    #[command(flatten)]
    #[serde(flatten)]
    pub template: TemplateOptions,
    /// Device: auto, cpu, cuda, cuda:N or metal; auto is the first GPU that this binary was built for, else the CPU.
    #[arg(long, default_value = "auto", help_heading = "Model")]
    pub device: String,
    /// Kernels for a model on a GPU: tealight, eager (without CUDA graphs), or candle (Candle's operations: slower, an
    /// independent implementation). With --device cpu, candle runs the GPU's code path on the CPU.
    #[arg(long, value_enum, default_value_t = Kernels::Tealight, help_heading = "Model")]
    pub kernels: Kernels,
    /// Types of numbers.
    #[command(flatten)]
    #[serde(flatten)]
    pub precision: Precision,
    /// Sample from a GGUF file without dequantising its weights, by candle-transformers; for eval and generate.
    #[arg(long, help_heading = "Model")]
    pub quantized: bool,
}

impl ModelOptions {
    /// The paths of the model and its adapter, where they are any.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.model).chain(&self.adapter).map(Path::new)
    }

    /// Opens the device that they ask for, with the kernels that they ask for.
    pub(crate) fn open_device(&self) -> Result<(Device, String)> {
        device::open_with(&self.device, self.kernels)
    }

    /// Loads the model by `load`, on this rank's GPU where there are several of both; what comes from the Hub the first
    /// has fetched by then.
    pub(crate) fn load_on<T>(
        &self,
        ranks: &Ranks,
        load: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let device = device::of_rank(&self.device, ranks.local())?;
        ranks.first_then_others(|| load(&Self { device, ..self.clone() }))
    }

    /// Loads the model to sample from it, by candle-transformers where that is asked for or where we do not know its
    /// family, and says so; none where it is one of ours.
    pub(crate) fn load_elsewhere(&self) -> Result<Option<Sampled>> {
        let (device, described) = self.open_device()?;
        let model = match self.quantized {
            true => Some(Sampled::quantized(&self.model, self.precision, &device)?),
            false => Sampled::open_candle_transformers(&self.model, self.precision, &device)?,
        };
        let rendering = self.template.rendering()?;
        let model = model.map(|model| model.with_rendering(&rendering)).transpose()?;
        if let Some(candle) = model.as_ref().and_then(Sampled::candle) {
            if self.adapter.is_some() {
                bail!(
                    "--adapter is for models that we can train; this one is candle-transformers'"
                );
            }
            let family = candle.family();
            tracing::info!(
                "model {}, evaluation only, candle-transformers' {family}, on {described}",
                self.shown()
            );
        }
        Ok(model)
    }

    /// Loads the model to sample from it, ours or candle-transformers'.
    pub(crate) fn load_to_sample(&self, ranks: &Ranks, keeps_fingerprint: bool) -> Result<Sampled> {
        if let Some(model) = self.load_on(ranks, Self::load_elsewhere)? {
            return Ok(model);
        }
        let (mut model, _) = self.load_on(ranks, Self::load_for_rollouts)?;
        if keeps_fingerprint {
            model.keep_fingerprint()?;
        }
        Sampled::ours(model)
    }

    /// Loads the model and says what it is and where it runs.
    pub(crate) fn load(&self) -> Result<(Pretrained, Device)> {
        self.refuse_rollout_dtype()?;
        self.load_for_rollouts()
    }

    /// The same for what samples from it, in whatever type.
    pub(crate) fn load_for_rollouts(&self) -> Result<(Pretrained, Device)> {
        self.refuse_quantized()?;
        let (device, described) = self.open_device()?;
        let mut model = Pretrained::load(&self.model, self.precision.on(&device), &device)?;
        if let Some(adapter) = &self.adapter {
            model = model.adapted(adapter, &device)?;
        }
        let model = model.with_rendering(&self.template.rendering()?)?;
        self.announce(&model.architecture, (&device, &described));
        if let Some(adapter) = &model.adapter {
            let (r, targets) = (adapter.scaling.r, adapter.targets.join(", "));
            tracing::info!("  with an adapter of rank {r} on {targets}");
        }
        Ok((model, device))
    }

    /// Refuses what only sampling can do.
    pub(crate) fn refuse_quantized(&self) -> Result<()> {
        if self.quantized {
            bail!(
                "--quantized is for eval and generate: candle-transformers samples from such weights and cannot \
                 train them; leave it out to have them dequantised"
            );
        }
        Ok(())
    }

    /// Refuses a type to sample in where the model itself is asked.
    pub(crate) fn refuse_rollout_dtype(&self) -> Result<()> {
        if self.precision.rollout_dtype.is_some() {
            bail!(
                "--rollout-dtype is for train, eval, generate and bench: what is done here is done with the model \
                 itself; leave it out"
            );
        }
        Ok(())
    }

    /// The same as [`Self::load_for_rollouts`] for a model that is to be trained.
    pub(crate) fn load_to_train(&self) -> Result<(Pretrained, Device)> {
        self.precision.placement(&self.open_device()?.0)?;
        let (model, device) = self.load_for_rollouts()?;
        if model.adapter.is_some() {
            bail!(
                "{} is an adapter, and training begins from a whole model: merge it first (tealight export --merge), \
                 or continue its run with --resume",
                model.name
            );
        }
        model.check_copyable()?;
        Ok((model, device))
    }

    /// Its name in results.
    pub(crate) fn shown(&self) -> String {
        match &self.adapter {
            None if self.quantized => format!("{} (quantized)", self.model),
            None => self.model.clone(),
            Some(adapter) => format!("{adapter} on {}", self.model),
        }
    }

    /// The name of its samples in results: sampled in another type they are another model's.
    pub(crate) fn sampled(&self) -> String {
        match self.precision.rollout_dtype {
            Some(dtype) => format!("{} ({})", self.shown(), dtype.name()),
            None => self.shown(),
        }
    }

    /// Says which model runs where: on a device, as it was described.
    pub(crate) fn announce(&self, architecture: &Architecture, on: (&Device, &str)) {
        let millions = architecture.parameters() as f64 / 1e6;
        let mut dtype = format!("{:?}", self.precision.dtype.on(on.0)).to_lowercase();
        if self.precision.base_dtype.is_some() {
            dtype = format!("weights in int8, the rest in {dtype},");
        }
        if let Some(rollout) = self.precision.rollout_dtype {
            dtype.push_str(&format!(", sampled from in {} (another model)", rollout.name()));
        }
        for warning in self.precision.slower_types(on.0) {
            tracing::warn!("{warning}");
        }
        let (name, described) = (self.shown(), on.1);
        tracing::info!("model {name} ({millions:.2}M parameters), {dtype} on {described}");
    }
}

/// Which problems.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct DataOptions {
    /// Dataset: a generated task (countdown, countdown/test), a .jsonl, .json, .csv or .parquet file, or a dataset on
    /// the Hub (openai/gsm8k/main:test).
    #[arg(long, default_value = "countdown", long_help = DATASET_HELP, alias = "dataset-name", help_heading = "Data")]
    pub dataset: String,
    /// Column with the question or the chat messages.
    #[arg(long, help_heading = "Data")]
    pub prompt_column: Option<String>,
    /// Column with the answer, or with a worked solution that ends in the answer.
    #[arg(long, help_heading = "Data")]
    pub answer_column: Option<String>,
    /// The verifiers of completions, and their rewards.
    #[command(flatten)]
    #[serde(flatten)]
    pub rewards: RewardOptions,
    /// Number of problems to use, from the start of the dataset. Default: all.
    #[arg(long, add = LIMIT, help_heading = "Data")]
    pub max_samples: Option<usize>,
    /// Leave out rows that are too long: a prompt that leaves no room for its completion in the model's context, or,
    /// for sft, a prompt and solution that do not fit together. The number of these rows is printed. Without this
    /// option such a row is an error.
    #[arg(long, alias = "filter-overlong", help_heading = "Data")]
    pub filter_overlong_prompts: bool,
    /// The text of prompts besides the question.
    #[command(flatten)]
    #[serde(flatten)]
    pub prompts: PromptOptions,
}

impl DataOptions {
    /// Opens `spec` with these columns and this limit, and says what was found.
    pub(crate) fn open(&self, spec: &str) -> Result<Dataset> {
        self.open_set(&SuiteSet::new(spec))
    }

    /// The same for solutions that are imitated, whose gold answers need not be readable.
    pub(crate) fn open_solutions(&self, spec: &str) -> Result<Dataset> {
        self.open_for(&SuiteSet::new(spec), Purpose::Imitate)
    }

    /// The same for training, judged as [`RewardOptions::judge_for_training`] says.
    pub(crate) fn open_for_training(&self) -> Result<Dataset> {
        let mut dataset = self.open(&self.dataset)?;
        self.rewards.judge_for_training(&mut dataset);
        Ok(dataset)
    }

    /// Leaves out the problems that are too long, where that is asked for; warns of those that the model cannot read.
    pub(crate) fn filter(
        &self,
        dataset: &mut Dataset,
        requested: Option<usize>,
        model: (&HubTokenizer, usize),
    ) -> Result<()> {
        lengths::warn_of_unknown(dataset, model.0);
        lengths::warn_of_dropped(dataset, model.0, false);
        match self.filter_overlong_prompts {
            true => lengths::filter_overlong(dataset, requested, model),
            false => Ok(()),
        }
    }

    /// Opens a set of a suite; what it does not say of columns and verifier, these options do.
    pub(crate) fn open_set(&self, set: &SuiteSet) -> Result<Dataset> {
        self.open_for(set, Purpose::Judge)
    }

    fn open_for(&self, set: &SuiteSet, purpose: Purpose) -> Result<Dataset> {
        let of_set = set.columns();
        let mut columns = Columns {
            prompt: of_set.prompt.or_else(|| self.prompt_column.clone()),
            answer: of_set.answer.or_else(|| self.answer_column.clone()),
            rewards: match of_set.rewards.verifiers.is_empty() {
                true => self.rewards.rewards(),
                false => Rewards { classes: self.rewards.classes.clone(), ..of_set.rewards },
            },
            purpose,
            ..Columns::default()
        };
        columns.prompting = self.prompts.prompting(|spec, prompting| {
            let columns = Columns { prompting: prompting.clone(), ..columns.clone() };
            Ok(data_file::open(spec, &columns, None)?.problems)
        })?;
        let mut dataset = data_file::open(&set.dataset, &columns, self.max_samples)?;
        if let Some(name) = &set.name {
            dataset.name.clone_from(name);
        }
        let checker = checkers(&*dataset.verifier);
        let problems = counted(dataset.problems.len(), "problem");
        tracing::info!("dataset {}: {problems}, checked by `{checker}`", dataset.name);
        dataset.notes.iter().for_each(|note| tracing::info!("  {note}"));
        dataset.first_problem().iter().for_each(|first| tracing::info!("  {first}"));
        if let (Purpose::Judge, Some(first)) = (purpose, dataset.problems.first()) {
            let warning = judge::probe(&*dataset.verifier, first).map_err(anyhow::Error::msg)?;
            if let Some(warning) = warning.filter(|_| dataset.has_answer_texts) {
                tracing::warn!("{warning}");
            }
        }
        Ok(dataset)
    }
}

/// How an evaluation samples.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct DecodingOptions {
    /// Sampling temperature; 0 is greedy. Several, separated by commas, are evaluated one after another.
    #[arg(long, value_delimiter = ',', default_value = "1", add = at_least(0.0).at_most(100.0),
          help_heading = "Decoding")]
    pub temperature: Vec<f64>,
    /// The filters of next-token distributions.
    #[command(flatten)]
    #[serde(flatten)]
    pub filters: FilterOptions,
    /// Maximum new tokens of a completion. Default: the rest of the context after the prompt, at most 512.
    #[arg(long, add = TOKENS, help_heading = "Decoding")]
    pub max_completion_length: Option<usize>,
}

impl DecodingOptions {
    /// Sampling settings without the tokens that end a sequence, which a solver takes from its tokenizer.
    pub(crate) fn params(&self, temperature: f64, length: usize) -> SamplingParams {
        let (filters, eos) = (self.filters.into(), Vec::new());
        SamplingParams { temperature, filters, max_new_tokens: length, eos }
    }
}

/// The k that were asked for, which n samples must estimate; unless any was, those of `usual` that they can and, below
/// the largest of these, n itself.
pub(crate) fn estimable(requested: &[usize], usual: &[usize], n: usize) -> Result<Vec<usize>> {
    if !requested.is_empty() {
        pass_at_k::check(n, requested)?;
        return Ok(requested.to_vec());
    }
    let mut ks: Vec<usize> = usual.iter().copied().filter(|k| *k <= n).collect();
    if ks.len() < usual.len() && n > 0 && !ks.contains(&n) {
        ks.push(n);
    }
    Ok(ks)
}
