//! Sample the base once, verify, store; say what it can do.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::pass_at_k::pass_at_k;

use crate::app::directory;
use crate::app::lengths;
use crate::app::session::{Session, stored_use};
use crate::app::settings::{self, DataOptions, ModelOptions, WithOutput};
use crate::learn::base_validity::BaseValidity;
use crate::learn::presample::{self, PresampleSpec, Presamples, PromptSamples, SplitRule};
use crate::learn::rollout::Encoded;
use crate::system::claim::Claim;
use crate::system::files::write_atomic;
use crate::system::process::Process;
use crate::system::range::{COUNT, SEED, TOKENS, at_least};

/// Options of `tealight presample`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct PresampleOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// Number of completions for each prompt.
    #[arg(short = 'n', long, default_value_t = 16, add = at_least(1.0).at_most(65_536.0))]
    pub num_presamples: usize,
    /// Report the base's Pass@k at these k, each at most -n. Default: 1, 4 and 16 as far as -n allows.
    #[arg(short, value_delimiter = ',', add = COUNT)]
    #[serde(default)]
    pub k: Vec<usize>,
    /// Sample one further completion of each prompt, to confirm the prompts that the base seems to solve (DPH-RL).
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub extra_check: bool,
    /// Split the prompts as DPH-RL does: those with at least this share of correct completions (D_pef), and the others
    /// (D_exp).
    #[arg(long, default_value_t = 0.875, add = at_least(0.0).at_most(1.0))]
    pub pef_threshold: f64,
    /// Sampling temperature; must equal that of the training that will use the samples.
    #[arg(long, default_value_t = 1.0, add = at_least(0.0).at_most(100.0))]
    pub temperature: f64,
    /// Maximum new tokens of a completion; must equal the value of the training that will use the samples. Default:
    /// the room that the context leaves, up to 512.
    #[arg(long, add = TOKENS)]
    pub max_completion_length: Option<usize>,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0, add = SEED)]
    pub seed: u64,
    /// Maximum number of sequences in one decoding batch.
    #[arg(long, default_value_t = 256, add = at_least(1.0).at_most(1e10))]
    pub max_num_seqs: usize,
    /// Print the summary as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
}

/// The statistics of the samples: `summary.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Problems.
    pub prompts: usize,
    /// Completions of each.
    pub num_presamples: usize,
    /// Mean share of correct completions.
    pub mean_validity: f64,
    /// Problems with at least one.
    pub solved: usize,
    /// Number of correct completions.
    pub correct_completions: usize,
    /// The base's Pass@k at several k.
    #[serde(rename = "pass@k")]
    pub pass_at_k: Vec<(usize, f64)>,
    /// Share of correct completions from which on a problem counts as solved by the base.
    pub pef_threshold: f64,
    /// The problems below it, to be explored.
    pub d_exp: Vec<String>,
    /// The problems from it on, to be rehearsed.
    pub d_pef: Vec<String>,
    /// Problems whose extra completion was wrong.
    pub failed_extra_check: usize,
    /// How often the base solves each problem: the mean of its posterior under the population of all of them, or the
    /// share of correct completions where none was correct.
    pub validity: Vec<(String, f64)>,
    /// Tokens drawn.
    pub tokens: usize,
}

impl Summary {
    fn new(presamples: &Presamples, ks: &[usize], pef_threshold: f64) -> Self {
        let rule =
            SplitRule { pef_threshold, pef_samples: 0, explore_all: false, drop_unsolved: false };
        let split = presamples.split(rule);
        let prompts = &presamples.prompts;
        let names = |chosen: &[usize]| chosen.iter().map(|i| prompts[*i].problem.clone()).collect();
        let n = presamples.request.num_presamples;
        let mean = |k: usize| {
            prompts.iter().map(|prompt| pass_at_k(n, prompt.correct(), k)).sum::<f64>()
                / prompts.len() as f64
        };
        let trials = prompts.iter().map(PromptSamples::trials).collect();
        let validity = match BaseValidity::measured(trials) {
            Ok(base) => base.of_prompts(),
            // None was solved: there is no population to learn from.
            Err(_) => vec![0.0; prompts.len()],
        };
        Self {
            prompts: prompts.len(),
            num_presamples: n,
            mean_validity: presamples.mean_solve_rate(),
            solved: presamples.solved(),
            correct_completions: prompts.iter().map(|prompt| prompt.correct()).sum(),
            pass_at_k: ks.iter().map(|k| (*k, mean(*k))).collect(),
            pef_threshold,
            d_exp: names(&split.explore),
            d_pef: names(&split.rehearse),
            failed_extra_check: split.unconfirmed,
            validity: prompts.iter().map(|p| p.problem.clone()).zip(validity).collect(),
            tokens: presamples.tokens(),
        }
    }
}

/// Samples the base on every problem, judges its completions and stores them in the directory `output`, where an
/// interrupted call is continued.
///
/// # Errors
/// A model or dataset that cannot be read, a folder that holds something else, a call that was stopped.
pub fn run(options: &PresampleOptions, output: &Path, process: &Process) -> Result<Summary> {
    let Process { stop, ranks } = process;
    let ks = settings::estimable(&options.k, &[1, 4, 16], options.num_presamples)?;
    if !(options.temperature > 0.0 && options.temperature.is_finite()) {
        bail!("temperature must be above 0: log-probabilities are taken at it");
    }
    let mut options = options.clone();
    options.model.template = options.model.template.dated(Some(output), ranks)?;
    let options = &options;
    let mut dataset = options.data.open_for_training()?;
    stored_use(&dataset)?;
    options.model.refuse_rollout_dtype()?;
    let (mut base, device) = options.model.load_on(ranks, ModelOptions::load_to_train)?;
    let asked = options.max_completion_length;
    options.data.filter(&mut dataset, asked, base.tokenizer_and_context())?;
    let length =
        lengths::completion_length(asked, &dataset.problems, base.tokenizer_and_context())?;
    let request = PresampleSpec {
        model: base.name.clone(),
        dataset: dataset.name.clone(),
        num_presamples: options.num_presamples,
        extra_check: options.extra_check,
        temperature: options.temperature,
        max_completion_length: length,
        seed: options.seed,
        precision: base.precision.of_model(),
    };
    let mut claim = None;
    ranks.first(|| {
        if !output.join("presamples.json").exists() && !directory::is_free(output) {
            bail!(
                "{}: holds files that are no pre-samples; choose another --output",
                output.display()
            );
        }
        let taken = claim.insert(Claim::take(output)?);
        presample::refuse_other(output, &request)?;
        taken.accept()?;
        let settings = PresampleOptions { max_completion_length: Some(length), ..options.clone() };
        settings::record_config(&WithOutput { settings: &settings, output }, output).map(drop)
    })?;
    stop.saves();
    let session = Session::sampling(&mut base, device, stop)?.with_ranks(ranks);
    let base = session.base;
    let context = base.architecture.max_positions;
    let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, length)?;
    let presamples =
        session.draw_presamples(&dataset, &problems, &request, options.max_num_seqs, output)?;
    let summary = Summary::new(&presamples, &ks, options.pef_threshold);
    let json = serde_json::to_string_pretty(&summary)?;
    ranks.first(|| write_atomic(&output.join("summary.json"), json.as_bytes()))?;
    tracing::info!("samples in {}", output.join("presamples.jsonl").display());
    Ok(summary)
}
