//! `tealight beta`.

use anyhow::Result;

use crate::app::beta::{self, BetaMeaning, BetaOptions};
use crate::cli::table;
use crate::system::telemetry::print;

pub(in crate::cli) fn run(options: &BetaOptions) -> Result<()> {
    let meanings = beta::run(options)?;
    print(match options.json {
        true => serde_json::to_string_pretty(&meanings)?,
        false => rows(&meanings),
    })?;
    Ok(())
}

fn rows(rows: &[BetaMeaning]) -> String {
    let header = ["validity", "beta", "KL cost", "best objective", "KL(p*||p_beta)"];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let values = [row.validity, row.beta, row.kl_cost, row.objective, row.kl_pstar_pbeta];
        cells.push(values.iter().map(|x| format!("{x:.4}")).collect());
    }
    format!(
        "{}\nbase validity {:.4}. KL cost is in nats, at most {:.4} (that of p*). For one prompt, beta = 1 / (logit mu - \
         logit A): the optimum of E[v] - beta KL(q||a) then has validity mu.",
        table::plain(&cells),
        rows[0].base_validity,
        rows[0].kl_cost_limit
    )
}
