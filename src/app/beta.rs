//! What a KL coefficient means, and which one gives a target validity; measured, of a model on problems.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::report::chart::{Axes, Line, draw};
use tealight_eval::report::sheet::{Section, html};

use crate::app::place;
use crate::app::session::Session;
use crate::app::settings::{self, DataOptions, ModelOptions};
use crate::files::{Claim, write_atomic};
use crate::objective::target;
use crate::presample::{PresampleSpec, PromptSamples};
use crate::rollout::Encoded;
use crate::train::Stop;

/// Options of `tealight beta`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct BetaOptions {
    /// The base's chance of being right, between 0 and 1.
    #[arg(long)]
    pub validity: Option<f64>,
    /// Measure that chance, problem by problem: sample --model on --dataset, and draw validity against beta.
    #[arg(long, conflicts_with = "validity")]
    pub measure: bool,
    /// How often the best policy should be right.
    #[arg(long, value_delimiter = ',')]
    pub target: Vec<f64>,
    /// The other way round: betas whose validity is wanted.
    #[arg(long, value_delimiter = ',')]
    pub beta: Vec<f64>,
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// Completions a prompt for --measure.
    #[arg(short = 'n', long, default_value_t = 16)]
    pub num_presamples: usize,
    /// Most tokens in a completion for --measure; unless given, what the context leaves, up to 512.
    #[arg(long)]
    pub max_completion_length: Option<usize>,
    /// Seeds the samples of --measure.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where the samples of --measure and beta.html go; the samples serve `train --presamples`.
    #[arg(long, requires = "measure")]
    pub output: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// What one beta means, averaged over prompts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BetaMeaning {
    /// The base's chance of being right.
    pub base_validity: f64,
    /// The coefficient.
    pub beta: f64,
    /// The best policy's chance of being right.
    pub validity: f64,
    /// What that costs in KL to the base, in nats.
    pub kl_cost: f64,
    /// The most it can cost: all of p*.
    pub kl_cost_limit: f64,
    /// The best value of `E[v] - beta KL(q||a)`.
    pub objective: f64,
    /// KL from p* to the best policy, in nats.
    pub kl_pstar_pbeta: f64,
}

impl BetaMeaning {
    /// Of a beta, for bases of these validities.
    pub fn of(bases: &[f64], beta: f64) -> Self {
        let mean = |of: &dyn Fn(f64) -> f64| {
            bases.iter().map(|base| of(*base)).sum::<f64>() / bases.len() as f64
        };
        let reached = |base: f64| target::validity_of(base, beta);
        Self {
            base_validity: mean(&|base| base),
            beta,
            validity: mean(&reached),
            kl_cost: mean(&|base| target::cost(base, reached(base))),
            kl_cost_limit: mean(&|base| -base.ln()),
            objective: mean(&|base| target::best_value(base, beta)),
            kl_pstar_pbeta: mean(&|base| -reached(base).ln()),
        }
    }
}

/// Betas that are drawn, from the largest down.
const DRAWN: usize = 41;

/// What betas mean for a model on its problems.
pub struct Meaning {
    /// One row a beta.
    pub rows: Vec<BetaMeaning>,
    /// The base's validity on every problem.
    pub bases: Vec<f64>,
}

/// Works out what betas mean, or which lead to target validities, and draws it where a folder is named.
///
/// # Errors
/// Numbers out of range, a model that cannot be read, a call that was stopped.
pub fn run(options: &BetaOptions, stop: &Stop) -> Result<Meaning> {
    let bases = match (options.validity, options.measure) {
        (Some(base), _) => vec![base],
        (None, true) => options.measured(stop)?,
        (None, false) => bail!(
            "--validity A is needed, how often the base is right, or --measure, to find out with --model on --dataset"
        ),
    };
    if options.target.is_empty() && options.beta.is_empty() && !options.measure {
        bail!(
            "give --target MU,... for the betas that lead there, or --beta B,... for where they lead"
        );
    }
    let mut rows = Vec::new();
    for mu in &options.target {
        rows.push(BetaMeaning::of(&bases, target::common_beta(&bases, *mu)?));
    }
    for beta in &options.beta {
        if !(*beta > 0.0 && beta.is_finite()) {
            bail!("beta must be above 0, not {beta}");
        }
        if let Some(base) = bases.iter().find(|base| !(**base > 0.0 && **base < 1.0)) {
            bail!("the base validity must be between 0 and 1, both excluded, not {base}");
        }
        rows.push(BetaMeaning::of(&bases, *beta));
    }
    if rows.is_empty() {
        rows.extend(
            [1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01].map(|beta| BetaMeaning::of(&bases, beta)),
        );
    }
    if let Some(output) = &options.output {
        draw_curve(&bases, &rows, output)?;
        tracing::info!("open {}", output.join("beta.html").display());
    }
    Ok(Meaning { rows, bases })
}

impl BetaOptions {
    /// The model's validity on every problem, `(c + 1/2) / (n + 1)`.
    fn measured(&self, stop: &Stop) -> Result<Vec<f64>> {
        let dataset = self.data.open(&self.data.dataset)?;
        let (mut base, device) = self.model.load()?;
        let length = settings::completion_length(
            self.max_completion_length,
            &dataset.problems,
            base.room(),
        )?;
        let temporary = tempfile::tempdir()?;
        let (_claim, directory) = match &self.output {
            Some(output) => (Some(Claim::take(output)?), output.join("presamples")),
            None => (None, temporary.path().join("presamples")),
        };
        if let Some(output) = &self.output
            && !directory.exists()
        {
            place::check(output, false)?;
        }
        stop.saves();
        let session = Session::sampling(&mut base, device, stop)?;
        let base = session.base;
        let context = base.architecture.max_positions;
        let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, length)?;
        let request = PresampleSpec {
            model: base.name.clone(),
            dataset: dataset.name.clone(),
            num_presamples: self.num_presamples,
            extra_check: false,
            temperature: 1.0,
            max_completion_length: length,
            seed: self.seed,
            precision: base.precision.of_model(),
        };
        let found = session.draw_presamples(&dataset, &problems, &request, 256, &directory)?;
        Ok(found.prompts.iter().map(PromptSamples::solve_rate).collect())
    }
}

/// `beta.html`: validity and its price against beta.
fn draw_curve(bases: &[f64], rows: &[BetaMeaning], output: &Path) -> Result<()> {
    let betas = (0..DRAWN).map(|i| 2.0_f64 * 0.005_f64.powf(i as f64 / (DRAWN - 1) as f64));
    let mut drawn: Vec<BetaMeaning> = betas.map(|beta| BetaMeaning::of(bases, beta)).collect();
    drawn.sort_by(|a, b| a.beta.total_cmp(&b.beta));
    let chart = |y: &str, of: fn(&BetaMeaning) -> f64, y_range| {
        let line = |name: &str, colour, points| Line {
            name: name.to_owned(),
            colour,
            is_bold: colour == 0,
            points,
            mark: None,
            band: vec![],
        };
        let best = drawn.iter().map(|row| (row.beta, of(row))).collect();
        draw(&Axes { x: "beta", y, is_log: true, y_range }, &[line("best policy", 1, best)])
    };
    let header = ["beta", "validity", "KL cost"].map(str::to_owned).to_vec();
    let cells = rows.iter().map(|row| {
        [row.beta, row.validity, row.kl_cost].iter().map(|x| format!("{x:.4}")).collect()
    });
    let section = Section {
        heading: "Validity against beta".into(),
        text: "Of the best policy under E[v] - beta KL(q||a), averaged over prompts, each with its own validity under \
               the base."
            .into(),
        table: std::iter::once(header).chain(cells).collect(),
        figures: vec![
            (
                chart("validity", |row| row.validity, Some((0.0, 1.0)))?,
                "The chance of a right answer that each beta leads to.".into(),
            ),
            (
                chart("KL cost (nats)", |row| row.kl_cost, None)?,
                "What that costs in KL to the base.".into(),
            ),
        ],
    };
    let lead = format!("{} prompts", bases.len());
    let page = html("What beta means for this model", &lead, &[section]);
    write_atomic(&output.join("beta.html"), page.as_bytes())
}
