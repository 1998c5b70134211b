//! The objective code of real runs on whole distributions: every output stands for itself with its
//! probability, so losses, gradients and optima are exact.

use anyhow::{Result, bail};
use candle_core::{Device, Tensor};

use super::{Class, Table, World, vocabulary};
use tealight_learn::objective::{
    Completions, Estimator, GroupStats, LossInputs, Normaliser, Offsets, Plan, Regulariser,
    SampleSource, StoredInputs, VocabularyInputs, advantages, subtract_penalty_to_go,
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
            classes: world.classes(prompt, &(0..logp.len()).collect::<Vec<_>>()),
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
            return self.imitation(table);
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
        let (plan, (rows, length)) = (self.plan, table.shape());
        let share = 1.0 / stats.len() as f64;
        // Every output is a sample of weight pi(y) / X: sums over them are expectations.
        let mass: Vec<f64> =
            stats.iter().flat_map(|stats| stats.mass.iter().flatten().map(|m| m * share)).collect();
        let logp = table.token_logp()?.flatten_all()?;
        let next = table.next_logp()?;
        let outputs = self.world.outputs.len();
        let mut advantage = Offsets::new(vec![length; rows]).spread(&advantages.concat());
        if let Some(regulariser) = plan.penalty_to_go() {
            let values = self.position_costs(regulariser, table)?;
            let (group, tokens) = (Offsets::new(vec![length; outputs]), outputs * length);
            for ((stats, values), advantage) in
                stats.iter().zip(values.chunks(tokens)).zip(advantage.chunks_mut(tokens))
            {
                subtract_penalty_to_go(
                    &group,
                    values,
                    regulariser.beta,
                    advantage,
                    stats.mass.as_deref(),
                );
            }
        }
        let token = self.token_weight();
        let weight: Vec<f64> = mass.iter().flat_map(|m| vec![m * token; length]).collect();
        let terms = Terms {
            completions: &Completions::new(vec![length; rows], &Device::Cpu)?,
            policy: (&logp, &next),
            base: (&self.base_logp.flatten_all()?, &self.base_next),
            advantage,
            weight,
        };
        let mut total = terms.loss(plan)?;
        if let Some(regulariser) = plan.regulariser().filter(|_| plan.rehearsal_loss().is_some()) {
            let stored = self.stored(regulariser.sampler);
            total = (total + self.stored_loss(&logp, terms.completions, &stored)?)?;
        }
        Ok(total)
    }

    /// The supervised loss: the divergence to a target on the base's samples.
    fn imitation(&self, table: &Table) -> Result<Tensor> {
        let Some(matching) = self.plan.matching() else { bail!("only a target is imitated") };
        let (rows, length) = table.shape();
        let completions = Completions::new(vec![length; rows], &Device::Cpu)?;
        let logp = table.token_logp()?.flatten_all()?;
        self.stored_loss(&logp, &completions, &self.stored(matching.sampler))
    }

    /// The loss of all rows as stored completions, each as often as `mass` says.
    fn stored_loss(
        &self,
        logp: &Tensor,
        completions: &Completions,
        mass: &[f64],
    ) -> Result<Tensor> {
        let base_logp = &self.base_logp.flatten_all()?;
        let to_tensor = |values: Vec<f64>| Tensor::from_slice(&values, values.len(), &Device::Cpu);
        let loss = |weight: &Tensor, log_weight| {
            let inputs =
                StoredInputs { completions, policy_logp: logp, base_logp, weight, log_weight };
            self.plan.stored_loss(&inputs).map(|loss| loss.total)
        };
        if let Some((_, beta)) = self.plan.rehearsal_loss() {
            let (token, length) = (self.token_weight(), self.world.length());
            let weight = to_tensor(mass.iter().flat_map(|m| vec![m * token; length]).collect())?;
            return Ok((loss(&weight, None)? * (beta * self.plan.shares(EVEN, EVEN).stored))?);
        }
        let Some(matching) = self.plan.matching() else { bail!("nothing is stored") };
        let outputs = self.world.outputs.len();
        let log_weights = (0..mass.len()).map(|row| {
            let (prompt, output) = (row / outputs, row % outputs);
            let is_right = self.world.is_right[prompt][output];
            matching.target.log_weight(is_right, self.world.base_validity(prompt), matching.beta)
        });
        let (weight, log_weight): (Vec<f64>, Vec<f64>) =
            log_weights.map(|log_weight| matching.weigh(log_weight)).unzip();
        let weight = weight.iter().zip(mass).map(|(weight, mass)| weight * mass).collect();
        let (weight, log_weight) = (to_tensor(weight)?, to_tensor(log_weight)?);
        Ok(loss(&weight, Some(&log_weight))?)
    }

    /// The penalty at every token of every row: the divergence there, or where k2 estimates it the
    /// token's log-ratio.
    fn position_costs(&self, regulariser: &Regulariser, table: &Table) -> Result<Vec<f64>> {
        if regulariser.estimator != Estimator::Full {
            return Ok((table.token_logp()?.detach() - &self.base_logp)?
                .flatten_all()?
                .to_vec1()?);
        }
        let next = table.next_logp()?.detach();
        let cost = vocabulary::divergence(regulariser.divergence, &next, &self.base_next)?;
        Ok(cost.flatten_all()?.to_vec1()?)
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

/// Tokens of a world with what their loss reads.
struct Terms<'a> {
    completions: &'a Completions,
    /// Log-probabilities `[N]` of the tokens and `[N, V]` of the whole distributions they are from.
    policy: (&'a Tensor, &'a Tensor),
    /// The same of the base.
    base: (&'a Tensor, &'a Tensor),
    advantage: Vec<f64>,
    weight: Vec<f64>,
}

impl Terms<'_> {
    /// The loss of these tokens as rollouts.
    fn loss(&self, plan: &Plan) -> Result<Tensor> {
        let (logp, next) = self.policy;
        let vector = |values: &[f64]| Tensor::from_slice(values, values.len(), &Device::Cpu);
        let penalty_weight = self.weight.iter().map(|weight| plan.penalty_weight(*weight));
        let penalty_weight = vector(&penalty_weight.collect::<Vec<_>>())?;
        let (advantage, weight) = (vector(&self.advantage)?, vector(&self.weight)?);
        let bonus = plan.entropy.bonus;
        let divergence = plan
            .vocabulary_regulariser()
            .map(|regulariser| vocabulary::divergence(regulariser.divergence, next, self.base.1))
            .transpose()?;
        let is_read = plan.reads_vocabulary(bonus);
        let entropy = is_read.then(|| vocabulary::entropy(next)).transpose()?;
        let loss = plan.loss(&LossInputs {
            completions: self.completions,
            policy_logp: logp,
            behavior_logp: &logp.detach(),
            base_logp: Some(self.base.0),
            advantage: &advantage,
            weight: &weight,
            penalty_weight: &penalty_weight,
            vocabulary: entropy.as_ref().map(|entropy| VocabularyInputs {
                entropy,
                divergence: divergence.as_ref(),
                entropy_bonus: bonus,
            }),
        })?;
        Ok((loss.total * plan.shares(EVEN, EVEN).rollouts)?)
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
