//! The optimum of one objective in a class of policies: the best of where several starts lead.
//!
//! A step divides the gradient of each logit by its curvature, the diagonal of the Gauss-Newton matrix
//! `sum_y pi(y) f''(x_y) n_y n_y^T` with `x = log(pi / p)` and `n_y` the cells that an output passes. Outputs that a
//! policy hardly gives therefore settle as fast as the likely ones: `KL(p* || q)` is a number of the optimum, whatever
//! the start.

use anyhow::{Result, bail, ensure};

use super::member::Member;
use super::{Class, Measures, World};
use tealight_learn::objective::target::best_value;
use tealight_learn::objective::{Divergence, Target};

/// Most steps from one start.
const STEPS: usize = 20_000;
/// A search has ended where no logit moves by more.
const STILL: f64 = 1e-10;
/// Least log-probability that a gradient is computed of.
const LEAST_LOGP: f64 = -650.0;
/// Outputs that an optimum excludes, at the boundary of the class, end below this probability, which counts as none.
const EXCLUDED: f64 = 1e-260;
/// Least curvature of a divergence that a step divides by: some have none far from the target.
const LEAST_CURVATURE: f64 = 0.05;
/// Correct outputs, the base's likeliest, of which a collapsed start is made.
const CANDIDATES: usize = 16;
/// Largest difference of two values of one optimum, relative to it.
const EQUAL: f64 = 1e-7;

/// What is optimised: a penalised reward or a divergence to a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Point {
    /// `E[v] - beta KL(q || a)`: RLVR with a KL penalty, reverse KL to p_beta.
    Beta(f64),
    /// A divergence to p*.
    Filtered(Divergence),
    /// A divergence to p_beta.
    Tilted(Divergence, f64),
}

/// The optimum of a point.
#[derive(Debug, Clone)]
pub struct Optimum {
    /// Probability of every output, prompt by prompt.
    pub distributions: Vec<Vec<f64>>,
    /// The objective's value: `E[v] - beta KL(q || a)`, or the divergence.
    pub value: f64,
    /// The best value that any policy reaches: beta log Z_beta, or 0.
    pub closed_form: f64,
    /// Where the search from the base ends, as training starts, if that is worse.
    pub from_base: Option<(f64, Measures)>,
    /// Whether the search from the base settled there; else it was stopped at its limit of steps.
    pub is_from_base_settled: bool,
}

/// Where the search from one start led.
pub(super) struct End {
    /// The logits.
    pub(super) at: Vec<f64>,
    /// The divergence there.
    pub(super) value: f64,
    /// Whether it settled before the limit of steps.
    is_settled: bool,
}

/// A class of policies in a world, in which optima are sought.
pub struct Search<'a> {
    member: Member<'a>,
    collapsed: Vec<f64>,
}

impl Point {
    /// Its label in tables.
    pub fn label(self) -> String {
        match self {
            Point::Beta(beta) => format!("beta {beta}"),
            Point::Filtered(Divergence::Alpha(alpha)) => format!("alpha {alpha}"),
            Point::Filtered(divergence) => divergence.to_string(),
            Point::Tilted(divergence, beta) => format!("{divergence}, beta {beta}"),
        }
    }

    /// The divergence to the target, and the target's beta; 0 for p*.
    ///
    /// # Errors
    /// A beta that is not above 0, a divergence to p* that is infinite for all policies that can be incorrect.
    pub fn target(self) -> Result<(Divergence, f64)> {
        let (divergence, beta) = match self {
            Point::Beta(beta) => (Divergence::ReverseKl, beta),
            Point::Tilted(divergence, beta) => (divergence, beta),
            Point::Filtered(divergence) => {
                ensure!(
                    divergence.at_infinity().is_finite(),
                    "{divergence} to p* is infinite for every policy that can be incorrect: use p_beta (--beta)"
                );
                return Ok((divergence, 0.0));
            }
        };
        ensure!(
            beta.is_finite() && beta > 0.0,
            "beta {beta}: must be above 0; every policy that is always correct maximises the reward alone"
        );
        Ok((divergence, beta))
    }
}

impl<'a> Search<'a> {
    /// Searches among the policies of `class`.
    ///
    /// # Errors
    /// Memory.
    pub fn new(world: &'a World, class: Class) -> Result<Self> {
        let member = Member::new(world, class)?;
        let collapsed = collapsed(&member)?;
        Ok(Self { member, collapsed })
    }

    /// The optimum: the best of those that the base, the nearest policy to the target and a collapsed policy lead to.
    ///
    /// # Errors
    /// A point without a finite optimum, a beta so small that correct outputs fall below what is computed.
    pub fn optimum(&self, point: Point) -> Result<Optimum> {
        let (divergence, beta) = point.target()?;
        let (member, world) = (&self.member, self.member.world);
        let log_p = log_target(world, beta);
        let towards: Vec<Vec<f64>> = log_p
            .chunks(world.outputs.len())
            .map(|row| row.iter().map(|log_p| log_p.exp()).collect())
            .collect();
        let starts = vec![member.start(), member.projected(&towards)?, self.collapsed.clone()];
        let ends = ends(member, starts, (divergence, &log_p));
        let least = best(&ends, divergence, member)?;
        let distributions = |at: &[f64]| {
            let mut all = member.policy(at).distributions(world);
            all.iter_mut().flatten().filter(|q| **q < EXCLUDED).for_each(|q| *q = 0.0);
            all
        };
        // Reverse KL to p_beta excludes nothing: what seems excluded is below what floats hold.
        if divergence.equals(Divergence::ReverseKl) {
            let rights = world.is_right.iter().flatten();
            let logp = member.policy(&least.at).logp;
            let mut lost = rights.zip(&logp).zip(&log_p);
            ensure!(
                !lost.any(|((right, q), p)| *right && p.is_finite() && q.exp() < EXCLUDED),
                "beta {beta}: too small for {} policies: correct outputs get probabilities below {EXCLUDED:e}, which \
                 are not computed; choose a larger beta",
                member.class
            );
        }
        // E[v] - beta KL(q || a) is the best that any policy reaches less beta KL(q || p_beta).
        let prompts =
            (0..world.is_right.len()).map(|prompt| best_value(world.base_validity(prompt), beta));
        let closed_form = match point {
            Point::Beta(_) => prompts.sum::<f64>() / world.is_right.len() as f64,
            Point::Filtered(_) | Point::Tilted(..) => 0.0,
        };
        let value = |distance: f64| match point {
            Point::Beta(beta) => closed_form - beta * distance,
            Point::Filtered(_) | Point::Tilted(..) => distance,
        };
        let from_base = &ends[0];
        let is_worse = from_base.value - least.value > EQUAL * (1.0 + least.value.abs());
        Ok(Optimum {
            distributions: distributions(&least.at),
            value: value(least.value),
            closed_form,
            from_base: is_worse.then(|| {
                (value(from_base.value), Measures::new(world, &distributions(&from_base.at)))
            }),
            is_from_base_settled: from_base.is_settled,
        })
    }
}

/// `log p` of every row: p_beta, or p* for beta 0.
pub(super) fn log_target(world: &World, beta: f64) -> Vec<f64> {
    let target = if beta > 0.0 { Target::Tilted } else { Target::Filtered };
    let row_of_prompt = |prompt: usize| {
        let validity = world.base_validity(prompt);
        let row =
            move |(a, right): (&f64, &bool)| a.ln() + target.log_weight(*right, validity, beta);
        world.base.iter().zip(&world.is_right[prompt]).map(row)
    };
    (0..world.is_right.len()).flat_map(row_of_prompt).collect()
}

/// Where each start leads, with the divergence from `log_p` there.
pub(super) fn ends(
    member: &Member<'_>,
    starts: Vec<Vec<f64>>,
    (divergence, log_p): (Divergence, &[f64]),
) -> Vec<End> {
    let descend = |mut at: Vec<f64>| {
        let (value, is_settled) = follow(member, &mut at, (divergence, log_p));
        End { at, value, is_settled }
    };
    starts.into_iter().map(descend).collect()
}

/// The end with the least value.
pub(super) fn best<'e>(
    ends: &'e [End],
    divergence: Divergence,
    member: &Member<'_>,
) -> Result<&'e End> {
    let finite = ends.iter().filter(|end| end.value.is_finite());
    match finite.min_by(|a, b| a.value.total_cmp(&b.value)) {
        Some(least) => Ok(least),
        None => bail!("the search for an optimum of {divergence} in {} failed", member.class),
    }
}

/// Moves `at` to where the divergence has a minimum, and gives its value there, and whether the moves have ended.
fn follow(
    member: &Member<'_>,
    at: &mut [f64],
    (divergence, log_p): (Divergence, &[f64]),
) -> (f64, bool) {
    let world = member.world;
    // Curvatures of single logits are at least 1 / L of that of all: steps of 2 / L and more may grow.
    let mut step = 1.0 / world.length() as f64;
    let (mut last, mut is_settled) = (f64::INFINITY, false);
    for _ in 0..STEPS {
        let policy = member.policy(at);
        let value = value(divergence, log_p, &policy.logp, world);
        if value > last + 1e-9 * (1.0 + last.abs()) {
            step *= 0.5;
        }
        last = value;
        let (slopes, curvatures) = slopes(divergence, log_p, &policy.logp);
        let slope = member.gradient(&policy, &slopes);
        let curvature = member.totals(&curvatures);
        let mut most = 0.0_f64;
        let moves = slope.iter().zip(curvature).map(|(slope, curvature)| {
            let by = slope / curvature;
            // What no output of any weight passes does not move.
            if by.is_finite() { step * by.clamp(-2.0, 2.0) } else { 0.0 }
        });
        let moves: Vec<f64> = moves.collect();
        let rows = at.chunks_mut(world.vocabulary).zip(moves.chunks(world.vocabulary));
        for ((row, moves), next) in rows.zip(policy.next.chunks(world.vocabulary)) {
            // A row of logits is a distribution up to a constant, which must not drift.
            let all: f64 = moves.iter().zip(next).map(|(by, next)| by * next).sum();
            for ((logit, by), next) in row.iter_mut().zip(moves).zip(next) {
                *logit -= by - all;
                if *next > EXCLUDED {
                    most = most.max((by - all).abs());
                }
            }
        }
        is_settled = most < STILL;
        if is_settled {
            break;
        }
    }
    (value(divergence, log_p, &member.policy(at).logp, world), is_settled)
}

/// `D_f(pi || p)`, the mean over prompts, the mass outside of p's support included.
fn value(divergence: Divergence, log_p: &[f64], logp: &[f64], world: &World) -> f64 {
    /// Log-ratios whose exponential overflows.
    const FAR: f64 = 600.0;
    let term = |(log_p, logp): (&f64, &f64)| match *log_p == f64::NEG_INFINITY {
        true => logp.exp() * divergence.at_infinity(),
        // p f(u) = pi log u - pi + p.
        false if divergence == Divergence::ReverseKl && logp - log_p > FAR => {
            logp.exp() * (logp - log_p - 1.0) + log_p.exp()
        }
        false => log_p.exp() * divergence.f(logp - log_p),
    };
    log_p.iter().zip(logp).map(term).sum::<f64>() / world.is_right.len() as f64
}

/// The coefficient of each row's `grad log pi` in the gradient, and its curvature.
fn slopes(divergence: Divergence, log_p: &[f64], logp: &[f64]) -> (Vec<f64>, Vec<f64>) {
    // Half of the distance over which the curvature is measured.
    const NEAR: f64 = 1e-3;
    let row = |(log_p, logp): (&f64, &f64)| {
        let logp = logp.max(LEAST_LOGP);
        let (x, chance) = (logp - log_p, logp.exp());
        if *log_p == f64::NEG_INFINITY {
            // grad D_f(pi || p) = E_pi[f'(pi / p) grad log pi]; outputs without p have f'(inf).
            return (chance * divergence.at_infinity(), chance * LEAST_CURVATURE);
        }
        let curvature =
            (divergence.f_prime(x + NEAR) - divergence.f_prime(x - NEAR)) / (2.0 * NEAR);
        (chance * divergence.f_prime(x), chance * curvature.max(LEAST_CURVATURE))
    };
    log_p.iter().zip(logp).map(row).unzip()
}

/// The class's nearest member to almost certainty of one correct output: of the output that it holds best.
fn collapsed(member: &Member<'_>) -> Result<Vec<f64>> {
    let world = member.world;
    let is_correct = |y: &usize| world.is_right.iter().any(|is_right| is_right[*y]);
    let mut outputs: Vec<usize> = (0..world.outputs.len()).filter(is_correct).collect();
    outputs.sort_by(|a, b| world.base[*b].total_cmp(&world.base[*a]));
    let mut best: Option<(f64, Vec<f64>)> = None;
    for output in outputs.into_iter().take(CANDIDATES) {
        // A little of the base: from a point mass no gradient leads away.
        let mut towards: Vec<f64> = world.base.iter().map(|a| 0.002 * a).collect();
        towards[output] += 0.998;
        let at = member.projected(&vec![towards; world.is_right.len()])?;
        let mass = member.policy(&at).logp[output];
        if best.as_ref().is_none_or(|(most, _)| mass > *most) {
            best = Some((mass, at));
        }
    }
    Ok(best.map(|(_, at)| at).expect("every world has a correct output"))
}

#[cfg(test)]
mod tests;
