//! Updates of training in a world: what a step does to the probability of each output, in expectation and by samples.

use anyhow::Result;

use super::claim::reward_weight;
use super::member::{Member, Policy};
use super::sampled::Cumulative;
use super::{Descent, World};
use tealight_learn::objective::{GroupStats, Objective, Plan, advantages};
use tealight_nn::generate::RngKey;

/// Training that ends.
#[derive(Debug, Clone, Copy)]
pub struct Training {
    /// Steps of Adam and its learning rate, which falls to 0.
    pub descent: Descent,
    /// Samples of a group.
    pub group: usize,
    /// Groups of each prompt in a step.
    pub groups: usize,
    /// Runs, whose mean is taken.
    pub runs: u64,
    /// The first run's seed.
    pub seed: u64,
}

/// Alpha and beta of the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim {
    pub(super) alpha: f64,
    pub(super) beta: f64,
}

/// A step's term in the loss of each row, expected or by samples.
pub(super) struct Update {
    pub(super) objective: Objective,
    plan: Plan,
    aim: Aim,
    training: Training,
}

impl Update {
    pub(super) fn new(aim: Aim, training: Training) -> Result<Self> {
        let Aim { alpha, beta } = aim;
        let objective: Objective = match (alpha, beta) {
            (1.0, beta) => format!("grpo:divergence=reverse-kl:estimator=score:beta={beta}"),
            (alpha, 0.0) => format!("alpha-dpg:{alpha}"),
            (alpha, beta) => format!("alpha-dpg:{alpha}:target=p-beta:beta={beta}"),
        }
        .parse()?;
        Ok(Self { plan: objective.plan.clone(), objective, aim, training })
    }

    /// Follows the update from `at`, sampled where there is a seed.
    pub(super) fn followed(
        &self,
        member: &Member<'_>,
        at: &mut [f64],
        descent: Descent,
        seed: Option<u64>,
    ) -> Result<()> {
        let mut step = 0;
        descent.follow(at, |at| {
            step += 1;
            let policy = member.policy(at);
            let coefficients = match seed {
                None => self.expected(member.world, &policy),
                Some(seed) => self.sampled(member.world, &policy, RngKey { seed, step }),
            };
            Ok(member.gradient(at, &policy, &coefficients))
        })
    }

    /// The coefficient of each row's `grad log pi` in the expected gradient of the loss.
    fn expected(&self, world: &World, policy: &Policy) -> Vec<f64> {
        let share = 1.0 / world.is_right.len() as f64;
        let rows = policy.logp.chunks(world.outputs.len()).enumerate();
        let row_coefficients = |(prompt, logp): (usize, &[f64])| -> Vec<f64> {
            let mass: Vec<f64> = logp.iter().map(|logp| logp.exp()).collect();
            let advantage = if self.aim.alpha == 1.0 {
                // Of groups: what the rule makes of a reward depends on the others of its group.
                let p = world.mass(prompt, &mass).clamp(1e-9, 1.0 - 1e-9);
                // A group's expected gradient is that of the chance p times E[A | correct] - E[A | incorrect].
                let weight = reward_weight(&self.plan, self.training.group, p);
                let one = |y: usize| {
                    let reward = if world.is_right[prompt][y] { weight } else { 0.0 };
                    reward - self.aim.beta * (logp[y] - world.base[y].ln())
                };
                (0..logp.len()).map(one).collect()
            } else {
                // A pseudo-reward is of its sample alone: every output stands for itself, with its mass.
                let all: Vec<usize> = (0..logp.len()).collect();
                let stats = self.stats(world, prompt, logp, &all);
                advantages(&self.plan, &[GroupStats { mass: Some(mass.clone()), ..stats }])
                    .remove(0)
            };
            advantage.iter().zip(mass).map(|(advantage, mass)| -share * mass * advantage).collect()
        };
        rows.flat_map(row_coefficients).collect()
    }

    /// The same of sampled groups.
    fn sampled(&self, world: &World, policy: &Policy, key: RngKey) -> Vec<f64> {
        let Training { group, groups, .. } = self.training;
        let share = 1.0 / (world.is_right.len() * groups * group) as f64;
        let mut coefficients = vec![0.0; policy.logp.len()];
        let rows = policy.logp.chunks(world.outputs.len());
        for (prompt, (logp, own)) in
            rows.zip(coefficients.chunks_mut(world.outputs.len())).enumerate()
        {
            let chances = Cumulative::new(&logp.iter().map(|l| l.exp()).collect::<Vec<_>>());
            let mut stream = key.stream(prompt as u64, group as u64);
            for _ in 0..groups {
                let picks: Vec<usize> =
                    (0..group).map(|_| chances.pick(stream.uniform())).collect();
                let stats = self.stats(world, prompt, logp, &picks);
                let advantage = advantages(&self.plan, &[stats]).remove(0);
                picks.iter().zip(advantage).for_each(|(y, a)| own[*y] -= share * a);
            }
        }
        coefficients
    }

    fn stats(&self, world: &World, prompt: usize, logp: &[f64], picks: &[usize]) -> GroupStats {
        let is_right = &world.is_right[prompt];
        GroupStats {
            rewards: picks.iter().map(|y| f64::from(is_right[*y])).collect(),
            classes: world.classes(prompt, picks),
            policy_logp: picks.iter().map(|y| logp[*y]).collect(),
            reference_logp: picks.iter().map(|y| world.base[*y].ln()).collect(),
            lengths: vec![world.length(); picks.len()],
            solve_rate: world.solve_rate(prompt),
            beta: self.aim.beta,
            ..GroupStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Family};

    /// Sampled groups have the expected gradient, GRPO's normalised reward in groups of four included.
    #[test]
    fn sampled_groups_are_the_expected_update_on_average() {
        let world = World::ends(3);
        let member = Member::new(&world, Family::Class(Class::Bigram)).unwrap();
        let start = member.start(0);
        let at: Vec<f64> =
            start.iter().enumerate().map(|(i, x)| x + 0.4 * (1.7 * i as f64).sin()).collect();
        let policy = member.policy(&at);
        let descent = Descent { iterations: 1, learning_rate: 0.1 };
        let training = Training { descent, group: 4, groups: 60_000, runs: 1, seed: 0 };
        let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
        for (alpha, beta) in [(1.0, 0.3), (0.5, 0.0), (0.0, 0.4)] {
            let update = Update::new(Aim { alpha, beta }, training).unwrap();
            let gradient = |coefficients: Vec<f64>| member.gradient(&at, &policy, &coefficients);
            let expected = gradient(update.expected(&world, &policy));
            let key = RngKey { seed: 7, step: 1 };
            let sampled = gradient(update.sampled(&world, &policy, key));
            let difference: Vec<f64> = expected.iter().zip(&sampled).map(|(a, b)| a - b).collect();
            let share = norm(&difference) / norm(&expected);
            assert!(share < 0.02, "alpha {alpha}, beta {beta}: {share}");
        }
    }
}
