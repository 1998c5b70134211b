//! Optima of a world along beta, alpha or divergences, with their measures.

use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;

use super::{Class, Descent, Measures, Setting, Table, World};
use tealight_learn::objective::target::{Target, best_value};
use tealight_learn::objective::{Anchor, Divergence, Objective};

/// What is optimised: a penalised reward or a divergence to a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Point {
    /// `E[v] - beta KL(q || a)`: RLVR with a KL penalty, reverse KL to p_beta. At 0 it is the chance of being correct
    /// alone, which every policy that is always correct maximises: where the search ends depends on where it starts.
    Beta(f64),
    /// A divergence to p*.
    Filtered(Divergence),
    /// A divergence to p_beta.
    Tilted(Divergence, f64),
}

/// From where the optimum is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// The base, as training does.
    Base,
    /// A collapsed policy, which gives nearly only one correct output.
    Collapsed,
    /// The optimum of the previous point (the first starts at the base), which follows one family of optima.
    Previous,
}

/// A point's optimum.
#[derive(Debug, Clone, Serialize)]
pub struct Optimum {
    /// The world's name.
    pub world: String,
    /// The policy class.
    pub class: Class,
    /// beta, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// alpha, where the divergence has one (0 is forward KL).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The divergence to the target, where that is what is optimised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<String>,
    /// The measures of the policy.
    #[serde(flatten)]
    pub measures: Measures,
    /// The objective's value: `E[v] - beta KL(q || a)`, or the divergence.
    pub objective: f64,
    /// The best value that any policy reaches: beta log Z_beta, or 0.
    pub objective_closed_form: f64,
    /// The policy itself, prompt by prompt.
    #[serde(skip)]
    pub distributions: Vec<Vec<f64>>,
}

impl Point {
    /// The objective in the language of `--objective`.
    pub fn objective(self) -> Result<Objective> {
        let divergence_name = |divergence: Divergence| match divergence {
            Divergence::Alpha(alpha) => format!("alpha:alpha={alpha}"),
            other => other.to_string(),
        };
        match self {
            Point::Beta(0.0) => "reinforce".to_owned(),
            Point::Beta(beta) => format!("reinforce:divergence=reverse-kl:beta={beta}"),
            Point::Filtered(divergence) => format!("match:p-star:{}", divergence_name(divergence)),
            Point::Tilted(divergence, beta) => {
                format!("match:p-beta:{}:beta={beta}", divergence_name(divergence))
            }
        }
        .parse()
    }

    /// Its label in tables.
    pub fn label(self) -> String {
        match self {
            Point::Beta(0.0) => "beta 0 (no KL)".to_owned(),
            Point::Beta(beta) => format!("beta {beta}"),
            Point::Filtered(Divergence::Alpha(alpha)) => format!("alpha {alpha}"),
            Point::Filtered(divergence) => divergence.to_string(),
            Point::Tilted(divergence, beta) => format!("{divergence}, beta {beta}"),
        }
    }
}

/// The optimum of every point, in order; points are independent and run in parallel, unless each starts from the one
/// before.
pub fn sweep(
    world: &World,
    class: Class,
    points: &[Point],
    start: Start,
    descent: Descent,
) -> Result<Vec<Optimum>> {
    if start != Start::Previous {
        let evaluate = |point: &Point| {
            let table = start_table(world, class, start)?;
            optimum(world, class, *point, &table, descent)
        };
        return points.par_iter().map(evaluate).collect();
    }
    let table = Table::base(world, class)?;
    points.iter().map(|point| optimum(world, class, *point, &table, descent)).collect()
}

fn start_table(world: &World, class: Class, start: Start) -> Result<Table> {
    match start {
        Start::Base | Start::Previous => Ok(Table::base(world, class)?),
        Start::Collapsed => collapsed(world, class),
    }
}

fn optimum(
    world: &World,
    class: Class,
    point: Point,
    table: &Table,
    descent: Descent,
) -> Result<Optimum> {
    let plan = point.objective()?.plan;
    let setting = Setting::new(world, &plan)?;
    descent.run(table, |table| setting.gradient(table))?;
    let q = table.distributions(world)?;
    let measures = Measures::new(world, &q);
    let mean = |value: &dyn Fn(usize) -> f64| (0..q.len()).map(value).sum::<f64>() / q.len() as f64;
    let (objective, closed) = match (&plan.anchor, point) {
        (_, Point::Beta(beta)) => (
            measures.validity - beta * measures.kl_q_base,
            mean(&|prompt| match beta {
                0.0 => 1.0,
                beta => best_value(world.solve_rate(prompt), beta),
            }),
        ),
        (Anchor::Target(matching), _) => (
            mean(&|prompt| {
                distance(
                    world,
                    prompt,
                    matching.target,
                    matching.beta,
                    matching.divergence,
                    &q[prompt],
                )
            }),
            0.0,
        ),
        (_, Point::Filtered(_) | Point::Tilted(..)) => unreachable!("these points have a target"),
    };
    let (beta, divergence) = match point {
        Point::Beta(beta) => (Some(beta), None),
        Point::Filtered(divergence) => (None, Some(divergence)),
        Point::Tilted(divergence, beta) => (Some(beta), Some(divergence)),
    };
    Ok(Optimum {
        world: world.name.clone(),
        class,
        beta,
        alpha: match divergence {
            Some(Divergence::Alpha(alpha)) => Some(alpha),
            Some(Divergence::ForwardKl) => Some(0.0),
            _ => None,
        },
        divergence: divergence.map(|divergence| divergence.to_string()),
        measures,
        objective,
        objective_closed_form: closed,
        distributions: q,
    })
}

/// `D_f(q || target)`, the mass outside the target's support included.
fn distance(
    world: &World,
    prompt: usize,
    target: Target,
    beta: f64,
    divergence: Divergence,
    q: &[f64],
) -> f64 {
    let term = |(y, q): (usize, &f64)| {
        let weight = target.log_weight(world.is_right[prompt][y], world.solve_rate(prompt), beta);
        if weight == f64::NEG_INFINITY {
            return q * divergence.at_infinity();
        }
        let log_p = world.base[y].ln() + weight;
        log_p.exp() * divergence.f(q.ln() - log_p)
    };
    q.iter().enumerate().map(term).sum()
}

/// The class's nearest member to almost certainty of one correct output: of the output that it holds
/// best.
fn collapsed(world: &World, class: Class) -> Result<Table> {
    let mut best: Option<(f64, Table)> = None;
    for output in 0..world.outputs.len() {
        if !world.is_right.iter().any(|is_right| is_right[output]) {
            continue;
        }
        // A little of the base: from a point mass no gradient leads away.
        let mut towards: Vec<f64> = world.base.iter().map(|a| 0.002 * a).collect();
        towards[output] += 0.998;
        let table = Table::project(world, class, &vec![towards; world.is_right.len()])?;
        let mass = table.distributions(world)?[0][output];
        if best.as_ref().is_none_or(|(most, _)| mass > *most) {
            best = Some((mass, table));
        }
    }
    Ok(best.map(|(_, table)| table).expect("every world has a correct output"))
}
