//! `tealight beta`.

use anyhow::Result;

use crate::app::beta::{self, BetaMeaning, BetaOptions};
use crate::cli::table;
use crate::learn::base_validity::BaseValidity;
use crate::system::telemetry::print;

pub(in crate::cli) fn run(options: &BetaOptions) -> Result<()> {
    let meaning = beta::run(options)?;
    print(match options.json {
        true => serde_json::to_string_pretty(&meaning.rows)?,
        false => rows(&meaning.rows, &meaning.base),
    })?;
    Ok(())
}

fn rows(rows: &[BetaMeaning], base: &BaseValidity) -> String {
    let header =
        ["validity", "95 % interval", "beta", "KL cost", "best objective", "KL(p*||p_beta)"];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let values = [row.validity, row.beta, row.kl_cost, row.objective, row.kl_pstar_pbeta];
        let mut line: Vec<String> = values.iter().map(|x| format!("{x:.4}")).collect();
        let interval = row.validity_interval;
        line.insert(
            1,
            interval.map_or("given".into(), |(low, high)| format!("{low:.3} to {high:.3}")),
        );
        cells.push(line);
    }
    let meaning = BetaMeaning::new(base, 1.0);
    let over = match base.prompts() {
        1 => String::new(),
        count => format!(", the mean over {count} prompts"),
    };
    format!(
        "{}\nbase validity {:.4}{over}. KL cost is in nats, at most {:.4} (that of p*). For one prompt, beta = 1 / (logit mu - \
         logit A): the optimum of E[v] - beta KL(q||a) then has validity mu.",
        table::plain(&cells),
        meaning.base_validity,
        meaning.kl_cost_limit
    )
}
