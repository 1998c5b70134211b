//! Evaluate a model with a verifier of your own: the embedded model on Countdown, where only answers without a division
//! count.
//!
//! `cargo run --release --example own_verifier`

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::sync::Arc;

use anyhow::Result;
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::{self, Precision};
use tealight::nn::generate::{Filters, SamplingParams};
use tealight::solvers::local::LocalSolver;
use tealight::solvers::sampled::Sampled;
use tealight_datasets::read::Columns;
use tealight_datasets::{Problem, Verdict, Verifier};
use tealight_eval::Summary;
use tealight_eval::evaluate::EvalJob;

/// Accepts what another verifier accepts, without a division in it.
struct WithoutDivision(Arc<dyn Verifier>);

impl Verifier for WithoutDivision {
    fn name(&self) -> &'static str {
        "without-division"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        match self.0.verify(problem, completion) {
            Verdict::Correct { .. } if completion.contains('/') => {
                Verdict::because("divides".into())
            }
            verdict => verdict,
        }
    }
}

fn main() -> Result<()> {
    let (device, _) = device::open("cpu")?;
    let model = Sampled::ours(Pretrained::load("countdown", Precision::default(), &device)?)?;
    let dataset = tealight_datasets::open("countdown/test", &Columns::default(), Some(32))?;
    let judge = WithoutDivision(dataset.verifier.clone());

    // The end-of-sequence tokens are the model's own.
    let (filters, eos) = (Filters::default(), Vec::new());
    let params = SamplingParams { temperature: 1.0, filters, max_new_tokens: 32, eos };
    let solver = LocalSolver::new(&model, params, 0, 256);

    let tallies = EvalJob { judge: &judge, ..EvalJob::new(&dataset, 16, &solver) }.run()?;
    let summary = Summary::new(&tallies, &[1, 4, 16])?;
    for (k, pass) in &summary.pass_at_k {
        println!("pass@{k:<3} {:.3} ({:.3} to {:.3})", pass.value, pass.low, pass.high);
    }
    Ok(())
}
