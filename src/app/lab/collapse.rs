//! `tealight lab --table decompose` and `--table fixed-mu`: where a collapse comes from, and what a falling beta does.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{LabOptions, Printed, choice, number};
use crate::lab::decompose::{Parts, Request, Training, decompose};
use crate::lab::fixed_mu::{FixedMu, Series, fixed_mu};
use crate::lab::{Class, Descent, Family, World};
use crate::learn::objective::Divergence;
use crate::system::range::{COUNT, above, at_least};

/// Most steps of a search for an optimum: there are many of them.
const MOST_ITERATIONS: usize = 2500;

/// Largest gradient at an optimum that a search has found; above, its row is marked.
const CONVERGED: f64 = 0.01;

/// Where the part of the samples stands among the numbers of a row.
const SAMPLES: usize = 4;

/// Options of these two tables.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct CollapseOptions {
    /// Policy classes of --table decompose and fixed-mu: a number r for the base's logits plus a matrix of rank r, or
    /// unigram, bigram, trigram, full. Default: all classes that differ in this world.
    #[arg(long, value_delimiter = ',', value_name = "R|CLASS")]
    #[serde(default)]
    pub rank: Vec<String>,
    /// Number of training steps of --table decompose.
    #[arg(long, default_value_t = 100, add = COUNT)]
    pub steps: usize,
    /// Number of groups of each prompt in a training step of --table decompose.
    #[arg(long, default_value_t = 4, add = COUNT)]
    pub groups_per_step: usize,
    /// Number of training runs of --table decompose, whose mean is shown.
    #[arg(long, default_value_t = 4, add = at_least(1.0).at_most(1000.0))]
    pub runs: u64,
    /// Target validity mu of --table fixed-mu and of --paper.
    #[arg(long, default_value_t = 0.9, add = above(0.0).below(1.0))]
    pub target_validity: f64,
    /// Base validities of --table fixed-mu. Default: the world's own, and 1/3, 1/10, 1/30 and 1/100 of that.
    #[arg(long, value_delimiter = ',', add = above(0.0).below(1.0))]
    #[serde(default)]
    pub base_validity: Vec<f64>,
}

/// The classes that were asked for; one by --class, else those of `usual`.
fn families(options: &LabOptions, usual: Vec<Family>) -> Result<Vec<Family>> {
    match (options.collapse.rank.as_slice(), &options.class) {
        ([], None) => Ok(usual),
        ([], Some(class)) => Ok(vec![Family::Class(choice::<Class>("class", class)?)]),
        (_, Some(_)) => bail!("--rank names the classes of this table: leave --class out"),
        (names, None) => names
            .iter()
            .map(|name| name.parse().map_err(|error| anyhow::anyhow!("--rank: {error:#}")))
            .collect(),
    }
}

pub(crate) fn search(options: &LabOptions) -> Descent {
    Descent {
        iterations: options.iterations.min(MOST_ITERATIONS),
        learning_rate: options.learning_rate,
    }
}

/// The distance of trained policies from p*, part by part.
pub(crate) fn decomposition(options: &LabOptions, world: &World) -> Result<Printed> {
    let collapse = &options.collapse;
    let counts = [collapse.steps, collapse.groups_per_step, collapse.runs as usize];
    if counts.contains(&0) || options.num_generations < 2 {
        bail!(
            "--steps, --groups-per-step and --runs must be at least 1, --num-generations at least 2"
        );
    }
    let families = families(options, Family::all(world))?;
    let or = |given: &[f64], usual: &[f64]| match given {
        [] => usual.to_vec(),
        given => given.to_vec(),
    };
    let distances: Vec<Divergence> = match options.divergence.as_slice() {
        [] => vec![Divergence::ForwardKl, Divergence::TotalVariation],
        given => given.iter().map(|name| name.parse()).collect::<Result<_>>()?,
    };
    let descent = Descent { iterations: collapse.steps, learning_rate: options.learning_rate };
    let rows = decompose(
        world,
        &Request {
            families: &families,
            betas: &or(&options.beta, &[0.5, 0.1, 0.05, 0.0]),
            alphas: &or(&options.alpha, &[0.0, 0.5, 1.0]),
            distances: &distances,
            search: search(options),
            training: Training {
                descent,
                group: options.num_generations,
                groups: collapse.groups_per_step,
                runs: collapse.runs,
                seed: options.seed,
            },
        },
    )?;
    Ok(Printed {
        cells: decomposition_cells(&rows),
        json: rows.iter().map(serde_json::to_value).collect::<std::result::Result<_, _>>()?,
        note: format!(
            "{}, base {} from p*. Distances to p*: forward-kl is KL(p*||pi) in nats, tv total variation. class + \
             objective + estimator + steps + samples = total: the nearest policy of the class; then, in the class, the \
             optimum of D_alpha(pi||p_beta) (beta 0: p* itself; alpha 1: E[v] - beta KL), the fixed point of the \
             expected update, {} steps of Adam by expected updates, and by {} x {} samples a prompt ({} runs, mean). \
             N_eff is the effective number of correct outputs of the objective's optimum and of the trained policies; \
             p* has {}. ±: standard error over runs. ~: the search for an optimum ended, after at most \
             {MOST_ITERATIONS} steps, with a gradient above {CONVERGED}.",
            world.name,
            rows.iter()
                .take(distances.len())
                .map(|row| number(row.base))
                .next()
                .unwrap_or_default(),
            collapse.steps,
            collapse.groups_per_step,
            options.num_generations,
            collapse.runs,
            rows.first().map(|row| number(row.effective_pstar)).unwrap_or_default(),
        ),
    })
}

fn decomposition_cells(rows: &[Parts]) -> Vec<Vec<String>> {
    let header = [
        "policies",
        "beta",
        "alpha",
        "distance",
        "class",
        "objective",
        "estimator",
        "steps",
        "samples",
        "total",
        "validity",
        "N_eff optimum",
        "N_eff trained",
    ];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let mark = if row.residual > CONVERGED { " ~" } else { "" };
        let names = [
            format!("{}{mark}", row.policies),
            row.beta.to_string(),
            row.alpha.to_string(),
            row.distance.clone(),
        ];
        let values = [
            row.class,
            row.objective,
            row.estimator,
            row.steps,
            row.samples,
            row.total,
            row.validity[1],
            row.effective_valid[0],
            row.effective_valid[1],
        ];
        let mut shown = values.map(number).to_vec();
        if let Some(error) = row.samples_error {
            shown[SAMPLES].push_str(&format!(" ±{}", number(error)));
        }
        cells.push([names.to_vec(), shown].concat());
    }
    cells
}

/// Bases of falling validity at one target.
pub(crate) fn at_fixed_mu(options: &LabOptions, world: &World) -> Result<Printed> {
    let collapse = &options.collapse;
    if !(options.beta.is_empty() && options.alpha.is_empty() && options.divergence.is_empty()) {
        bail!(
            "--table fixed-mu derives beta from --target-validity: leave --beta, --alpha and --divergence out"
        );
    }
    let families = families(options, vec![Family::Class(Class::Bigram)])?;
    let validities = match collapse.base_validity.as_slice() {
        [] => [1.0, 3.0, 10.0, 30.0, 100.0].map(|by| world.solve_rate(0) / by).to_vec(),
        given => given.to_vec(),
    };
    let mut rows = Vec::new();
    for family in families {
        rows.extend(fixed_mu(
            world,
            family,
            collapse.target_validity,
            &validities,
            search(options),
        )?);
    }
    Ok(Printed {
        cells: fixed_mu_cells(&rows),
        json: rows.iter().map(serde_json::to_value).collect::<std::result::Result<_, _>>()?,
        note: format!(
            "{}: the beta at which p_beta is correct with chance mu, at bases of falling validity A. same target: \
             correct outputs lose mass in proportion, p* stays. rarer answers: the likeliest correct outputs count as \
             wrong. full: p_beta itself. N_eff is the effective number of correct outputs, shown as a share of that of \
             p*. own beta: where the optimum of the class itself is correct with chance mu or more.",
            world.name
        ),
    })
}

pub(crate) fn fixed_mu_cells(rows: &[FixedMu]) -> Vec<Vec<String>> {
    let header = [
        "series",
        "policies",
        "A",
        "beta",
        "N_eff p*",
        "validity full",
        "share full",
        "U_256 full",
        "validity class",
        "share class",
        "U_256 class",
        "own beta",
        "validity",
        "share",
    ];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let series = match row.series {
            Series::SameTarget => "same target",
            Series::RarerAnswers => "rarer answers",
        };
        let share = |effective: f64| number(row.share(effective));
        let or_none = |value: Option<f64>| value.map_or("none".to_owned(), number);
        let mut line = vec![series.to_owned(), row.policies.clone()];
        line.extend([row.base_validity, row.beta, row.effective_pstar].map(number));
        for class in [0, 1] {
            line.push(number(row.validity[class]));
            line.push(share(row.effective_valid[class]));
            line.push(number(row.distinct[class]));
        }
        line.push(or_none(row.class_beta));
        line.push(or_none(row.class_validity));
        line.push(row.class_effective_valid.map_or("none".to_owned(), share));
        cells.push(line);
    }
    cells
}
