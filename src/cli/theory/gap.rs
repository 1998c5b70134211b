//! `tealight gap RUN`.

use anyhow::Result;

use crate::app::gap::{self, Gap, GapOptions};
use crate::cli::table;
use tealight_learn::gap::Measures;
use tealight_system::stop::Stop;
use tealight_system::telemetry::print;

pub(in crate::cli) fn run(options: &GapOptions, stop: &Stop) -> Result<()> {
    let gap = gap::run(options, stop)?;
    Ok(print(match options.json {
        true => serde_json::to_string_pretty(&gap)?,
        false => rows(&gap),
    })?)
}

/// What the columns of the table are.
const COLUMNS: &str = "a is the base, p* the base conditioned on a correct output.\nvalidity: probability of a correct \
output. answers: exp(entropy) of the correct ones. gap to best: J(best) - J. KL in nats. \
unlisted: probability of all outputs that are not listed.";

fn rows(gap: &Gap) -> String {
    let header = [
        "policy",
        "J",
        "gap to best",
        "validity",
        "answers",
        "KL(pi||a)",
        "KL(p*||pi)",
        "unlisted",
    ];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    let mut row = |name: &str, of_best: Option<f64>, measures: &Measures| {
        let Measures { objective, validity, kl_base, effective_answers, kl_pstar, unlisted } =
            measures;
        let number = |x: f64| format!("{x:.4}");
        cells.push(vec![
            name.to_owned(),
            number(*objective),
            of_best.map(number).unwrap_or_default(),
            number(*validity),
            format!("{effective_answers:.2}"),
            format!("{kl_base:.3}"),
            format!("{kl_pstar:.3}"),
            format!("{unlisted:.0e}"),
        ]);
    };
    row("p_beta, any model", None, &gap.p_beta);
    gap.rows.iter().for_each(|one| row(&one.policy, Some(one.optimisation_gap), &one.measures));
    let Gap { beta, problems, outputs, best, misspecification_gap, optimisation_gap, .. } = gap;
    format!(
        "{}\nJ = E[v] - {beta} KL(pi||a), exactly, over {outputs} outputs to {problems} problems; {COLUMNS}\n\
         best: {best}, the policy of the model class with the largest J that the search reached\n\
         misspecification gap {misspecification_gap:.4} at most: J(p_beta) - J(best)\n\
         optimisation gap     {optimisation_gap:.4} at least: J(best) - J(run)",
        table::plain(&cells)
    )
}
