//! `tealight beta`: what a KL coefficient means, and which one gives a target validity.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::table;
use crate::objective::target;
use crate::telemetry::print;

/// Options of `tealight beta`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct BetaOptions {
    /// The base's chance of being right, between 0 and 1 (`tealight presample` measures it).
    #[arg(long)]
    validity: Option<f64>,
    /// How often the best policy should be right.
    #[arg(long, value_delimiter = ',')]
    target: Vec<f64>,
    /// The other way round: betas whose validity is wanted.
    #[arg(long, value_delimiter = ',')]
    beta: Vec<f64>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    base_validity: f64,
    beta: f64,
    validity: f64,
    kl_cost: f64,
    kl_cost_limit: f64,
    objective: f64,
    kl_pstar_pbeta: f64,
}

impl Row {
    fn of(base: f64, beta: f64) -> Self {
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

pub(super) fn run(options: &BetaOptions) -> Result<()> {
    let Some(base) = options.validity else {
        bail!("--validity A is needed: how often the base is right")
    };
    if options.target.is_empty() && options.beta.is_empty() {
        bail!(
            "give --target MU,... for the betas that lead there, or --beta B,... for where they lead"
        );
    }
    let mut rows = Vec::new();
    for mu in &options.target {
        rows.push(Row::of(base, target::beta_for(base, *mu)?));
    }
    for beta in &options.beta {
        if !(*beta > 0.0 && beta.is_finite()) {
            bail!("beta must be above 0, not {beta}");
        }
        if !(base > 0.0 && base < 1.0) {
            bail!("the base validity must be between 0 and 1, both excluded, not {base}");
        }
        rows.push(Row::of(base, *beta));
    }
    let text = if options.json {
        serde_json::to_string_pretty(&rows)?
    } else {
        let header = ["validity", "beta", "KL cost", "best objective", "KL(p*||p_beta)"];
        let mut cells = vec![header.map(str::to_owned).to_vec()];
        for row in &rows {
            let values = [row.validity, row.beta, row.kl_cost, row.objective, row.kl_pstar_pbeta];
            cells.push(values.iter().map(|x| format!("{x:.4}")).collect());
        }
        format!(
            "{}\nbase validity {base}; costs in nats, at most {:.4} (all of p*). beta = 1 / (logit mu - \
             logit A): the best policy under E[v] - beta KL(q||a) is right with chance mu.",
            table::plain(&cells),
            -base.ln()
        )
    };
    print(text)?;
    Ok(())
}
