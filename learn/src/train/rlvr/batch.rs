//! Scored groups to the batch of one step: advantages and weights, token by token.

use std::ops::Range;

use anyhow::Result;

use super::columns::Columns;
use super::deferred::{Deferred, MicroBatch, PassOutputs};
use super::scored::ScoredGroups;
use super::scorer::BaseScores;
use crate::objective::{
    ImportanceCorrection, Normaliser, Offsets, Plan, Rule, advantages, subtract_penalty_to_go,
};
use tealight_core::ranks::Ranks;
use tealight_nn::policy::{Distributions, Sequence};

/// The completions of one step with flat columns of their tokens. Only [`TokenBatch::finish`] gives them to the loss.
pub(super) struct TokenBatch {
    pub(super) sequences: Vec<Sequence>,
    /// The base's distributions at every completion's tokens, where the loss compares with them and this rank has them.
    pub(super) base: Option<Vec<Distributions>>,
    /// The completions of each mini-batch, one optimizer step each.
    pub(super) mini_batches: Vec<Range<usize>>,
    columns: Columns,
    deferred: Deferred,
}

/// The settings that a batch depends on beside its plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchSettings {
    pub(super) max_completion_length: usize,
    /// The importance correction of samples of another model.
    pub(super) correction: Option<ImportanceCorrection>,
}

impl TokenBatch {
    /// The batch of a step.
    ///
    /// # Errors
    /// A function of advantages that fails on a group.
    pub(super) fn new(
        plan: &Plan,
        scored: ScoredGroups,
        settings: &BatchSettings,
        ranks: &Ranks,
    ) -> Result<Self> {
        let ScoredGroups { offsets, groups, stats, counts, behavior_logp, .. } = scored;
        let advantages = match plan.rule.as_ref().is_some_and(Rule::is_function) {
            // A function need not give every rank the same.
            true => ranks.first(|| advantages(plan, &stats))?,
            false => advantages(plan, &stats)?,
        };
        let mut advantage = offsets.spread(&advantages.concat());
        let betas = stats.iter().map(|stats| stats.beta);
        if let Some(costs) = scored.costs.scored() {
            for (group, beta) in groups.iter().cloned().zip(betas.clone()) {
                let span = offsets.span(group.clone());
                let (offsets, costs) = (offsets.slice(group), &costs[span.clone()]);
                subtract_penalty_to_go(&offsets, costs, beta, &mut advantage[span], None);
            }
        }
        let mini_batches = mini_batches(&groups, plan.steps_per_generation);
        let weights = |part| completion_weights(plan, &offsets, &counts, part, settings);
        let weights: Vec<f64> = mini_batches.iter().flat_map(weights).collect();
        let mut weight = offsets.spread(&weights);
        // Importance weights multiply the weights, not the normaliser: it counts tokens, and the estimate stays linear
        // in them.
        if let Some(importance) = scored.importance.scored() {
            weight.iter_mut().zip(importance).for_each(|(weight, x)| *weight *= x);
        }
        let costs = groups.iter().cloned().zip(betas);
        let deferred = Deferred {
            importance: settings.correction.filter(|_| scored.importance.is_deferred()),
            costs: if scored.costs.is_deferred() { costs.collect() } else { Vec::new() },
        };
        let base = scored.base.map(|BaseScores { logp, distributions }| (logp, distributions));
        let (base_logp, base) = base.unzip();
        Ok(Self {
            sequences: scored.sequences,
            base: base.flatten(),
            mini_batches,
            columns: Columns { offsets, behavior_logp, base_logp, advantage, weight },
            deferred,
        })
    }

    /// Some completions with all that their loss reads, given what the pass over them computed.
    pub(super) fn finish(
        &self,
        completions: &[usize],
        pass: &PassOutputs<'_>,
    ) -> Result<MicroBatch> {
        self.deferred.finish(completions, self.columns.gather(completions), pass)
    }

    /// Whether the gradient of a completion is zero under `plan`: its tokens have no weight, or no advantage where the
    /// loss has no other term.
    pub(super) fn is_zero_gradient(&self, completion: usize, plan: &Plan) -> bool {
        let is_zero = |column: &[f64]| {
            self.columns.completion_values(column, completion).iter().all(|x| *x == 0.0)
        };
        is_zero(&self.columns.weight)
            || (plan.is_policy_gradient_alone() && is_zero(&self.columns.advantage))
    }

    /// Tokens and completions of a mini-batch that have a weight.
    pub(super) fn weighted(&self, mini_batch: usize) -> (usize, usize) {
        let mut totals = (0, 0);
        for completion in self.mini_batches[mini_batch].clone() {
            let weights = self.columns.completion_values(&self.columns.weight, completion);
            if weights.iter().any(|weight| *weight != 0.0) {
                totals = (totals.0 + weights.len(), totals.1 + 1);
            }
        }
        totals
    }

    /// Tokens of consecutive completions.
    pub(super) fn tokens(&self, completions: Range<usize>) -> usize {
        self.columns.offsets.span(completions).len()
    }

    /// The advantage of each completion's first token.
    pub(super) fn first_advantages(&self) -> Vec<f64> {
        first_values(&self.columns.offsets, &self.columns.advantage)
    }
}

/// The value of each completion's first token; 0 where it has none.
pub(super) fn first_values(offsets: &Offsets, column: &[f64]) -> Vec<f64> {
    offsets.split(column).map(|values| values.first().copied().unwrap_or(0.0)).collect()
}

/// The completions of each mini-batch: whole groups, as evenly as they divide.
fn mini_batches(groups: &[Range<usize>], count: usize) -> Vec<Range<usize>> {
    let count = count.min(groups.len().max(1));
    let end = |group: usize| group.checked_sub(1).map_or(0, |last| groups[last].end);
    let part = |number: usize| groups.len() * number / count;
    (0..count).map(|number| end(part(number))..end(part(number + 1))).collect()
}

/// The weight of each token of the completions of a mini-batch in the mini-batch's own loss.
fn completion_weights(
    plan: &Plan,
    offsets: &Offsets,
    counts: &[bool],
    part: &Range<usize>,
    settings: &BatchSettings,
) -> Vec<f64> {
    let (lengths, counts) = (offsets.slice(part.clone()).lengths(), &counts[part.clone()]);
    let counted = || lengths.iter().zip(counts).filter(|(_, counts)| **counts);
    // Totals of the whole mini-batch and not of a micro-batch: a mean of means would count the tokens of short ones
    // more.
    let normaliser = Normaliser {
        tokens: counted().map(|(length, _)| length).sum::<usize>().max(1),
        sequences: counted().count().max(1),
        max_completion_length: settings.max_completion_length,
    };
    let weight = |(length, counts): (&usize, &bool)| match counts {
        true => plan.loss_type.weight(*length, &normaliser),
        false => 0.0,
    };
    lengths.iter().zip(counts).map(weight).collect()
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::super::scored::Column;
    use super::super::scorer::log_ratios;
    use super::*;
    use crate::objective::{GroupStats, Objective};

    const LENGTHS: [usize; 4] = [2, 1, 3, 2];
    const SETTINGS: BatchSettings = BatchSettings {
        max_completion_length: 4,
        correction: Some(ImportanceCorrection::TokenTruncate(2.0)),
    };

    fn plan(text: &str) -> Plan {
        text.parse::<Objective>().unwrap().plan
    }

    /// Two groups of two completions, the first of each correct.
    fn scored() -> ScoredGroups {
        let stats = GroupStats {
            rewards: vec![1.0, 0.0],
            classes: vec![Some(0), None],
            behavior_logp: vec![-1.0; 2],
            base_logp: vec![-1.0; 2],
            lengths: vec![2; 2],
            solve_rate: 0.5,
            beta: 0.25,
            ..GroupStats::default()
        };
        let sequence = |length| Sequence { prompt: vec![1], completion: vec![2; length] };
        ScoredGroups {
            sequences: LENGTHS.map(sequence).into(),
            offsets: Offsets::new(LENGTHS),
            groups: vec![0..2, 2..4],
            stats: vec![stats.clone(), stats],
            counts: vec![true; 4],
            behavior_logp: (1..=8).map(|token| -0.25 * token as f32).collect(),
            base: None,
            importance: Column::Unread,
            costs: Column::Unread,
        }
    }

    fn tensor(values: &[f64]) -> Tensor {
        let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
        Tensor::from_slice(&values, values.len(), &Device::Cpu).unwrap()
    }

    /// The columns of all completions after a pass with these outputs.
    fn finished(batch: &TokenBatch, outputs: [&[f64]; 2]) -> Columns {
        let [logp, divergence] = outputs.map(tensor);
        let pass = PassOutputs { logp: &logp, divergence: Some(&divergence) };
        batch.finish(&[0, 1, 2, 3], &pass).unwrap().columns().clone()
    }

    #[test]
    fn advantages_and_weights_stand_at_every_token() {
        let plan = plan("rloo:loss-type=dapo:steps-per-generation=2:trust-region=ppo");
        let mut groups = scored();
        groups.counts[2] = false;
        let batch = TokenBatch::new(&plan, groups, &SETTINGS, &Ranks::alone()).unwrap();
        assert_eq!(batch.mini_batches, [0..2, 2..4]);
        assert_eq!(batch.columns.advantage, [1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0]);
        let third = 1.0 / 3.0;
        assert_eq!(batch.columns.weight, [third, third, third, 0.0, 0.0, 0.0, 0.5, 0.5]);
        assert_eq!((batch.weighted(0), batch.weighted(1)), ((3, 2), (2, 1)));
        let zero: Vec<usize> = (0..4).filter(|row| batch.is_zero_gradient(*row, &plan)).collect();
        assert_eq!(zero, [2]);
        assert_eq!(batch.first_advantages(), [1.0, -1.0, 1.0, -1.0]);
    }

    /// A pass before the step and the training pass give the same columns.
    #[test]
    fn deferred_columns_are_those_that_were_scored_before() {
        let outputs: [&[f64]; 2] = [
            &[-0.5, -0.25, -1.0, -0.5, -2.0, -1.0, -0.75, -0.125],
            &[0.25, 0.5, 1.0, 2.0, 0.125, 0.75, 0.5, 0.25],
        ];
        let [logp, divergence] = outputs;
        let policy_logp: Vec<f32> = logp.iter().map(|x| *x as f32).collect();
        let sampler_logp = scored().behavior_logp;
        let ratios = log_ratios(&policy_logp, &sampler_logp);
        let importance = SETTINGS.correction.unwrap().weigh(&Offsets::new(LENGTHS), &ratios);
        let (factor, costs) =
            (Column::Scored(importance.factor), Column::Scored(divergence.to_vec()));
        let scored_first = [
            ScoredGroups { importance: factor, behavior_logp: policy_logp, ..scored() },
            ScoredGroups { costs, ..scored() },
        ];
        let deferred = [
            ScoredGroups { importance: Column::Deferred, ..scored() },
            ScoredGroups { costs: Column::Deferred, ..scored() },
        ];
        let steps = scored_first.into_iter().zip(deferred);
        for (text, (known, late)) in ["rloo", "kl-full:0.25"].into_iter().zip(steps) {
            let plan = plan(text);
            let known = TokenBatch::new(&plan, known, &SETTINGS, &Ranks::alone()).unwrap();
            let late = TokenBatch::new(&plan, late, &SETTINGS, &Ranks::alone()).unwrap();
            assert_ne!(late.columns, known.columns, "{text}: nothing was deferred");
            assert_eq!(finished(&late, outputs), finished(&known, outputs), "{text}");
        }
    }

    #[test]
    fn the_gather_of_a_batch_is_the_columns_of_its_completions() {
        let batch = TokenBatch::new(&plan("grpo"), scored(), &SETTINGS, &Ranks::alone()).unwrap();
        let part = batch.columns.gather(&[2, 0]);
        assert_eq!(part.offsets, Offsets::new([3, 2]));
        assert_eq!(part.behavior_logp, [-1.0, -1.25, -1.5, -0.25, -0.5]);
    }
}
