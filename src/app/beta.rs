//! The policy that a KL coefficient leads to, and the coefficient of a target validity: of a base whose validity is
//! given, or known from its samples.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::number::counted;
use tealight_eval::report::sheet;
use tealight_eval::report::view::{Chart, Line, Section, Table};

use crate::learn::base_validity::{BaseValidity, Reached};
use crate::learn::objective::target;
use crate::learn::presample;
use crate::system::files::{writable_directory, write_atomic};
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
    /// Directory for beta.html and beta.json.
    #[arg(long)]
    pub output: Option<PathBuf>,
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

/// Betas that are drawn, from the largest down, and those among them whose interval is.
const DRAWN: usize = 41;
const WITH_BAND: usize = 5;
/// Betas whose meaning is shown where none is asked for.
const SHOWN: [f64; 7] = [1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01];

/// The best policies of betas for a model on its problems.
pub struct Meaning {
    /// One row a beta.
    pub rows: Vec<BetaMeaning>,
    /// The validity of the base.
    pub base: BaseValidity,
}

/// Works out what betas mean, or which lead to target validities, and draws it where a folder is named.
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
    if let Some(output) = &options.output {
        writable_directory(output)?;
        draw_curve(&base, &rows, output)?;
        let json = serde_json::to_string_pretty(&rows)?;
        write_atomic(&output.join("beta.json"), json.as_bytes())?;
        tracing::info!("open {}", output.join("beta.html").display());
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

/// `beta.html`: validity and its price against beta.
fn draw_curve(base: &BaseValidity, rows: &[BetaMeaning], output: &Path) -> Result<()> {
    let betas = (0..DRAWN).map(|i| 2.0_f64 * 0.005_f64.powf(i as f64 / (DRAWN - 1) as f64));
    let mut curve: Vec<BetaMeaning> = betas.map(|beta| BetaMeaning::new(base, beta)).collect();
    curve.sort_by(|a, b| a.beta.total_cmp(&b.beta));
    let chart = |title: &str, y: &str, value: fn(&BetaMeaning) -> f64, band| {
        let points = curve.iter().map(|row| (row.beta, value(row))).collect();
        let line = Line { band, ..Line::new("best policy", points) };
        Chart::new(title, ("beta", y), vec![line]).log()
    };
    let band = |row: &BetaMeaning| {
        base.reached(row.beta).interval.map(|(low, high)| (row.beta, low, high))
    };
    // A validity that is given has no interval.
    let is_given = base.reached(1.0).interval.is_none();
    let band: Vec<(f64, f64, f64)> = curve.iter().step_by(WITH_BAND).filter_map(band).collect();
    let header = ["beta", "validity", "95 % interval", "KL cost"].map(str::to_owned).to_vec();
    let cells = rows.iter().map(|row| {
        let interval = row.validity_interval;
        let interval = interval.map(|(low, high)| format!("{low:.3} to {high:.3}"));
        let [beta, validity, cost] =
            [row.beta, row.validity, row.kl_cost].map(|x| format!("{x:.4}"));
        vec![beta, validity, interval.unwrap_or("given".into()), cost]
    });
    let validity = chart("Validity", "validity", |row| row.validity, band)
        .from_to(0.0, 1.0)
        .caption(match is_given {
            true => "The chance of a correct answer that each beta leads to.",
            false => {
                "The chance of a correct answer that each beta leads to, with its 95 % interval."
            }
        });
    let cost = chart("KL cost", "KL cost (nats)", |row| row.kl_cost, vec![])
        .caption("KL of that policy to the base.");
    let (about, lead) = match is_given {
        true => (
            "Of the best policy under E[v] - beta KL(q||a), in closed form.",
            format!("Base validity {:.4}", base.mean(&|validity| validity)),
        ),
        false => (
            "Of the best policy under E[v] - beta KL(q||a), averaged over prompts and over the values that the base's \
             validity on each may have. The interval makes no assumption on how validity is distributed over prompts.",
            counted(base.prompts(), "prompt"),
        ),
    };
    let section = Section::new("Validity against beta")
        .text(about)
        .charts(vec![validity, cost])
        .table(Table::new(std::iter::once(header).chain(cells).collect()));
    let page = sheet("KL coefficient and expected accuracy", &lead, vec![section])?;
    write_atomic(&output.join("beta.html"), page.as_bytes())
}
