//! Evaluation: sample a model on sets of problems and report accuracy and diversity.
//!
//! Samples are appended problem by problem, so a run that was killed goes on where it was; a run that is
//! done is judged again when the same command names another verifier or other k, without sampling.

mod jobs;
pub(crate) mod outcome;
pub(crate) mod probes;
pub mod reject;
mod request;
mod set;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::suite::{self, SuiteSet};
use tealight_datasets::{Dataset, Prompt};
use tealight_eval::results::{Results, VERSION};
use tealight_eval::{Sample, Solver, Tally};

use crate::app::place::{self, Destination};
use crate::app::session::{Draw, Evaluating, Session};
use crate::app::settings::{self, DataOptions, DecodingOptions, ModelOptions};
use crate::device::Precision;
use crate::files::Claim;
use crate::generate::{Filters, SamplingParams};
use crate::process::Process;
use crate::remote::{Remote, RemoteOptions};
use crate::train::Stop;
use crate::train::rlvr::LENGTH;
use jobs::{Job, jobs};
pub use outcome::{Doubtful, Judged};
use request::{Asked, EvaluationSpec, prepare};
use set::set_result;

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
    /// A suite instead of --dataset: countdown, chain, walk, sql, tasks, gsm8k, math500, aime, amc, or a TOML file.
    #[arg(long, conflicts_with = "dataset")]
    pub suite: Option<String>,
    /// Samples a problem.
    #[arg(short, default_value_t = 64)]
    pub n: usize,
    /// Report Pass@k and distinct correct answers at these k, none above -n. Default: those of 1, 4, 16 and 64 that -n
    /// allows, and -n itself where it is below 64.
    #[arg(short, value_delimiter = ',', conflicts_with = "reject")]
    #[serde(default)]
    pub k: Vec<usize>,
    /// Leave out the one sample a problem at temperature 0.
    #[arg(long, conflicts_with = "reject")]
    #[serde(default)]
    pub no_greedy: bool,
    /// How completions are drawn.
    #[command(flatten)]
    #[serde(flatten)]
    pub decoding: DecodingOptions,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Most sequences in one decoding batch.
    #[arg(long, default_value_t = 256)]
    pub max_num_seqs: usize,
    /// A server that samples in place of this process.
    #[command(flatten)]
    #[serde(flatten)]
    pub remote: RemoteOptions,
    /// Sample until -n answers of every problem are correct (GUARD), and report the number of samples needed.
    #[arg(long)]
    #[serde(default)]
    pub reject: bool,
    /// Rounds of -n samples after which --reject gives up on a problem.
    #[arg(long, default_value_t = 16, requires = "reject")]
    pub max_rounds: usize,
    /// Samples of the base (`tealight presample`). Reports the model's coverage of the base's correct answers, and with
    /// --reject the distance from p*.
    #[arg(long)]
    pub presamples: Option<PathBuf>,
    /// Directory for the results, the report and the samples. Without --output the table is printed and nothing is
    /// kept. The same directory continues an evaluation, adds samples where -n is larger, or judges its samples again.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Replace the files that Tealight wrote to --output before.
    #[arg(long)]
    #[serde(skip)]
    pub overwrite: bool,
    /// Exit with status 3 where a larger share of completions than this could not be judged.
    #[arg(long, default_value_t = 0.05, conflicts_with = "reject")]
    pub max_unjudged: f64,
    /// Print the results as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
}

/// Evaluates a model, or a server's, and writes results, report and samples.
///
/// # Errors
/// Settings that do not go together, files that cannot be read or written, a call that was stopped.
pub fn run(options: &EvalOptions, process: &Process) -> Result<Judged> {
    let Process { stop, ranks } = process;
    let destination = Destination::of(options.output.as_deref(), options.overwrite)?;
    let output = destination.path();
    let mut options = options.clone();
    options.k = settings::estimable(&options.k, &[1, 4, 16, 64], options.n)?;
    options.check_presamples()?;
    let options = &options;
    let (sets, datasets) = options.open()?;
    if options.remote.engine.is_some() && options.model.adapter.is_some() {
        bail!("--adapter has no effect with --engine: the server has its own");
    }
    if options.remote.engine.is_some()
        && (options.model.quantized || options.model.precision != Precision::default())
    {
        bail!(
            "--quantized, --dtype, --base-dtype and --rollout-dtype have no effect with --engine: the server has its \
             own weights"
        );
    }
    let jobs = jobs(&sets, &datasets, &options.decoding.temperature)?;
    let problems = || datasets.iter().flat_map(|dataset| &dataset.problems);
    let asked = options.decoding.max_completion_length;
    let started = Instant::now();
    let mut results = Results {
        schema_version: VERSION,
        tealight: format!("{} {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
        model: options.shown_model(),
        config: serde_json::Value::Null,
        seconds: 0.0,
        sets: Vec::new(),
    };
    let mut evaluate = |length: usize, sample: &Sampling<'_>| -> Result<()> {
        let mut options = options.clone();
        options.decoding.max_completion_length = Some(length);
        let mut claim = None;
        let known = ranks.first(|| {
            claim = Some(Claim::take(output)?);
            let known = prepare(output, options.request(&jobs, length)?, options.overwrite)?;
            if destination.is_kept() {
                settings::record_config(&options, output)?;
            }
            Ok(known)
        })?;
        results.config = serde_json::to_value(&options)?;
        stop.saves();
        for job in &jobs {
            results.sets.push(set_result(&options, job, sample, output, known, process)?);
        }
        results.seconds = started.elapsed().as_secs_f64();
        Ok(())
    };
    // Each prompt as the model is given it, for lm-evaluation-harness's form of the samples, where that is written.
    let prompts = |given: &dyn Fn(&Prompt) -> Result<String>| -> Result<Vec<Vec<String>>> {
        if !destination.is_kept() {
            return Ok(Vec::new());
        }
        let of = |job: &Job<'_>| job.dataset.problems.iter().map(|p| given(&p.prompt)).collect();
        jobs.iter().map(of).collect()
    };
    let arguments;
    if let Some(engine) = &options.remote.engine {
        // A server renders chats itself.
        arguments = prompts(&|prompt| match prompt {
            Prompt::Chat(messages) => Ok(serde_json::to_string(messages)?),
            Prompt::Text(text) => Ok(text.clone()),
        })?;
        let remote = Remote::new(engine, &options.model.model, &options.remote, options.seed)?;
        tracing::info!("sampling from {} ({})", options.shown_model(), remote.dialect());
        evaluate(asked.unwrap_or(LENGTH), &|dataset, draw, evaluating, file, known| {
            let solver = remote.with(draw.params);
            evaluating.run(dataset, &solver as &dyn Solver, draw.n, file, known)
        })?;
    } else if let Some(model) = options.model.load_on(ranks, ModelOptions::load_elsewhere)? {
        if options.presamples.is_some() {
            bail!(
                "--presamples needs the log-probabilities of stored answers, and candle-transformers only samples"
            );
        }
        arguments = prompts(&|prompt| model.tokenizer.render(prompt))?;
        let length =
            settings::completion_length(asked, problems(), (&model.tokenizer, model.context))?;
        evaluate(length, &|dataset, draw, evaluating, file, known| {
            let solver = draw.solver(&model);
            evaluating.run(dataset, &solver as &dyn Solver, draw.n, file, known)
        })?;
    } else {
        let (mut base, device) = options.model.load_on(ranks, ModelOptions::load_for_rollouts)?;
        let length = settings::completion_length(asked, problems(), base.room())?;
        arguments = prompts(&|prompt| base.tokenizer.render(prompt))?;
        let session = Session::sampling(&mut base, device, stop)?.among(ranks);
        let rollout_dtype = session.base.precision.rollout_dtype;
        evaluate(length, &|dataset, draw, evaluating, file, known| {
            let params = SamplingParams { eos: session.eos().to_vec(), ..draw.params.clone() };
            let draw = Draw { params: &params, ..*draw };
            let (decoder, label) = (&session.reference, evaluating.label);
            let mut tallies = session.evaluate(decoder, dataset, &draw, label, file, known)?;
            let temperature = params.temperature;
            let is_whole = params.filters == Filters::default() && rollout_dtype.is_none();
            if temperature > 0.0 && is_whole {
                probes::enumerated(&session, decoder, dataset, temperature, &mut tallies)?;
                if let Some(directory) = &options.presamples {
                    let room = params.max_new_tokens;
                    probes::stored(&session, dataset, temperature, room, directory, &mut tallies)?;
                }
            }
            Ok(tallies)
        })?;
    }
    let verifiers = datasets.iter().map(|dataset| &*dataset.verifier);
    ranks.first(|| outcome::write(&results, &arguments, &destination))?;
    let doubt = outcome::doubt(&results, verifiers, options.max_unjudged);
    Ok(Judged { results, doubt })
}

/// Draws samples: the dataset, how, under which label, into which file, with what is known.
type Sampling<'a> = dyn Fn(
        &Dataset,
        &Draw<'_>,
        &Evaluating<'_>,
        &Path,
        &mut HashMap<String, Vec<Sample>>,
    ) -> Result<Vec<Tally>>
    + 'a;

impl EvalOptions {
    /// The sets and their problems.
    fn open(&self) -> Result<(Vec<SuiteSet>, Vec<Dataset>)> {
        let sets = match &self.suite {
            Some(suite) => suite::open(suite)?,
            None => self.data.dataset.split(',').map(|d| SuiteSet::of(d.trim())).collect(),
        };
        let datasets = sets.iter().map(|set| self.data.open_set(set)).collect::<Result<_>>()?;
        Ok((sets, datasets))
    }

    fn request(&self, jobs: &[Job<'_>], length: usize) -> Result<EvaluationSpec> {
        let asked =
            |job: &Job<'_>| Ok((job.file.clone(), Asked::of(job.dataset, job.temperature)?));
        Ok(EvaluationSpec {
            model: self.model.shown(),
            engine: self.remote.engine.clone(),
            engine_model: self.remote.engine_model.clone(),
            precision: self.model.precision,
            filters: self.decoding.filters(),
            max_completion_length: length,
            seed: self.seed,
            prompts: self.data.prompts.recorded()?,
            sets: jobs.iter().map(asked).collect::<Result<_>>()?,
        })
    }

    /// Stored answers say something of the distribution that is sampled: the whole one, our own.
    fn check_presamples(&self) -> Result<()> {
        if self.presamples.is_none() {
            return Ok(());
        }
        if self.remote.engine.is_some() {
            bail!("--presamples needs the model's own log-probabilities: leave --engine out");
        }
        if self.model.precision.rollout_dtype.is_some() {
            bail!(
                "--presamples needs the model's own log-probabilities: leave --rollout-dtype out"
            );
        }
        let is_whole = self.decoding.filters() == Filters::default();
        if !is_whole || self.decoding.temperature.contains(&0.0) {
            bail!(
                "--presamples compares whole distributions: leave --top-k, --top-p, --min-p and \
                 temperature 0 out, or --presamples"
            );
        }
        Ok(())
    }

    fn shown_model(&self) -> String {
        let name = self.remote.engine_model.as_ref().unwrap_or(&self.model.model);
        match &self.remote.engine {
            Some(engine) => format!("{name} at {engine}"),
            None => self.model.sampled(),
        }
    }

    /// How `n` samples a problem are drawn.
    fn draw<'a>(&self, n: usize, params: &'a SamplingParams) -> Draw<'a> {
        Draw { n, params, seed: self.seed, max_num_seqs: self.max_num_seqs }
    }
}

/// Samples every problem until `-n` answers are right, and writes them.
///
/// # Errors
/// See [`run`].
pub fn rejecting(options: &EvalOptions, stop: &Stop) -> Result<reject::Rejection> {
    let destination = Destination::of(options.output.as_deref(), options.overwrite)?;
    let output = destination.path();
    let datasets = options.open()?.1;
    let ([dataset], [temperature]) = (datasets.as_slice(), options.decoding.temperature.as_slice())
    else {
        bail!("--reject takes one dataset and one temperature");
    };
    if options.remote.engine.is_some() {
        bail!("--reject needs log-probabilities of stored answers: leave --engine out");
    }
    let (mut base, device) = options.model.load()?;
    let asked = options.decoding.max_completion_length;
    let length = settings::completion_length(asked, &dataset.problems, base.room())?;
    let session = Session::sampling(&mut base, device, stop)?;
    let params = options.decoding.params(*temperature, length, session.eos());
    params.check()?;
    let _claim = place::fresh(output, options.overwrite)?;
    place::clear(output, options.overwrite)?;
    if destination.is_kept() {
        settings::record_config(options, output)?;
    }
    stop.saves();
    let draw = options.draw(options.n, &params);
    let presamples = options.presamples.as_deref();
    if presamples.is_some() && params.filters != Filters::default() {
        bail!(
            "KL(p* || g') is that of the whole distribution: leave --top-k, --top-p and --min-p, or \
             --presamples, out"
        );
    }
    let rounds = options.max_rounds;
    reject::run(&session, dataset, &draw, rounds, presamples, output)
}
