//! The objective code of real runs on whole distributions: every output stands for itself with its
//! probability, so losses, gradients and optima are exact.

use anyhow::{Result, bail};
use candle_core::Tensor;

use super::{Class, Table, World, vocabulary};
use tealight_learn::objective::{
    Estimator, GroupStats, Normaliser, Plan, PolicyOutputs, Regulariser, SampleSource,
    StoredValues, TokenValues, advantages, token_advantages,
};

/// Tokens and completions of rollouts and of stored samples: as many of either.
const EVEN: (usize, usize) = (1, 1);

/// A plan in a world: what its losses need of the base.
pub struct Setting<'a> {
    /// The outputs, the base and what is correct.
    pub world: &'a World,
    /// The objective's choices.
    pub plan: &'a Plan,
    /// Log-probability of every token under the base, `[X Y, L]`.
    base_logp: Tensor,
    /// The base's next-token distribution at every token's position, `[X Y L, V]`.
    base_next: Tensor,
}

impl<'a> Setting<'a> {
    /// A setting for exact losses.
    ///
    /// # Errors
    /// A rule whose advantages need finite groups; an objective that only a sampled run can optimise.
    pub fn new(world: &'a World, plan: &'a Plan) -> Result<Self> {
        if plan.rule.as_ref().is_some_and(|rule| !rule.is_of_samples()) {
            bail!(
                "the rule of this objective is about groups of samples, and has no exact optimum to show"
            );
        }
        if plan.entropy.target.is_some() {
            bail!("objectives that adapt as they go have no exact optimum to show");
        }
        Self::unchecked(world, plan)
    }

    /// The same for callers that bring advantages of their own.
    pub(super) fn unchecked(world: &'a World, plan: &'a Plan) -> Result<Self> {
        let base = Table::base(world, Class::Full)?;
        let (base_logp, base_next) = (base.token_logp()?.detach(), base.next_logp()?.detach());
        Ok(Self { world, plan, base_logp, base_next })
    }

    /// The statistics of all outputs of every prompt, with their probabilities.
    pub(super) fn stats(&self, table: &Table) -> Result<Vec<GroupStats>> {
        let world = self.world;
        let tokens = table.token_logp()?.detach();
        let greedy = greedy(world, &tokens.to_vec2()?);
        let logp = tokens.sum(1)?.to_vec1::<f64>()?;
        let beta = self.plan.beta();
        let stats = |(prompt, logp): (usize, &[f64])| GroupStats {
            rewards: world.is_right[prompt].iter().map(|right| f64::from(*right)).collect(),
            classes: world.classes(prompt),
            behavior_logp: logp.to_vec(),
            base_logp: world.base.iter().map(|a| a.ln()).collect(),
            lengths: vec![world.length(); logp.len()],
            normaliser: world.base_validity(prompt),
            beta,
            greedy: Some(f64::from(world.is_right[prompt][greedy[prompt]])),
            step: 0,
            progress: 0.0,
            mass: Some(logp.iter().map(|logp| logp.exp()).collect()),
        };
        Ok(logp.chunks(world.outputs.len()).enumerate().map(stats).collect())
    }

    /// The step's loss if every output were drawn as often as it should be. Token means are over L
    /// tokens, prompts count alike.
    pub fn loss(&self, table: &Table) -> Result<Tensor> {
        if !self.plan.is_on_policy() {
            let Some(matching) = self.plan.matching() else { bail!("only a target is imitated") };
            return self.stored_loss(&table.token_logp()?.flatten_all()?, matching.sampler);
        }
        let stats = self.stats(table)?;
        let advantages = advantages(self.plan, &stats)?;
        self.loss_of(table, &stats, advantages)
    }

    /// The same with given advantages, one an output of every prompt.
    pub(super) fn loss_of(
        &self,
        table: &Table,
        stats: &[GroupStats],
        advantages: Vec<Vec<f64>>,
    ) -> Result<Tensor> {
        let (plan, outputs) = (self.plan, self.world.outputs.len());
        let share = 1.0 / stats.len() as f64;
        let logp = table.token_logp()?;
        let behavior_logp = logp.detach().to_vec2()?;
        let costs = plan.penalty_to_go().map(|it| self.position_costs(it, table)).transpose()?;
        let token = self.token_weight();
        let base_logp = self.base_logp.to_vec2()?;
        let mut rows = behavior_logp.into_iter().zip(base_logp);
        let mut rollouts = Vec::new();
        for (prompt, (stats, advantages)) in stats.iter().zip(&advantages).enumerate() {
            let costs = costs.as_ref().map(|costs| &costs[prompt * outputs..][..outputs]);
            let mass = stats.mass.iter().flatten();
            for (advantage, mass) in
                token_advantages(stats, advantages, costs).into_iter().zip(mass)
            {
                let Some((behavior_logp, base_logp)) = rows.next() else { break };
                // Every output is a sample of weight pi(y) / X: sums over them are expectations.
                let weight = vec![mass * share * token; advantage.len()];
                rollouts.push(TokenValues { behavior_logp, base_logp, advantage, weight });
            }
        }
        let logp = logp.flatten_all()?;
        let next = table.next_logp()?;
        let bonus = plan.entropy.bonus;
        let entropy = if bonus == 0.0 { None } else { Some(vocabulary::entropy(&next)?) };
        let divergence = plan
            .vocabulary_regulariser()
            .map(|one| vocabulary::divergence(one.divergence, &next, &self.base_next))
            .transpose()?;
        let outputs = PolicyOutputs {
            logp: &logp,
            divergence: divergence.as_ref(),
            entropy_bonus: entropy.as_ref().map(|entropy| (entropy, bonus)),
        };
        let loss = plan.loss(&rollouts.iter().collect::<Vec<_>>(), outputs)?;
        let mut total = (loss.total * plan.shares(EVEN, EVEN).rollouts)?;
        if let Some(regulariser) = plan.regulariser().filter(|_| plan.rehearsal_loss().is_some()) {
            total = (total + self.stored_loss(&logp, regulariser.sampler)?)?;
        }
        Ok(total)
    }

    /// The loss of all outputs as stored completions, each as often as it is stored: rehearsed, or supervised, the
    /// divergence to a target.
    fn stored_loss(&self, logp: &Tensor, sampler: SampleSource) -> Result<Tensor> {
        let outputs = self.world.outputs.len();
        let token = self.token_weight();
        let stored = |(row, (base_logp, mass)): (usize, (Vec<f64>, f64))| {
            let (prompt, output) = (row / outputs, row % outputs);
            let (weight, log_weight) = match self.plan.matching() {
                Some(matching) => matching
                    .weigh(self.world.is_right[prompt][output], self.world.base_validity(prompt)),
                None => (token, 0.0),
            };
            StoredValues { base_logp, weight: weight * mass, log_weight }
        };
        let rows = self.base_logp.to_vec2()?.into_iter().zip(self.stored(sampler));
        let stored: Vec<StoredValues> = rows.enumerate().map(stored).collect();
        let coefficient = match self.plan.rehearsal_loss() {
            Some((_, beta)) => beta * self.plan.shares(EVEN, EVEN).stored,
            None => 1.0,
        };
        Ok((self.plan.stored_loss(&stored, logp)?.total * coefficient)?)
    }

    /// The penalty at every token of every row: the divergence there, or where k2 estimates it the
    /// token's log-ratio.
    fn position_costs(&self, regulariser: &Regulariser, table: &Table) -> Result<Vec<Vec<f64>>> {
        if regulariser.estimator != Estimator::Full {
            return Ok((table.token_logp()?.detach() - &self.base_logp)?.to_vec2()?);
        }
        let next = table.next_logp()?.detach();
        let cost = vocabulary::divergence(regulariser.divergence, &next, &self.base_next)?;
        Ok(cost.reshape(table.shape())?.to_vec2()?)
    }

    /// The weight of each token of one completion.
    fn token_weight(&self) -> f64 {
        let length = self.world.length();
        let normaliser = Normaliser { tokens: length, sequences: 1, max_completion_length: length };
        self.plan.loss_type.weight(length, &normaliser)
    }

    /// How often each output is stored: the base's probabilities, or those of its correct ones.
    fn stored(&self, sampler: SampleSource) -> Vec<f64> {
        let prompts = self.world.is_right.len();
        let share = 1.0 / prompts as f64;
        let distribution = |prompt: usize| match sampler {
            SampleSource::Filtered => self.world.filtered(prompt),
            SampleSource::Stored | SampleSource::Policy => self.world.base.clone(),
        };
        (0..prompts).flat_map(distribution).map(|chance| chance * share).collect()
    }

    /// The loss's gradient in the table's logits.
    pub fn gradient(&self, table: &Table) -> Result<Vec<f64>> {
        gradient_of(&self.loss(table)?, table)
    }
}

/// The greedy output of each prompt, from the log-probabilities of the tokens of all outputs of all prompts.
fn greedy(world: &World, logp: &[Vec<f64>]) -> Vec<usize> {
    let greedy_output = |logp: &[Vec<f64>]| {
        let mut left: Vec<usize> = (0..logp.len()).collect();
        (0..world.length()).for_each(|place| {
            // Outputs that are left begin alike, so that their next tokens are of one distribution.
            let best =
                left.iter().copied().max_by(|a, b| logp[*a][place].total_cmp(&logp[*b][place]));
            let token = best.map(|output| world.outputs[output][place]);
            left.retain(|output| Some(world.outputs[*output][place]) == token);
        });
        left[0]
    };
    logp.chunks(world.outputs.len()).map(greedy_output).collect()
}

/// The gradient of a scalar in a table's logits.
pub(super) fn gradient_of(loss: &Tensor, table: &Table) -> Result<Vec<f64>> {
    let mut grads = loss.backward()?;
    match grads.remove(&table.logits) {
        Some(grad) => Ok(grad.flatten_all()?.to_vec1()?),
        None => Ok(vec![0.0; table.logits.elem_count()]),
    }
}
