//! Two tables of the field's traps: what k1, k2 and k3 estimate, and what an online Z does.

use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;

use super::sampled::{Cumulative, Scores, off_base};
use super::{Class, Descent, Measures, Table, World};
use tealight_learn::objective::{
    Divergence, GroupStats, Objective, PointwiseLoss, advantages, partition_of,
};
use tealight_nn::generate::RngKey;

/// One estimator of KL(pi || a), exactly.
#[derive(Debug, Clone, Serialize)]
pub struct KlEstimator {
    /// Name, such as `k2 in the loss`.
    pub estimator: &'static str,
    /// Expectation under the policy, in nats.
    pub value: f64,
    /// `KL(pi || a)` in nats, which it estimates.
    pub reverse_kl: f64,
    /// Norm of the expected gradient of the estimator as a loss.
    pub gradient: f64,
    /// Its distance from the gradient of reverse KL, as a share of that.
    pub off_reverse: f64,
    /// Its distance from the gradient of forward KL, as a share of that.
    pub off_forward: f64,
    /// Root of the summed variances of one sample's gradient, as a share of reverse KL's.
    pub noise: f64,
}

/// k1, k2 and k3 as losses, and k1 in the reward, at a policy that is not the base. Whole outputs are
/// the samples.
pub fn kl_estimators(world: &World, class: Class) -> Result<Vec<KlEstimator>> {
    let table = off_base(world, class)?;
    let scores = Scores::new(&table)?;
    let q = table.distributions(world)?.remove(0);
    let x: Vec<f64> = q.iter().zip(&world.base).map(|(q, a)| (q / a).ln()).collect();
    let gradient = |slope: &dyn Fn(usize) -> f64| {
        let mut total = vec![0.0; scores.size()];
        (0..q.len()).for_each(|y| scores.add(y, q[y] * slope(y), &mut total));
        total
    };
    let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let relative_difference = |some: &[f64], other: &[f64]| {
        let difference: Vec<f64> = some.iter().zip(other).map(|(a, b)| a - b).collect();
        norm(&difference) / norm(other)
    };
    let reverse = gradient(&|y| Divergence::ReverseKl.f_prime(x[y]));
    let forward = gradient(&|y| Divergence::ForwardKl.f_prime(x[y]));
    let mean =
        |value: &dyn Fn(f64) -> f64| q.iter().zip(&x).map(|(q, x)| q * value(*x)).sum::<f64>();
    let reverse_kl = mean(&|x| x);
    type Scalar = fn(f64) -> f64;
    let rows: [(&'static str, Scalar, Scalar); 4] = [
        ("k1 in the loss", |x| x, |_| 1.0),
        ("k2 in the loss", |x| PointwiseLoss::K2.value(x), |x| PointwiseLoss::K2.slope(x)),
        ("k3 in the loss", |x| PointwiseLoss::K3.value(x), |x| PointwiseLoss::K3.slope(x)),
        ("k1 in the reward", |x| x, |x| x),
    ];
    let row = |(estimator, value, slope): (&'static str, Scalar, Scalar)| {
        let expected = gradient(&|y| slope(x[y]));
        let second: f64 = (0..q.len())
            .map(|y| {
                let mut gradient = vec![0.0; scores.size()];
                scores.add(y, slope(x[y]), &mut gradient);
                q[y] * norm(&gradient).powi(2)
            })
            .sum();
        KlEstimator {
            estimator,
            value: mean(&value),
            reverse_kl,
            gradient: norm(&expected),
            off_reverse: relative_difference(&expected, &reverse),
            off_forward: relative_difference(&expected, &forward),
            noise: (second - norm(&expected).powi(2)).max(0.0).sqrt() / norm(&reverse),
        }
    };
    Ok(rows.map(row).into())
}

/// Where alpha-DPG settles with an estimate of Z.
#[derive(Debug, Clone, Serialize)]
pub struct OnlineZ {
    /// alpha (0 is forward KL).
    pub alpha: f64,
    /// Samples of a group whose mean is the estimate; none for the fixed, true Z.
    pub group: Option<usize>,
    /// The chance of a correct output.
    pub validity: f64,
    /// Effective number of correct outputs.
    pub effective_valid: f64,
}

/// Samples of a step of [`online_z`].
const SAMPLES: usize = 2048;

/// Trains with sampled groups, Z estimated from each group or fixed, for every alpha and group size.
pub fn online_z(
    world: &World,
    class: Class,
    alphas: &[f64],
    groups: &[Option<usize>],
    descent: Descent,
    seed: u64,
) -> Result<Vec<OnlineZ>> {
    let cells: Vec<(f64, Option<usize>)> =
        alphas.iter().flat_map(|alpha| groups.iter().map(|group| (*alpha, *group))).collect();
    cells
        .into_par_iter()
        .map(|(alpha, group)| settle(world, class, alpha, group, descent, seed))
        .collect()
}

fn settle(
    world: &World,
    class: Class,
    alpha: f64,
    group: Option<usize>,
    descent: Descent,
    seed: u64,
) -> Result<OnlineZ> {
    let partition = if group.is_some() { "online" } else { "fixed" };
    let objective: Objective = format!("alpha-dpg:{alpha}:partition={partition}").parse()?;
    let size = group.unwrap_or(16);
    let table = Table::base(world, class)?;
    let log_base: Vec<f64> = world.base.iter().map(|a| a.ln()).collect();
    let mut step = 0;
    descent.run(&table, |table| {
        step += 1;
        let q = table.distributions(world)?.remove(0);
        let scores = Scores::new(table)?;
        let policy = Cumulative::new(&q);
        let mut stream = RngKey { seed, step }.stream(size as u64, (alpha * 1e6) as u64);
        let mut pull = vec![0.0; q.len()];
        for _ in 0..SAMPLES / size {
            let picks: Vec<usize> = (0..size).map(|_| policy.pick(stream.uniform())).collect();
            let mut stats = GroupStats {
                rewards: vec![0.0; size],
                classes: world.classes(0, &picks),
                policy_logp: picks.iter().map(|y| q[*y].ln()).collect(),
                reference_logp: picks.iter().map(|y| log_base[*y]).collect(),
                lengths: vec![world.length(); size],
                solve_rate: world.solve_rate(0),
                beta: 0.0,
                ..GroupStats::default()
            };
            if group.is_some() {
                stats.solve_rate = partition_of(stats.online_solve_rate());
            }
            let advantage = advantages(&objective.plan, std::slice::from_ref(&stats)).remove(0);
            picks
                .iter()
                .zip(advantage)
                .for_each(|(y, advantage)| pull[*y] -= advantage / SAMPLES as f64);
        }
        let mut gradient = vec![0.0; scores.size()];
        pull.iter().enumerate().for_each(|(y, pull)| scores.add(y, *pull, &mut gradient));
        Ok(gradient)
    })?;
    let measures = Measures::new(world, &table.distributions(world)?);
    let (validity, effective_valid) = (measures.validity, measures.effective_valid);
    Ok(OnlineZ { alpha, group, validity, effective_valid })
}
