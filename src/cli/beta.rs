//! `tealight beta`: what a KL coefficient means, and which one gives a target validity; with `--measure`, of a model
//! on problems.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use serde::{Deserialize, Serialize};
use tealight_eval::report::chart::{Axes, Line, draw};
use tealight_eval::report::sheet::{Section, html};

use super::config_merge;
use super::options::{self, DataOptions, ModelOptions};
use super::place;
use super::session::Session;
use super::table;
use crate::files::{Claim, write_atomic};
use crate::objective::target;
use crate::presample::{PromptSamples, Request};
use crate::rollout::Encoded;
use crate::telemetry::print;
use crate::train::Stop;

/// Options of `tealight beta`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct BetaOptions {
    /// The base's chance of being right, between 0 and 1.
    #[arg(long)]
    validity: Option<f64>,
    /// Measure that chance, problem by problem: sample --model on --dataset, and draw validity against beta.
    #[arg(long, conflicts_with = "validity")]
    measure: bool,
    /// How often the best policy should be right.
    #[arg(long, value_delimiter = ',')]
    target: Vec<f64>,
    /// The other way round: betas whose validity is wanted.
    #[arg(long, value_delimiter = ',')]
    beta: Vec<f64>,
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataOptions,
    /// Completions a prompt for --measure.
    #[arg(short = 'n', long, default_value_t = 16)]
    num_presamples: usize,
    /// Most tokens in a completion for --measure; unless given, what the context leaves, up to 512.
    #[arg(long)]
    max_completion_length: Option<usize>,
    /// Seeds the samples of --measure.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the samples of --measure and beta.html go; the samples serve `train --presamples`.
    #[arg(long, requires = "measure")]
    output: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The options of this command: those of sampling mean nothing without `--measure`.
///
/// # Errors
/// See above, and [`config_merge::resolve`].
pub(super) fn resolve(matches: &ArgMatches) -> Result<BetaOptions> {
    let options: BetaOptions = config_merge::resolve_plain(matches)?;
    let always = ["validity", "target", "beta", "json", "config"];
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    // Groups of options have ids too, which begin with a capital.
    let is_option = |id: &&str| id.starts_with(|first: char| first.is_lowercase());
    let mut given = matches.ids().map(clap::Id::as_str).filter(is_option).filter(is_given);
    if !options.measure
        && let Some(id) = given.find(|id| !always.contains(id))
    {
        bail!("--{} has no effect without --measure", id.replace('_', "-"));
    }
    Ok(options)
}

/// What one beta means, averaged over prompts.
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
    fn of(bases: &[f64], beta: f64) -> Self {
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

pub(super) fn run(options: &BetaOptions, stop: &Stop) -> Result<()> {
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
        rows.push(Row::of(&bases, target::common_beta(&bases, *mu)?));
    }
    for beta in &options.beta {
        if !(*beta > 0.0 && beta.is_finite()) {
            bail!("beta must be above 0, not {beta}");
        }
        if let Some(base) = bases.iter().find(|base| !(**base > 0.0 && **base < 1.0)) {
            bail!("the base validity must be between 0 and 1, both excluded, not {base}");
        }
        rows.push(Row::of(&bases, *beta));
    }
    if rows.is_empty() {
        rows.extend([1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01].map(|beta| Row::of(&bases, beta)));
    }
    let text = match options.json {
        true => serde_json::to_string_pretty(&rows)?,
        false => table(&rows, &bases),
    };
    if let Some(output) = &options.output {
        draw_curve(&bases, &rows, output)?;
        tracing::info!("open {}", output.join("beta.html").display());
    }
    print(text)?;
    Ok(())
}

impl BetaOptions {
    /// The model's validity on every problem, `(c + 1/2) / (n + 1)`.
    fn measured(&self, stop: &Stop) -> Result<Vec<f64>> {
        let dataset = self.data.open(&self.data.dataset)?;
        let (base, device) = self.model.load()?;
        let length =
            options::completion_length(self.max_completion_length, &dataset.problems, &base)?;
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
        let session = Session::new(&base, device, stop)?;
        let context = base.architecture.max_positions;
        let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, length)?;
        let request = Request {
            model: base.name.clone(),
            dataset: dataset.name.clone(),
            num_presamples: self.num_presamples,
            extra_check: false,
            temperature: 1.0,
            max_completion_length: length,
            seed: self.seed,
            dtype: base.dtype,
        };
        let found = session.draw_presamples(&dataset, &problems, &request, 256, &directory)?;
        Ok(found.prompts.iter().map(PromptSamples::validity).collect())
    }
}

fn table(rows: &[Row], bases: &[f64]) -> String {
    let header = ["validity", "beta", "KL cost", "best objective", "KL(p*||p_beta)"];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let values = [row.validity, row.beta, row.kl_cost, row.objective, row.kl_pstar_pbeta];
        cells.push(values.iter().map(|x| format!("{x:.4}")).collect());
    }
    let whole = Row::of(bases, 1.0);
    let over = match bases.len() {
        1 => String::new(),
        count => format!(", the mean over {count} prompts, each with its own"),
    };
    format!(
        "{}\nbase validity {:.4}{over}; costs in nats, at most {:.4} (all of p*). On a prompt beta = 1 / (logit mu - \
         logit A): the best policy under E[v] - beta KL(q||a) is right with chance mu.",
        table::plain(&cells),
        whole.base_validity,
        whole.kl_cost_limit
    )
}

/// `beta.html`: validity and its price against beta.
fn draw_curve(bases: &[f64], rows: &[Row], output: &Path) -> Result<()> {
    let betas = (0..DRAWN).map(|i| 2.0_f64 * 0.005_f64.powf(i as f64 / (DRAWN - 1) as f64));
    let mut drawn: Vec<Row> = betas.map(|beta| Row::of(bases, beta)).collect();
    drawn.sort_by(|a, b| a.beta.total_cmp(&b.beta));
    let chart = |y: &str, of: fn(&Row) -> f64, y_range| {
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
