//! The collapse, taken apart: how far a trained policy is from p*, as a sum of what the class cannot do, what the
//! objective does not want, what the estimator changes, and what training leaves.
//!
//! With D a divergence to p*, the terms are differences of D along a chain of policies of one class:
//!
//! - `class`: D of the policy of the class nearest to p*;
//! - `objective`: to the optimum of `D_alpha(pi || p_beta)` in the class (alpha 1 is `E[v] - beta KL(pi || a)`, beta
//!   0 is p* itself);
//! - `estimator`: to where the expected update of the samples' estimator leads from there: alpha-DPG's
//!   pseudo-rewards, cut at 10, or for alpha 1 GRPO's, the reward over its deviation in the group;
//! - `steps`: to where so many steps of Adam by expected updates lead from the base;
//! - `samples`: to where the same steps lead by sampled groups.
//!
//! They add up to D of the trained policy by construction. `class` and `objective` are at least 0; the others may be
//! negative, as where training that ends early ends nearer to p* than the optimum that it is on its way to.

use anyhow::{Result, bail};
use rayon::prelude::*;
use serde::Serialize;

use super::member::{Family, Member};
pub use super::update::Training;
use super::update::{Aim, Update};
use super::{Descent, Measures, World};
use tealight_learn::objective::Divergence;
use tealight_learn::objective::target::Target;

/// Least log-probability that a gradient is computed of.
const LEAST_LOGP: f64 = -650.0;
/// Random starts of a search, beside those that are made of what is known.
const STARTS: u64 = 2;

/// The points to decompose, and the search and the training at each.
pub struct Request<'a> {
    /// Classes of policies, each searched and trained.
    pub families: &'a [Family],
    /// Betas; 0 is the target p*.
    pub betas: &'a [f64],
    /// Alphas from 0, forward KL, to 1, reverse KL, which needs a beta above 0.
    pub alphas: &'a [f64],
    /// How far from p* is measured.
    pub distances: &'a [Divergence],
    /// How optima are sought.
    pub search: Descent,
    /// How policies are trained.
    pub training: Training,
}

/// One distance, taken apart. Nats, but for the divergences that are shares.
#[derive(Debug, Clone, Serialize)]
pub struct Parts {
    /// The world's name.
    pub world: String,
    /// The class of policies.
    pub policies: String,
    /// beta; 0 is the target p*.
    pub beta: f64,
    /// alpha: 0 is forward KL.
    pub alpha: f64,
    /// The objective that runs are trained by.
    pub trained_by: String,
    /// The divergence to p*.
    pub distance: String,
    /// The base's own distance.
    pub base: f64,
    /// The least distance in the class.
    pub class: f64,
    /// The objective's optimum adds this.
    pub objective: f64,
    /// The estimator's fixed point adds this.
    pub estimator: f64,
    /// Ending after finitely many steps adds this.
    pub steps: f64,
    /// Sampling adds this.
    pub samples: f64,
    /// Standard error of that, over runs.
    pub samples_error: Option<f64>,
    /// The trained policy's distance, the mean over runs: the sum of the five.
    pub total: f64,
    /// The largest component of the gradient that is left at the objective's optimum.
    pub residual: f64,
    /// The chance of a correct answer at the objective's optimum and of the trained policy.
    pub validity: [f64; 2],
    /// The effective number of correct answers of the same.
    pub effective_valid: [f64; 2],
    /// The effective number of correct answers of p*.
    pub effective_pstar: f64,
}

/// The policies of one aim in one class, as log-probabilities of rows.
struct Chain {
    aim: Aim,
    trained_by: String,
    optimum: Vec<f64>,
    residual: f64,
    fixed_point: Vec<f64>,
    /// Run by run: by expected updates and by samples.
    runs: Vec<[Vec<f64>; 2]>,
}

/// Takes every distance apart.
///
/// # Errors
/// Numbers out of range, nothing to aim at.
pub fn decompose(world: &World, request: &Request<'_>) -> Result<Vec<Parts>> {
    let mut aims = Vec::new();
    for beta in request.betas {
        for alpha in request.alphas {
            if !((0.0..=1.0).contains(alpha) && *beta >= 0.0 && beta.is_finite()) {
                bail!("alpha must be from 0 to 1 and beta at least 0, not {alpha} and {beta}");
            }
            if *alpha < 1.0 || *beta > 0.0 {
                aims.push(Aim { alpha: *alpha, beta: *beta });
            }
        }
    }
    if aims.is_empty() {
        bail!(
            "alpha 1 with beta 0 is the reward alone, which every policy that is always right maximises: nothing to \
             take apart; give a beta above 0 or an alpha below 1"
        );
    }
    if let Some(distance) = request.distances.iter().find(|d| !d.at_infinity().is_finite()) {
        bail!("{distance} to p* is infinite for every policy that can be wrong");
    }
    // Collapsing aims first: what they find is a start for the others.
    aims.sort_by(|a, b| a.beta.total_cmp(&b.beta).then(b.alpha.total_cmp(&a.alpha)));
    let all = request.families.par_iter().map(|family| of_family(world, *family, &aims, request));
    Ok(all.collect::<Result<Vec<_>>>()?.concat())
}

fn of_family(
    world: &World,
    family: Family,
    aims: &[Aim],
    request: &Request<'_>,
) -> Result<Vec<Parts>> {
    let member = Member::new(world, family)?;
    let pstar = log_target(world, 0.0);
    let nearest: Vec<(Vec<f64>, f64)> = request
        .distances
        .iter()
        .map(|distance| limit(&member, *distance, &pstar, request.search))
        .collect::<Result<_>>()?;
    let (mut chains, mut last) = (Vec::new(), None);
    for aim in aims {
        let mut starts: Vec<Vec<f64>> = nearest.iter().map(|(at, _)| at.clone()).collect();
        starts.extend(last.take());
        let (chain, optimum) = chain(&member, *aim, starts, request)?;
        last = Some(optimum);
        chains.push(chain);
    }
    let mut parts = Vec::new();
    for (distance, (_, searched)) in request.distances.iter().zip(&nearest) {
        let distance_of = |logp: &Vec<f64>| value(*distance, &pstar, logp, world);
        // The search may have stopped short: no policy of the class that was seen is nearer than the limit.
        let seen = chains.iter().flat_map(|chain| {
            let runs = chain.runs.iter().flatten();
            runs.chain([&chain.optimum, &chain.fixed_point])
        });
        let limit = seen.map(distance_of).fold(*searched, f64::min);
        parts.extend(chains.iter().map(|chain| chain.parts(&member, *distance, &pstar, limit)));
    }
    Ok(parts)
}

/// `log p` of every row: p_beta, or p* for beta 0.
pub(super) fn log_target(world: &World, beta: f64) -> Vec<f64> {
    let target = if beta > 0.0 { Target::Tilted } else { Target::Filtered };
    let row_of_prompt = |prompt: usize| {
        let validity = world.solve_rate(prompt);
        let row =
            move |(a, right): (&f64, &bool)| a.ln() + target.log_weight(*right, validity, beta);
        world.base.iter().zip(&world.is_right[prompt]).map(row)
    };
    (0..world.is_right.len()).flat_map(row_of_prompt).collect()
}

/// `D_f(pi || p)`, the mean over prompts, the mass outside of p's support included.
pub(super) fn value(divergence: Divergence, log_p: &[f64], logp: &[f64], world: &World) -> f64 {
    let term = |(log_p, logp): (&f64, &f64)| match *log_p == f64::NEG_INFINITY {
        true => logp.exp() * divergence.at_infinity(),
        false => log_p.exp() * divergence.f(logp - log_p),
    };
    log_p.iter().zip(logp).map(term).sum::<f64>() / world.is_right.len() as f64
}

/// The coefficient of each row's `grad log pi` in its gradient.
pub(super) fn slopes(
    divergence: Divergence,
    log_p: &[f64],
    logp: &[f64],
    world: &World,
) -> Vec<f64> {
    let share = 1.0 / world.is_right.len() as f64;
    let slope = |(log_p, logp): (&f64, &f64)| {
        // Products of matrices can grow until an output has no probability in f64, where 0 times infinity has no value.
        let logp = logp.max(LEAST_LOGP);
        let slope = match *log_p == f64::NEG_INFINITY {
            true => divergence.at_infinity(),
            false => divergence.f_prime(logp - log_p),
        };
        // grad D_f(pi || p) = E_pi[f'(pi / p) grad log pi]; outputs without p have f'(inf).
        share * logp.exp() * slope
    };
    log_p.iter().zip(logp).map(slope).collect()
}

/// The best of the optima that some starts lead to, and its value.
pub(super) fn best(
    member: &Member<'_>,
    starts: Vec<Vec<f64>>,
    (divergence, log_p): (Divergence, &[f64]),
    search: Descent,
) -> Result<(Vec<f64>, f64)> {
    let mut best: Option<(Vec<f64>, f64)> = None;
    for mut at in starts {
        search.follow(&mut at, |at| {
            let policy = member.policy(at);
            let slopes = slopes(divergence, log_p, &policy.logp, member.world);
            Ok(member.gradient(at, &policy, &slopes))
        })?;
        let value = value(divergence, log_p, &member.policy(&at).logp, member.world);
        if value.is_finite() && best.as_ref().is_none_or(|(_, least)| value < *least) {
            best = Some((at, value));
        }
    }
    match best {
        Some(best) => Ok(best),
        None => bail!("the search for an optimum of {divergence} in {} failed", member.family),
    }
}

/// The nearest policy to p*: for tables and forward KL the normalised expected counts, else the best that is found.
fn limit(
    member: &Member<'_>,
    distance: Divergence,
    pstar: &[f64],
    search: Descent,
) -> Result<(Vec<f64>, f64)> {
    let world = member.world;
    let filtered: Vec<Vec<f64>> = (0..world.is_right.len()).map(|x| world.filtered(x)).collect();
    let mut starts: Vec<Vec<f64>> = (0..STARTS).map(|seed| member.start(seed)).collect();
    let projected = member.projected(&filtered)?;
    if let Some(table) = &projected {
        let table_distance = value(distance, pstar, &member.policy(table).logp, world);
        // The projection is forward KL's optimum among tables; of another divergence only where it is p* itself.
        if table_distance < 1e-12 || distance == Divergence::ForwardKl {
            return Ok((member.softened(table.clone()), table_distance));
        }
        starts.push(member.softened(table.clone()));
    }
    best(member, starts, (distance, pstar), search)
}

fn chain(
    member: &Member<'_>,
    aim: Aim,
    mut starts: Vec<Vec<f64>>,
    request: &Request<'_>,
) -> Result<(Chain, Vec<f64>)> {
    let (world, divergence) = (member.world, Divergence::alpha(aim.alpha));
    let log_p = log_target(world, aim.beta);
    let distributions: Vec<Vec<f64>> = log_p
        .chunks(world.outputs.len())
        .map(|row| row.iter().map(|log_p| log_p.exp()).collect())
        .collect();
    starts.extend((0..STARTS).map(|seed| member.start(seed)));
    starts.extend(member.projected(&distributions)?.map(|table| member.softened(table)));
    let (optimum, _) = best(member, starts, (divergence, &log_p), request.search)?;
    let policy = member.policy(&optimum);
    let left = member.gradient(&optimum, &policy, &slopes(divergence, &log_p, &policy.logp, world));
    let update = Update::new(aim, request.training)?;
    // From the optimum on: where its expected update does not stand still there, the estimator is biased.
    let mut fixed_point = optimum.clone();
    update.followed(member, &mut fixed_point, request.search, None)?;
    let runs = (0..request.training.runs).into_par_iter().map(|run| {
        let seed = request.training.seed + run;
        let trained = |seed_of_samples: Option<u64>| -> Result<Vec<f64>> {
            let mut at = member.start(seed);
            update.followed(member, &mut at, request.training.descent, seed_of_samples)?;
            Ok(member.policy(&at).logp)
        };
        Ok([trained(None)?, trained(Some(seed))?])
    });
    let chain = Chain {
        aim,
        trained_by: update.objective.to_string(),
        optimum: policy.logp,
        residual: left.iter().map(|x| x.abs()).fold(0.0, f64::max),
        fixed_point: member.policy(&fixed_point).logp,
        runs: runs.collect::<Result<_>>()?,
    };
    Ok((chain, optimum))
}

impl Chain {
    fn parts(&self, member: &Member<'_>, distance: Divergence, pstar: &[f64], limit: f64) -> Parts {
        let world = member.world;
        let divergence = |logp: &[f64]| value(distance, pstar, logp, world);
        let count = self.runs.len() as f64;
        let mean = |value: &dyn Fn(&[Vec<f64>; 2]) -> f64| {
            self.runs.iter().map(value).sum::<f64>() / count
        };
        let (optimum, fixed_point) = (divergence(&self.optimum), divergence(&self.fixed_point));
        let (stepped, total) = (mean(&|run| divergence(&run[0])), mean(&|run| divergence(&run[1])));
        let gap = |run: &[Vec<f64>; 2]| divergence(&run[1]) - divergence(&run[0]);
        // Each run is paired with its own expected updates: what the start adds cancels.
        let variance = mean(&|run| (gap(run) - (total - stepped)).powi(2)) * count;
        let measured = |logp: &Vec<f64>| {
            let rows = logp.chunks(world.outputs.len());
            let q: Vec<Vec<f64>> =
                rows.map(|row| row.iter().map(|logp| logp.exp()).collect()).collect();
            let measures = Measures::new(world, &q);
            [measures.validity, measures.effective_valid]
        };
        let best = measured(&self.optimum);
        let filtered: Vec<Vec<f64>> =
            (0..world.is_right.len()).map(|prompt| world.filtered(prompt)).collect();
        let base = vec![world.base.clone(); world.is_right.len()].concat();
        let log_base: Vec<f64> = base.iter().map(|a| a.ln()).collect();
        Parts {
            world: world.name.clone(),
            policies: member.family.to_string(),
            beta: self.aim.beta,
            alpha: self.aim.alpha,
            trained_by: self.trained_by.clone(),
            distance: distance.to_string(),
            base: divergence(&log_base),
            class: limit,
            objective: optimum - limit,
            estimator: fixed_point - optimum,
            steps: stepped - fixed_point,
            samples: total - stepped,
            samples_error: (count > 1.0).then(|| (variance / (count * (count - 1.0))).sqrt()),
            total,
            residual: self.residual,
            validity: [best[0], mean(&|run| measured(&run[1])[0])],
            effective_valid: [best[1], mean(&|run| measured(&run[1])[1])],
            effective_pstar: Measures::new(world, &filtered).effective_valid,
        }
    }
}
