//! The objective code of real runs on whole distributions: every output stands for itself with its
//! probability, so losses, gradients and optima are exact.

use anyhow::{Result, bail};
use candle_core::{Device, Tensor};

use super::{Class, Table, World};
use crate::objective::tokens::Rows;
use crate::objective::{
    AdvantageEstimator, Anchor, Estimator, GroupStats, LossInputs, Matching, Normaliser, Plan,
    PointwiseLoss, SampleSource, TrustRegion, advantages, charge_later, vocabulary,
};

/// A plan in a world: what its losses need of the base.
pub struct Setting<'a> {
    /// The world.
    pub world: &'a World,
    /// The plan.
    pub plan: &'a Plan,
    /// Log-probability of every token under the base, `[X Y, L]`.
    base_logp: Tensor,
    /// The base's next-token distribution at every token's place, `[X Y L, V]`.
    base_next: Tensor,
}

impl<'a> Setting<'a> {
    /// Refuses rules whose advantages need finite groups, and what only a sampled run can do.
    ///
    /// # Errors
    /// See above, or no memory.
    pub fn new(world: &'a World, plan: &'a Plan) -> Result<Self> {
        if !matches!(plan.rule, AdvantageEstimator::Plain | AdvantageEstimator::Negative { .. }) {
            bail!(
                "the rule of this objective is about groups of samples; the lab shows it with --sampled"
            );
        }
        if plan.simko.is_some() || plan.covariance.is_some() || plan.entropy.target.is_some() {
            bail!(
                "objectives that pick single tokens, or adapt as they go, have no exact optimum to show"
            );
        }
        Self::unchecked(world, plan)
    }

    /// The same for callers that bring advantages of their own.
    pub(super) fn unchecked(world: &'a World, plan: &'a Plan) -> Result<Self> {
        let base = Table::base(world, Class::Full)?;
        let (base_logp, base_next) = (base.token_logp()?.detach(), base.next_logp()?.detach());
        Ok(Self { world, plan, base_logp, base_next })
    }

    /// What is known of all outputs of every prompt, with their probabilities.
    pub(super) fn stats(&self, table: &Table) -> Result<Vec<GroupStats>> {
        let world = self.world;
        let logp = table.token_logp()?.detach().sum(1)?.to_vec1::<f64>()?;
        let beta = match &self.plan.anchor {
            Anchor::None => 0.0,
            Anchor::Base(regulariser) => regulariser.beta,
            Anchor::Target(matching) => matching.beta,
        };
        let stats = |(prompt, logp): (usize, &[f64])| GroupStats {
            rewards: world.is_right[prompt].iter().map(|right| f64::from(*right)).collect(),
            is_correct: world.is_right[prompt].clone(),
            policy_logp: logp.to_vec(),
            reference_logp: world.base.iter().map(|a| a.ln()).collect(),
            lengths: vec![world.length(); logp.len()],
            validity: world.validity(prompt),
            beta,
            mass: Some(logp.iter().map(|logp| logp.exp()).collect()),
        };
        Ok(logp.chunks(world.outputs.len()).enumerate().map(stats).collect())
    }

    /// The step's loss if every output were drawn as often as it should be. Token means are over L
    /// tokens, prompts count alike.
    ///
    /// # Errors
    /// No memory.
    pub fn loss(&self, table: &Table) -> Result<Tensor> {
        if !self.plan.is_on_policy() {
            return self.imitation(table);
        }
        let stats = self.stats(table)?;
        let advantages = advantages(self.plan, &stats);
        self.loss_of(table, &stats, advantages)
    }

    /// The same with given advantages, one an output of every prompt.
    pub(super) fn loss_of(
        &self,
        table: &Table,
        stats: &[GroupStats],
        advantages: Vec<Vec<f64>>,
    ) -> Result<Tensor> {
        let (plan, (rows, length)) = (self.plan, table.shape());
        let share = 1.0 / stats.len() as f64;
        let mass: Vec<f64> =
            stats.iter().flat_map(|stats| stats.mass.iter().flatten().map(|m| m * share)).collect();
        let token_logp = table.token_logp()?;
        let full = plan.regulariser().filter(|r| r.estimator == Estimator::Full);
        let cost = match full {
            None => None,
            Some(full) => {
                let next = table.next_logp()?;
                Some(
                    vocabulary::divergence(full.divergence, &next, &self.base_next)?
                        .reshape((rows, length))?,
                )
            }
        };
        let outputs = self.world.outputs.len();
        let mut advantage: Vec<Vec<f64>> =
            advantages.concat().into_iter().map(|advantage| vec![advantage; length]).collect();
        if let Some(charged) = plan.charges_later() {
            let values = match &cost {
                Some(cost) => cost.detach().to_vec2::<f64>()?,
                None => self.token_log_ratio(table)?,
            };
            for ((stats, values), advantage) in
                stats.iter().zip(values.chunks(outputs)).zip(advantage.chunks_mut(outputs))
            {
                charge_later(values, charged.beta, advantage, stats.mass.as_deref());
            }
        }
        let normaliser = Normaliser { tokens: length, sequences: 1, max_completion_length: length };
        let token = plan.loss_type.weight(length, &normaliser);
        let weight = self.spread(&mass, token, length)?;
        let inputs = LossInputs {
            policy_logp: &token_logp,
            behavior_logp: &token_logp.detach(),
            advantage: &Tensor::from_vec(advantage.concat(), (rows, length), &Device::Cpu)?,
            weight: &weight,
            lengths: &Tensor::from_vec(vec![length as f64; rows], (rows, 1), &Device::Cpu)?,
        };
        let mut total = plan.trust_region.loss(&inputs)?.total;
        if let Some((pointwise, beta)) = plan.token_loss() {
            let value = pointwise.of(&(&token_logp - &self.base_logp)?)?;
            total = (total + ((value * &weight)?.sum_all()? * beta)?)?;
        }
        if let (Some(full), Some(cost)) = (full, cost) {
            total = (total + ((cost * &weight)?.sum_all()? * full.beta)?)?;
        }
        if plan.entropy.bonus != 0.0 {
            let entropy = vocabulary::entropy(&table.next_logp()?)?.reshape((rows, length))?;
            total = (total - ((entropy * &weight)?.sum_all()? * plan.entropy.bonus)?)?;
        }
        if let (Some((pointwise, beta)), Some(regulariser)) =
            (plan.rehearsal_loss(), plan.regulariser())
        {
            let stored = self.stored(regulariser.sampler);
            let weight = self.spread(&stored, token, length)?;
            let value = pointwise.of(&(&token_logp - &self.base_logp)?)?;
            total = (total + ((value * weight)?.sum_all()? * beta)?)?;
        }
        Ok(total)
    }

    /// The supervised loss: the divergence to a target on the base's samples.
    fn imitation(&self, table: &Table) -> Result<Tensor> {
        let Some(Matching { target, divergence, beta, sampler, .. }) = self.plan.matching() else {
            bail!("only a target is imitated");
        };
        let stored = self.stored(*sampler);
        let (mut weight, mut shift) = (Vec::new(), Vec::new());
        for (prompt, is_right) in self.world.is_right.iter().enumerate() {
            for (index, right) in is_right.iter().enumerate() {
                let log_weight = target.log_weight(*right, self.world.validity(prompt), *beta);
                let own = if *sampler == SampleSource::Filtered { 1.0 } else { log_weight.exp() };
                weight.push(stored[prompt * is_right.len() + index] * own);
                shift.push(if log_weight.is_finite() { log_weight } else { 0.0 });
            }
        }
        let count = weight.len();
        let of = |values: Vec<f64>| Tensor::from_vec(values, count, &Device::Cpu);
        let ratio = ((table.token_logp()? - &self.base_logp)?.sum(1)? - of(shift)?)?;
        Ok((PointwiseLoss::Matching(*divergence).of(&ratio)? * of(weight)?)?.sum_all()?)
    }

    /// How often each output is stored: the base's probabilities, or those of its right ones.
    pub(super) fn stored(&self, sampler: SampleSource) -> Vec<f64> {
        let prompts = self.world.is_right.len();
        let share = 1.0 / prompts as f64;
        let of = |prompt: usize| match sampler {
            SampleSource::Filtered => self.world.filtered(prompt),
            SampleSource::Stored | SampleSource::Policy => self.world.base.clone(),
        };
        (0..prompts).flat_map(of).map(|chance| chance * share).collect()
    }

    /// `log(pi / a)` of every token of every row.
    pub(super) fn token_log_ratio(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        Ok((table.token_logp()?.detach() - &self.base_logp)?.to_vec2()?)
    }

    /// The next-token distributions of policy and base at every token's place.
    pub(super) fn next_distributions(&self, table: &Table) -> Result<(Rows, Rows)> {
        Ok((table.next_logp()?.detach().exp()?.to_vec2()?, self.base_next.exp()?.to_vec2()?))
    }

    /// The slope of the loss on a stored row, token by token, weights included.
    pub(super) fn stored_slopes(&self, row: usize, ratios: &[f64]) -> Vec<f64> {
        let length = ratios.len() as f64;
        if let Some((pointwise, beta)) = self.plan.rehearsal_loss() {
            return ratios.iter().map(|x| beta / length * pointwise.slope(*x)).collect();
        }
        let Some(Matching { target, divergence, beta, sampler, .. }) = self.plan.matching() else {
            return vec![0.0; ratios.len()];
        };
        let (prompt, output) = (row / self.world.outputs.len(), row % self.world.outputs.len());
        let is_right = self.world.is_right[prompt][output];
        let log_weight = target.log_weight(is_right, self.world.validity(prompt), *beta);
        if !log_weight.is_finite() {
            return vec![0.0; ratios.len()];
        }
        let own = if *sampler == SampleSource::Filtered { 1.0 } else { log_weight.exp() };
        let slope =
            PointwiseLoss::Matching(*divergence).slope(ratios.iter().sum::<f64>() - log_weight);
        vec![own * slope; ratios.len()]
    }

    fn spread(&self, mass: &[f64], token: f64, length: usize) -> Result<Tensor> {
        let values: Vec<f64> = mass.iter().flat_map(|m| vec![m * token; length]).collect();
        Ok(Tensor::from_vec(values, (mass.len(), length), &Device::Cpu)?)
    }

    /// The loss's gradient in the table's logits.
    ///
    /// # Errors
    /// No memory.
    pub fn gradient(&self, table: &Table) -> Result<Vec<f64>> {
        gradient_of(&self.loss(table)?, table)
    }
}

/// The gradient of a scalar in a table's logits.
pub(super) fn gradient_of(loss: &Tensor, table: &Table) -> Result<Vec<f64>> {
    let mut grads = loss.backward()?;
    match grads.remove(&table.logits) {
        Some(grad) => Ok(grad.flatten_all()?.to_vec1()?),
        None => Ok(vec![0.0; table.logits.elem_count()]),
    }
}

/// How the exact loss is followed downhill.
#[derive(Debug, Clone, Copy)]
pub struct Descent {
    /// Most steps of Adam.
    pub iterations: usize,
    /// Its learning rate at the start; it falls to 0 in a straight line.
    pub learning_rate: f64,
}

impl Default for Descent {
    fn default() -> Self {
        Self { iterations: 6000, learning_rate: 0.03 }
    }
}

impl Descent {
    /// Follows `gradient` from where the table is; stops early where it has vanished.
    ///
    /// # Errors
    /// Whatever `gradient` fails with.
    pub fn run(
        self,
        table: &Table,
        mut gradient: impl FnMut(&Table) -> Result<Vec<f64>>,
    ) -> Result<()> {
        // Adam's own constants, as in the field notes' tables. Where nearly all mass is on one output
        // the last digits of what is left (KL(p* || q), U_256) need more iterations.
        let (decay_1, decay_2) = (0.9_f64, 0.999_f64);
        let shape = table.logits.shape().clone();
        let mut logits: Vec<f64> = table.logits.flatten_all()?.to_vec1()?;
        let (mut first, mut second) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
        for step in 1..=self.iterations {
            let slope = gradient(table)?;
            if slope.iter().all(|slope| slope.abs() < 1e-10) {
                break;
            }
            let left = 1.0 - (step - 1) as f64 / self.iterations as f64;
            let rate = self.learning_rate * left;
            let (scale_1, scale_2) =
                (1.0 - decay_1.powi(step as i32), 1.0 - decay_2.powi(step as i32));
            for (index, slope) in slope.into_iter().enumerate() {
                first[index] = decay_1 * first[index] + (1.0 - decay_1) * slope;
                second[index] = decay_2 * second[index] + (1.0 - decay_2) * slope * slope;
                let size = (second[index] / scale_2).sqrt() + 1e-8;
                logits[index] -= rate * first[index] / scale_1 / size;
            }
            table.logits.set(&Tensor::from_vec(logits.clone(), &shape, &Device::Cpu)?)?;
        }
        Ok(())
    }
}

/// The plan without its trust region: at ratio 1 every region has the same gradient, and the lab
/// never leaves it.
pub(super) fn at_ratio_one(plan: &Plan) -> Plan {
    Plan {
        trust_region: TrustRegion::None,
        num_iterations: 1,
        steps_per_generation: 1,
        ..plan.clone()
    }
}
