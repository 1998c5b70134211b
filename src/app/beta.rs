//! The policy that a KL coefficient leads to, and the coefficient of a target validity: of a base whose validity is
//! given, or known from its samples.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::learn::base_validity::{BaseValidity, Reached};
use crate::learn::objective::target;
use crate::learn::presample;
use crate::system::range::{above, at_least};

/// Options of `tealight beta`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct BetaOptions {
    /// Validity of the base: its probability of a correct answer, between 0 and 1.
    #[arg(long, add = above(0.0).below(1.0))]
    pub validity: Option<f64>,
    /// Measure the base's validity on the samples in this directory, made by `tealight presample`, prompt by prompt.
    #[arg(long, conflicts_with = "validity")]
    pub presamples: Option<PathBuf>,
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

/// The best policy of one beta, averaged over prompts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BetaMeaning {
    /// The base's chance of being correct.
    pub base_validity: f64,
    /// The coefficient.
    pub beta: f64,
    /// The best policy's chance of being correct: the expectation.
    pub validity: f64,
    /// Its 95 % interval, whatever shape the population of prompts has; none where the base's validity is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validity_interval: Option<(f64, f64)>,
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
    /// The meaning of a beta for bases of these validities, without an interval.
    pub fn new(base: &BaseValidity, beta: f64) -> Self {
        let reached = |base: f64| target::validity_of(base, beta);
        Self {
            base_validity: base.mean(&|base| base),
            beta,
            validity: base.mean(&reached),
            validity_interval: None,
            kl_cost: base.mean(&|base| target::cost(base, reached(base))),
            kl_cost_limit: base.mean(&|base| -base.ln()),
            objective: base.mean(&|base| target::best_value(base, beta)),
            kl_pstar_pbeta: base.mean(&|base| -reached(base).ln()),
        }
    }

    fn with_interval(self, base: &BaseValidity) -> Self {
        Self { validity_interval: base.reached(self.beta).interval, ..self }
    }
}

/// Betas whose meaning is shown where none is asked for.
const SHOWN: [f64; 7] = [1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01];

/// The best policies of betas for a model on its problems.
pub struct Meaning {
    /// One row a beta.
    pub rows: Vec<BetaMeaning>,
    /// The validity of the base.
    pub base: BaseValidity,
}

/// Works out what betas mean, or which lead to target validities.
pub fn run(options: &BetaOptions) -> Result<Meaning> {
    if options.target.is_empty() && options.beta.is_empty() && options.presamples.is_none() {
        bail!(
            "give --target MU,... for the betas that lead there, or --beta B,... for where they lead"
        );
    }
    if let Some(beta) = options.beta.iter().find(|beta| !(**beta > 0.0 && beta.is_finite())) {
        bail!("beta must be above 0, not {beta}");
    }
    let base = match (options.validity, &options.presamples) {
        (Some(validity), _) => BaseValidity::given(validity)?,
        (None, Some(directory)) => BaseValidity::measured(presample::stored_trials(directory)?)
            .with_context(|| directory.display().to_string())?,
        (None, None) => bail!(
            "--validity A is needed, how often the base is correct, or --presamples DIR, whose samples say so (tealight \
             presample)"
        ),
    };
    let meaning = |beta: &f64| BetaMeaning::new(&base, *beta).with_interval(&base);
    let rows: Vec<BetaMeaning> = options.betas(&base)?.iter().map(meaning).collect();
    let reached =
        rows.iter().map(|row| Reached { expected: row.validity, interval: row.validity_interval });
    let widest = reached.max_by(|a, b| a.width().total_cmp(&b.width()));
    if let Some(caution) = widest.and_then(|reached| base.caution(&reached)) {
        tracing::warn!("{caution}; presample with a larger -n, or ask for a lower validity");
    }
    Ok(Meaning { rows, base })
}

impl BetaOptions {
    /// The betas whose meaning is asked for.
    fn betas(&self, base: &BaseValidity) -> Result<Vec<f64>> {
        let targets = self.target.iter().map(|mu| base.common_beta(*mu));
        let mut betas: Vec<f64> = targets.collect::<Result<_>>()?;
        betas.extend(&self.beta);
        if betas.is_empty() {
            betas.extend(SHOWN);
        }
        Ok(betas)
    }
}
