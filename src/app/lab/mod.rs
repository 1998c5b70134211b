//! Optima of small worlds, exactly; the estimators of real runs beside them.

mod collapse;
mod figures;
pub mod paper;
mod paper_figures;
mod tables;
mod world;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tealight_core::display;
use tealight_eval::number::fixed;
use tealight_eval::report::sheet;
use tealight_eval::report::view::{Section, Table};

use crate::app::directory::{self, Destination, Existing};
use crate::lab::sweep::{Point, Start, sweep};
use crate::lab::{Class, Descent, KS, Measures, World};
use crate::learn::objective::{Divergence, Objective};
use crate::system::files::write_atomic;
use crate::system::range::{SEED, above, at_least};
pub use collapse::CollapseOptions;

/// Options of `tealight lab`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct LabOptions {
    /// ends, dyck, strategies, walk, or a FILE.toml that describes a world (docs/how-to/worlds.md).
    #[arg(default_value = "ends")]
    pub world: String,
    /// Class of policies. Default: bigram; unigram for the world strategies.
    #[arg(long)]
    pub class: Option<String>,
    /// Maximise mean reward - beta KL(q || base) for each of these betas; 0 is the reward alone. With --divergence
    /// the target is p_beta instead.
    #[arg(long, value_delimiter = ',', add = at_least(0.0).at_most(1e6))]
    pub beta: Vec<f64>,
    /// Minimise the alpha divergence to p* for each of these alphas: 0 is forward KL, 1 is reverse KL.
    #[arg(long, value_delimiter = ',', add = at_least(0.0).at_most(1.0))]
    pub alpha: Vec<f64>,
    /// Minimise these divergences to p*, or with --beta to p_beta: names, or formulas such as f=(t-1)^2/(t+1), in which
    /// `;` separates the arguments of max and min.
    #[arg(long, value_delimiter = ',')]
    pub divergence: Vec<String>,
    /// Where the search for the optimum starts: at the base, as training does, at a collapsed policy, or at the
    /// previous point's optimum.
    #[arg(long, default_value = "base")]
    pub start: String,
    /// Maximum number of steps of Adam.
    #[arg(long, default_value_t = 6000, add = at_least(1.0).at_most(1e9))]
    pub iterations: usize,
    /// Learning rate at the start; the rate falls to 0.
    #[arg(long, default_value_t = 0.03, add = above(0.0).at_most(1e30))]
    pub learning_rate: f64,
    /// Measure bias and variance of the gradient estimators that training uses, at a policy that is not the base.
    #[arg(long)]
    pub sampled: bool,
    /// The objectives of --sampled.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "reinforce,rloo,grpo,dr-grpo,kl-reward,kl-full,kl-k2,kl-k3,dph-f,dph-js,alpha-dpg:0,alpha-dpg:0.5,alpha-dpg:0.5:partition=online,f-dpg:js,f-dpg:tv,rft,bolt,maxrl,pkpo,pass-at-k,nsr,ucpo,unlikeliness,entropy-bonus"
    )]
    pub objectives: Vec<Objective>,
    /// Number of samples in a group, for --sampled and --table decompose.
    #[arg(long, default_value_t = 8, add = at_least(1.0).at_most(65_536.0))]
    pub num_generations: usize,
    /// Number of groups for --sampled.
    #[arg(long, default_value_t = 20_000, add = at_least(1.0).at_most(1e9))]
    pub groups: usize,
    /// Seed of --sampled, --table online-z, --table decompose and --paper.
    #[arg(long, default_value_t = 0, add = SEED)]
    pub seed: u64,
    /// Print a table instead: known pitfalls (kl-estimators, online-z, engine-mismatch), the causes of a collapse
    /// (decompose, which takes --beta, --alpha, and --divergence for the distance to p*), or the effect of a falling
    /// beta (fixed-mu).
    #[arg(long)]
    pub table: Option<String>,
    /// Check the claims of a paper on a world of one prompt, and write a page with pictures: 2605.02375 (Dymetman,
    /// binary rewards). WORLD, --class, --seed, --target-validity, --iterations and --learning-rate count.
    #[arg(long, value_name = "NUMBER")]
    #[serde(default)]
    pub paper: Option<String>,
    /// Those of the last two tables.
    #[command(flatten)]
    #[serde(flatten)]
    pub collapse: CollapseOptions,
    /// Directory for lab.json, lab.csv and lab.html; with --paper for paper.html and results.json, by default
    /// paper-NUMBER.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Replace an earlier result in --output: only files that Tealight wrote are removed.
    #[arg(long)]
    #[serde(default)]
    pub overwrite: bool,
    /// Write one page with the figures to this file.
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    pub html: Option<PathBuf>,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// A table in place of optima.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableKind {
    KlEstimators,
    OnlineZ,
    EngineMismatch,
    Decompose,
    FixedMu,
}

/// Rows to print: as cells with a header, and as JSON objects.
pub struct Printed {
    /// The header and the rows.
    pub cells: Vec<Vec<String>>,
    /// One object a row.
    pub json: Vec<serde_json::Value>,
    /// The note below the table.
    pub note: String,
}

/// Finds the optima, or looks at the estimators, of a small world, and writes what was asked for.
///
/// # Errors
/// Options that do not go together, a world that cannot be read, a file that cannot be written.
pub fn run(options: &LabOptions) -> Result<Printed> {
    let existing = Existing::from_flag(options.overwrite);
    Destination::check(options.output.as_deref(), existing)?;
    if let Some(output) = &options.output {
        check_output(output, existing)?;
    }
    let (world, class) = world_and_class(options)?;
    let is_sweep =
        !(options.beta.is_empty() && options.alpha.is_empty() && options.divergence.is_empty());
    let table =
        options.table.as_ref().map(|name| choice::<TableKind>("table", name)).transpose()?;
    let takes_points = matches!(table, Some(TableKind::Decompose | TableKind::FixedMu));
    if is_sweep && !takes_points && (options.sampled || table.is_some()) {
        bail!(
            "--sampled and --table look at one policy: leave --beta, --alpha and --divergence out"
        );
    }
    let (printed, sections) = match (table, options.sampled) {
        (Some(_), true) => bail!("choose one of --sampled and --table"),
        (Some(table), false) => (tables::table(options, &world, class, table)?, vec![]),
        (None, true) => (tables::estimators(options, &world, class)?, vec![]),
        (None, false) => optima(options, &world, class)?,
    };
    let page = page(&world, &printed, sections)?;
    if let Some(output) = &options.output {
        save(output, existing, &printed, &page)?;
        tracing::info!("written to {}", output.display());
    }
    if let Some(file) = &options.html {
        write_atomic(file, page.as_bytes())?;
        tracing::info!("open {}", file.display());
    }
    Ok(printed)
}

/// The world and the class of policies that are asked for.
fn world_and_class(options: &LabOptions) -> Result<(World, Class)> {
    let (world, own_class) = match options.world.ends_with(".toml") {
        true => world::read(Path::new(&options.world))?,
        false => (World::named(&options.world)?, None),
    };
    let class = match options.class.as_ref().or(own_class.as_ref()) {
        Some(name) => choice::<Class>("class", name)?,
        None if world.name == "strategies" => Class::Unigram,
        None => Class::Bigram,
    };
    if options.iterations == 0 || options.learning_rate.is_nan() || options.learning_rate <= 0.0 {
        bail!("--iterations and --learning-rate must be above 0");
    }
    Ok((world, class))
}

fn choice<T: ValueEnum>(option: &str, text: &str) -> Result<T> {
    T::from_str(&text.replace('_', "-"), true).or_else(|_| {
        let names: Vec<_> = T::value_variants()
            .iter()
            .filter_map(|variant| Some(variant.to_possible_value()?.get_name().to_owned()))
            .collect();
        bail!("--{option} `{text}` is not one of {}", names.join(", "))
    })
}

fn points(options: &LabOptions) -> Result<Vec<Point>> {
    let divergences: Vec<Divergence> =
        options.divergence.iter().map(|name| name.parse()).collect::<Result<_>>()?;
    let mut points = Vec::new();
    if divergences.is_empty() {
        points.extend(options.beta.iter().map(|beta| Point::Beta(*beta)));
    } else if options.beta.is_empty() {
        points.extend(divergences.iter().map(|divergence| Point::Filtered(*divergence)));
    } else {
        let tilted =
            |beta: &f64| divergences.iter().map(|d| Point::Tilted(*d, *beta)).collect::<Vec<_>>();
        points.extend(options.beta.iter().flat_map(tilted));
    }
    points.extend(options.alpha.iter().map(|alpha| Point::Filtered(Divergence::alpha(*alpha))));
    if points.is_empty() {
        points.extend([2.0, 1.0, 0.5, 0.25, 0.2, 0.1, 0.08, 0.04, 0.02].map(Point::Beta));
        points.extend([0.0, 0.1, 0.5, 0.9].map(|a| Point::Filtered(Divergence::alpha(a))));
    }
    // Impossible ones are refused before any work.
    points.iter().try_for_each(|point| point.objective().map(|_| ()))?;
    Ok(points)
}

fn optima(options: &LabOptions, world: &World, class: Class) -> Result<(Printed, Vec<Section>)> {
    let points = points(options)?;
    let start = choice::<Start>("start", &options.start)?;
    let descent = Descent { iterations: options.iterations, learning_rate: options.learning_rate };
    let rows = sweep(world, class, &points, start, descent)?;
    let prompts = world.is_right.len();
    let base = Measures::new(world, &vec![world.base.clone(); prompts]);
    let filtered: Vec<Vec<f64>> = (0..prompts).map(|prompt| world.filtered(prompt)).collect();
    let target = Measures::new(world, &filtered);
    let header = [
        "",
        "validity",
        "N_eff",
        "max mass",
        "U_256",
        "objective",
        "closed form",
        "KL(p*||q)",
        "KL(q1||p*)",
        "KL(q||a)",
        "pass@1",
        "pass@8",
        "pass@64",
    ];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    let none = String::new;
    cells.push(line("base".into(), &base, none(), none()));
    cells.push(line("p*".into(), &target, none(), none()));
    for (point, row) in points.iter().zip(&rows) {
        let (value, closed) = (row.objective, row.objective_closed_form);
        cells.push(line(point.label(), &row.measures, number(value), number(closed)));
    }
    let json = rows
        .iter()
        .map(|row| {
            let mut value = serde_json::to_value(row)?;
            value["base"] = serde_json::to_value(&base)?;
            value["pstar"] = serde_json::to_value(&target)?;
            Ok(value)
        })
        .collect::<Result<_>>()?;
    let policies = class.to_string();
    let note = format!(
        "{} with {policies} policies, search started at {}. N_eff is exp H(q1), where q1 is the policy conditioned \
         on a correct output; alpha 0 is forward KL. The numbers are exact, without sampling. Optima are local ones of \
         a search that ends: where a policy hardly gives an output, KL(p*||q) is not settled, and differs by --start \
         and --iterations and from --paper.",
        world.name, options.start
    );
    let printed = Printed { cells: cells.clone(), json, note };
    let sections = match options.output.is_some() || options.html.is_some() {
        true => figures::sections(world, &points, &rows, cells),
        false => vec![],
    };
    Ok((printed, sections))
}

fn line(name: String, m: &Measures, objective: String, closed: String) -> Vec<String> {
    let mut row = vec![name];
    let values = [m.validity, m.effective_valid, m.max_mass, m.unique_valid_256];
    row.extend(values.iter().map(|x| number(*x)));
    row.extend([objective, closed]);
    row.extend([m.kl_pstar_q, m.kl_q1_pstar, m.kl_q_base].iter().map(|x| number(*x)));
    row.extend([KS[0], KS[3], KS[5]].iter().map(|k| number(m.pass_at_k[k])));
    row
}

pub(crate) fn number(x: f64) -> String {
    fixed(x, if x.abs() >= 10.0 { 2 } else { 4 })
}

/// Refuses a directory that holds what would be lost.
fn check_output(output: &Path, existing: Existing) -> Result<()> {
    directory::refuse_run(output, existing)?;
    directory::check(output, existing)
}

fn save(output: &Path, existing: Existing, printed: &Printed, page: &str) -> Result<()> {
    let claim = directory::fresh(output, existing)?;
    directory::begin(Some(&claim), output, existing)?;
    let json = serde_json::to_string_pretty(&printed.json)?;
    write_atomic(&output.join("lab.json"), json.as_bytes())?;
    let line = |row: &Vec<String>| display::csv_line(row.iter().map(String::as_str));
    let csv: String = printed.cells.iter().map(line).collect();
    write_atomic(&output.join("lab.csv"), csv.as_bytes())?;
    write_atomic(&output.join("lab.html"), page.as_bytes())
}

fn page(world: &World, printed: &Printed, sections: Vec<Section>) -> Result<String> {
    let sections = if sections.is_empty() {
        vec![Section::new("Table").table(Table::new(printed.cells.clone()))]
    } else {
        sections
    };
    sheet(&format!("The world `{}`, exactly", world.name), &printed.note, sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_points_are_refused_before_any_work() {
        let error = Point::Filtered(Divergence::ReverseKl).objective().unwrap_err();
        assert!(format!("{error:#}").contains("infinite"));
        assert!(Point::Tilted(Divergence::ReverseKl, 0.1).objective().is_ok());
        assert!(Point::Beta(-1.0).objective().is_err());
        assert!(choice::<Class>("class", "bigrams").is_err());
    }
}
