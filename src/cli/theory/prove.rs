//! `tealight prove OBJECTIVE`.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use tealight_lab::prove::{fixed_point, prove};
use tealight_learn::objective::Objective;
use tealight_system::range::at_least;
use tealight_system::telemetry::out;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ProveOptions {
    /// The objective, with its settings: `rloo`, `divergence:f=(t-1)^2/(t+1):0.1`, `grpo:advantage=r-mean(r)`.
    #[arg(value_name = "OBJECTIVE")]
    objective: Objective,
    /// What the objective is said to maximise: a sum of E[v], pass@K, distinct@K, KL(pi||a), NAME(pi||a) and
    /// D[FORMULA](pi||a), with p* or p_beta(BETA) in place of the base a. Default: the objective's own definition.
    #[arg(long, value_name = "CLAIM")]
    claim: Option<String>,
    /// Samples per prompt (group size), at most 5. All possible groups of this size are enumerated. Default: 4, or as
    /// many as the objective needs.
    #[arg(long, add = at_least(1.0).at_most(5.0))]
    num_generations: Option<usize>,
    /// Print one JSON object instead of sentences.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(options: &ProveOptions) -> Result<()> {
    let ProveOptions { objective, claim, num_generations, json } = options;
    let mut proof = prove(objective, claim.as_deref(), *num_generations)?;
    proof.fixed_point = fixed_point(&objective.plan)?;
    let mut out = out();
    if *json {
        return Ok(writeln!(out, "{}", serde_json::to_string(&proof)?)?);
    }
    writeln!(out, "{}", proof.objective)?;
    Ok(proof.sentences().iter().try_for_each(|line| writeln!(out, "  {line}"))?)
}
