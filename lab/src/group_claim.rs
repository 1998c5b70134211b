//! The average advantage of a sample under rules of whole groups, written by the textbook as sums over what the others
//! of its group can be: the claims of update rules that are the gradient of no scalar.

use anyhow::Result;
use candle_core::{Device, Tensor};

use super::{Table, World};
use tealight_learn::objective::{AdvantageEstimator, Baseline, Plan};

/// Added to a standard deviation, as the field does.
const EPSILON: f64 = 1e-6;

/// Minus the sum over outputs of their chance, with a gradient, times the expected advantage of one in a group of
/// `group` samples; none where this is not known of the rule.
pub(super) fn loss(
    world: &World,
    table: &Table,
    plan: &Plan,
    beta: f64,
    group: usize,
) -> Result<Option<Tensor>> {
    let mut advantages = Vec::new();
    for (prompt, q) in table.distributions(world)?.iter().enumerate() {
        let is_right = &world.is_right[prompt];
        let of_prompt = match plan.rule {
            AdvantageEstimator::Rarity { power } => {
                rarity(plan.baseline, q, is_right, power, group)
            }
            AdvantageEstimator::Mara if plan.baseline == Baseline::Loo => {
                let base: Vec<f64> = world.base.iter().map(|a| a.ln()).collect();
                Some(Anchored { q, base: &base, is_right, beta, others: group - 1 }.advantages())
            }
            _ => None,
        };
        let Some(of_prompt) = of_prompt else { return Ok(None) };
        advantages.extend(of_prompt);
    }
    let count = advantages.len();
    let advantages = Tensor::from_vec(advantages, count, &Device::Cpu)?;
    let chance = table.token_logp()?.sum(1)?.exp()?;
    Ok(Some(((chance * advantages)?.sum_all()?.neg()? / world.is_right.len() as f64)?))
}

/// Of every output, `(1 + m)^-power` times the advantage of a correct one with `m` of the others of its class: sums
/// over how many others are of its class, correct otherwise, and incorrect.
fn rarity(
    baseline: Baseline,
    q: &[f64],
    is_right: &[bool],
    power: f64,
    group: usize,
) -> Option<Vec<f64>> {
    let n = group as f64;
    // Of a sample with this reward, where so many of the group are correct.
    let base = |reward: f64, correct: f64| {
        let share = correct / n;
        let deviation = (n / (n - 1.0) * share * (1.0 - share)).sqrt();
        match baseline {
            Baseline::None => Some(reward),
            Baseline::Loo => Some(reward - (correct - reward) / (n - 1.0)),
            Baseline::GroupMean => Some(reward - share),
            Baseline::GroupStd if correct == 0.0 || correct == n => Some(0.0),
            Baseline::GroupStd => Some((reward - share) / (deviation + EPSILON)),
            _ => None,
        }
    };
    let p: f64 = q.iter().zip(is_right).filter(|(_, right)| **right).map(|(q, _)| q).sum();
    let others = group - 1;
    let mean_advantage = |(q, right): (&f64, &bool)| -> Option<f64> {
        let mass = if *right { *q } else { 0.0 };
        let mut mean = 0.0;
        for same in 0..=others {
            for correct in 0..=others - same {
                // Of the others so many are of the sample's class, so many correct otherwise, the rest incorrect.
                let chance = trinomial(others, (same, mass), (correct, p - mass), 1.0 - p);
                let all = (same + correct) as f64;
                mean += chance
                    * match right {
                        true => base(1.0, 1.0 + all)? * (1.0 + same as f64).powf(-power),
                        false => base(0.0, all)?,
                    };
            }
        }
        Some(mean)
    };
    q.iter().zip(is_right).map(mean_advantage).collect()
}

/// The chance that of `all` samples so many are of the first kind and so many of the second, with their chances.
fn trinomial(all: usize, first: (usize, f64), second: (usize, f64), rest: f64) -> f64 {
    let mut chance = rest.powi((all - first.0 - second.0) as i32);
    let mut trials = all - first.0 - second.0;
    for (count, mass) in [first, second] {
        for index in 1..=count {
            trials += 1;
            chance *= mass * trials as f64 / index as f64;
        }
    }
    chance
}

/// MARA's rewards in a group: `1 + beta (log a(anchor) - log a(y))` of correct outputs, the anchor being the correct
/// one of the group that is likeliest under the base.
struct Anchored<'a> {
    q: &'a [f64],
    /// Log-probability of every output under the base.
    base: &'a [f64],
    is_right: &'a [bool],
    beta: f64,
    others: usize,
}

impl Anchored<'_> {
    /// A sample's expected reward less the mean of the others', given the sample.
    fn advantages(&self) -> Vec<f64> {
        let right: Vec<usize> = (0..self.q.len()).filter(|y| self.is_right[*y]).collect();
        let advantage = |y: usize| {
            let logp = if self.is_right[y] { self.base[y] } else { f64::NEG_INFINITY };
            let reward = match self.is_right[y] {
                true => 1.0 + self.beta * (self.anchor(logp, self.others) - logp),
                false => 0.0,
            };
            let other = |z: &usize| {
                let anchor = self.anchor(logp.max(self.base[*z]), self.others - 1);
                self.q[*z] * (1.0 + self.beta * (anchor - self.base[*z]))
            };
            reward - right.iter().map(other).sum::<f64>()
        };
        (0..self.q.len()).map(advantage).collect()
    }

    /// The expected largest log-probability under the base among one correct sample and the correct ones of `others`.
    fn anchor(&self, logp: f64, others: usize) -> f64 {
        let mut above: Vec<(f64, f64)> = (0..self.q.len())
            .filter(|y| self.is_right[*y] && self.base[*y] > logp)
            .map(|y| (self.base[y], self.q[y]))
            .collect();
        above.sort_by(|a, b| b.0.total_cmp(&a.0));
        // From the largest down: one is the largest where none is above, less where none is this one or above.
        let (mut mean, mut beyond) = (0.0, 0.0_f64);
        let none = |beyond: f64| (1.0 - beyond).powi(others as i32);
        for (value, q) in above {
            // P(this is the largest) = P(none above) - P(none above and not this one).
            mean += value * (none(beyond) - none(beyond + q));
            beyond += q;
        }
        mean + logp * none(beyond)
    }
}
