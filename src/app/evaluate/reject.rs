//! Rejection: sample until correct (GUARD), a reference point for what training should
//! approach.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;
use tealight_datasets::Dataset;
use tealight_eval::number::counted;
use tealight_eval::reject::{Rejected, RejectionJob};
use tealight_eval::{Estimate, Level, Solver, interval};

use super::EvalOptions;
use super::probes::mean_gap;
use crate::app::directory::{self, Destination, Existing};
use crate::app::session::{SamplingRequest, Session};
use crate::app::{lengths, settings};
use crate::learn::presample;
use crate::learn::rollout::Encoded;
use crate::nn::generate::{Filters, RngKey};
use crate::solvers::local::LocalSolver;
use crate::system::files::write_atomic;
use crate::system::ranks::Ranks;
use crate::system::stop::Stop;
use crate::system::telemetry::{JsonLines, Progress};

/// Keys the randomness of rejection apart from that of evaluations.
const REJECTION: u64 = u64::MAX - 1_000_000;

/// The result of rejection sampling: `results.json`.
#[derive(Serialize)]
pub struct Rejection {
    /// Name of the model.
    pub model: String,
    /// The problems' name.
    pub dataset: String,
    /// Number of problems.
    pub problems: usize,
    /// Right answers wanted of each.
    pub wanted: usize,
    /// Share of answers that were correct, mean over problems.
    pub acceptance_rate: f64,
    /// Correct answers kept, all problems together.
    pub accepted: usize,
    /// Answers sampled.
    #[serde(rename = "drawn")]
    pub num_samples: usize,
    /// Problems without a single correct answer.
    pub never_right: usize,
    /// Distinct correct answers a problem among those kept.
    pub distinct: f64,
    /// Estimate of KL(p* || g') in nats, mean over the problems it could be made for.
    pub kl_pstar_guard: Option<Estimate>,
    /// Number of problems it could be made for.
    pub kl_problems: usize,
    /// The result of each problem.
    pub per_problem: Vec<Rejected>,
}

/// Samples every problem until `-n` answers are correct, and writes them.
pub fn run(options: &EvalOptions, existing: Existing, stop: &Stop) -> Result<Rejection> {
    Destination::check(options.output.as_deref(), existing)?;
    let mut options = options.clone();
    options.model.template = options.model.template.dated(None, &Ranks::alone())?;
    let options = &options;
    let mut datasets = options.open()?.1;
    let ([dataset], [temperature]) =
        (datasets.as_mut_slice(), options.decoding.temperature.as_slice())
    else {
        bail!("--reject takes one dataset and one temperature");
    };
    if options.remote.engine.is_some() {
        bail!("--reject needs log-probabilities of stored answers: leave --engine out");
    }
    let (mut base, device) = options.model.load()?;
    options.check_default(Some(&base.tokenizer))?;
    let asked = options.decoding.max_completion_length;
    options.data.filter(dataset, asked, base.tokenizer_and_context())?;
    let length =
        lengths::completion_length(asked, &dataset.problems, base.tokenizer_and_context())?;
    let session = Session::sampling(&mut base, device, stop)?;
    let params = options.decoding.params(*temperature, length, session.eos());
    params.check()?;
    let destination = Destination::resolve(options.output.as_deref(), stop)?;
    let output = destination.path();
    let _claim = directory::fresh(output, existing)?;
    directory::clear(output, existing)?;
    if destination.is_saved() {
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
    sampled(&session, dataset, &draw, rounds, presamples, output)
}

/// The result, until `draw.n` answers to every problem are correct, in at most `rounds` rounds.
fn sampled(
    session: &Session<'_>,
    dataset: &Dataset,
    draw: &SamplingRequest<'_>,
    rounds: usize,
    presamples: Option<&Path>,
    output: &Path,
) -> Result<Rejection> {
    if rounds == 0 || draw.n == 0 {
        bail!("max-rounds and -n must be at least 1");
    }
    let mut lines = JsonLines::create(&output.join("accepted.jsonl"))?;
    let mut progress = Progress::new("rejecting", dataset.problems.len() * draw.n);
    let solver = |round: usize| -> Result<Box<dyn Solver + '_>> {
        session.stop.check()?;
        let rng_key = RngKey { seed: draw.seed, step: REJECTION + round as u64 };
        let solver = session.solver(&session.reference, draw);
        Ok(Box::new(LocalSolver { rng_key, ..solver }))
    };
    let job = RejectionJob { dataset, wanted: draw.n, rounds, solver: &solver };
    let per_problem = job.run(&mut |sample| {
        progress.advance(String::new);
        lines.write(sample)
    })?;
    drop(progress);
    let kl = match presamples {
        None => vec![],
        Some(directory) => distances(session, dataset, draw, directory, &per_problem)?,
    };
    let count = per_problem.len() as f64;
    let report = Rejection {
        model: session.base.name.clone(),
        dataset: dataset.name.clone(),
        problems: per_problem.len(),
        wanted: draw.n,
        acceptance_rate: per_problem.iter().map(|r| r.acceptance_rate).sum::<f64>() / count,
        accepted: per_problem.iter().map(|r| r.accepted).sum(),
        num_samples: per_problem.iter().map(|r| r.num_samples).sum(),
        never_right: per_problem.iter().filter(|r| r.accepted == 0).count(),
        distinct: per_problem
            .iter()
            .map(|r| r.classes.at(Level::Solution).distinct())
            .sum::<usize>() as f64
            / count,
        kl_pstar_guard: (!kl.is_empty()).then(|| interval::mean(&kl)),
        kl_problems: kl.len(),
        per_problem,
    };
    let text = serde_json::to_string_pretty(&report)?;
    write_atomic(&output.join("results.json"), text.as_bytes())?;
    if report.never_right > 0 {
        tracing::warn!(
            "{} gave no correct answer in {} of {}; raise --max-rounds",
            counted(report.never_right, "problem"),
            counted(rounds, "round"),
            draw.n
        );
    }
    tracing::info!("correct answers in {}", output.join("accepted.jsonl").display());
    Ok(report)
}

/// `KL(p* || g') = E_p*[log a - log model] - log Z + log AR`, problem by problem, from the base's stored completions.
///
/// One half of them chooses the problems, those with a correct completion in it, and gives the first term; the other
/// half, which nothing was chosen by, gives Z. Of the base itself the estimate is therefore 0 within its error.
/// Problems without a correct answer here are left out.
fn distances(
    session: &Session<'_>,
    dataset: &Dataset,
    draw: &SamplingRequest<'_>,
    directory: &Path,
    rejected: &[Rejected],
) -> Result<Vec<f64>> {
    let stored = presample::stored_request(directory)?;
    let request = presample::PresampleSpec {
        temperature: draw.params.temperature,
        max_completion_length: draw.params.max_new_tokens,
        dataset: dataset.name.clone(),
        ..stored
    };
    let context = session.base.architecture.max_positions;
    let problems = Encoded::all(
        &dataset.problems,
        &session.base.tokenizer,
        context,
        draw.params.max_new_tokens,
    )?;
    let presamples = presample::load(directory, &problems, &request)?;
    let mut distances = Vec::new();
    for (prompt, rejected) in presamples.prompts.iter().zip(rejected) {
        let (chosen, held_out) = prompt.samples.split_at(prompt.samples.len() / 2);
        let is_solved = chosen.iter().any(presample::BaseCompletion::is_correct);
        let Some(log_rate) = rejected.log_acceptance_rate().filter(|_| is_solved) else { continue };
        let gap = mean_gap(&session.scorer(), prompt, chosen, draw.params.temperature)?;
        let right = held_out.iter().filter(|sample| sample.is_correct()).count();
        // Haldane's and Anscombe's logarithm of a share: half a count keeps it finite, and in both sums cancels the
        // bias of order 1 / n.
        let log_z = ((right as f64 + 0.5) / (held_out.len() as f64 + 0.5)).ln();
        distances.push(gap - log_z + log_rate);
    }
    Ok(distances)
}
