//! The policy that a KL coefficient leads to, and the coefficient of a target validity, for a base of known validity.

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::learn::objective::target;
use crate::system::range::{above, at_least};

/// Options of `tealight beta`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct BetaOptions {
    /// Validity of the base: its probability of a correct answer, between 0 and 1.
    #[arg(long, add = above(0.0).below(1.0))]
    pub validity: Option<f64>,
    /// Validity to reach: the share of the optimal policy's samples that are correct.
    #[arg(long, value_delimiter = ',', add = above(0.0).below(1.0))]
    pub target: Vec<f64>,
    /// KL coefficients for which the validity of the optimum is printed.
    #[arg(long, value_delimiter = ',', add = at_least(0.0).at_most(1e6))]
    pub beta: Vec<f64>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The best policy of one beta.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BetaMeaning {
    /// The base's chance of being correct.
    pub base_validity: f64,
    /// The coefficient.
    pub beta: f64,
    /// The best policy's chance of being correct.
    pub validity: f64,
    /// Its KL to the base, in nats.
    pub kl_cost: f64,
    /// The most it can cost: all of p*.
    pub kl_cost_limit: f64,
    /// The best value of `E[v] - beta KL(q||a)`.
    pub objective: f64,
    /// KL from p* to the best policy, in nats.
    pub kl_pstar_pbeta: f64,
}

impl BetaMeaning {
    /// The meaning of a beta for a base of this validity.
    fn new(base: f64, beta: f64) -> Self {
        let validity = target::validity_of(base, beta);
        Self {
            base_validity: base,
            beta,
            validity,
            kl_cost: target::cost(base, validity),
            kl_cost_limit: -base.ln(),
            objective: target::best_value(base, beta),
            kl_pstar_pbeta: -validity.ln(),
        }
    }
}

/// Works out what betas mean, or which lead to target validities: one row a beta.
///
/// # Errors
/// A validity or target outside (0, 1), a target that no beta leads to, nothing asked for.
pub fn run(options: &BetaOptions) -> Result<Vec<BetaMeaning>> {
    if options.target.is_empty() && options.beta.is_empty() {
        bail!(
            "give --target MU,... for the betas that lead there, or --beta B,... for where they lead"
        );
    }
    if let Some(beta) = options.beta.iter().find(|beta| !(**beta > 0.0 && beta.is_finite())) {
        bail!("beta must be above 0, not {beta}");
    }
    let base = options
        .validity
        .context("--validity A is needed, how often the base is correct, such as its Pass@1")?;
    if !(base > 0.0 && base < 1.0) {
        bail!("the base validity must be between 0 and 1, both excluded, not {base}");
    }
    let mut betas = Vec::new();
    for target in &options.target {
        betas.push(target::beta_for(base, *target)?);
    }
    betas.extend(&options.beta);
    Ok(betas.into_iter().map(|beta| BetaMeaning::new(base, beta)).collect())
}
