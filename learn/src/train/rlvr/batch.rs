//! Scored groups to the batch of one step: advantages and weights, token by token.

use std::ops::Range;

use anyhow::Result;

use super::scored::{BaseScores, ScoredGroups};
use crate::objective::{Normaliser, Offsets, Plan, Rule, advantages, subtract_penalty_to_go};
use tealight_core::ranks::Ranks;
use tealight_nn::policy::{Distributions, Sequence};

/// The completions of one step with flat columns of their tokens.
pub(super) struct TokenBatch {
    pub(super) sequences: Vec<Sequence>,
    /// The base's distributions at every completion's tokens, where the loss compares with them and this rank has them.
    pub(super) base: Option<Vec<Distributions>>,
    /// The completions of each mini-batch, one optimizer step each.
    pub(super) mini_batches: Vec<Range<usize>>,
    columns: Columns,
}

/// The flat columns that the loss of rollouts reads: one number a token, completions one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Columns {
    pub(super) offsets: Offsets,
    /// Log-probabilities under the policy before the step.
    pub(super) behavior_logp: Vec<f32>,
    /// Log-probabilities under the base, where the objective reads them.
    pub(super) base_logp: Option<Vec<f32>>,
    pub(super) advantage: Vec<f64>,
    /// Weight of each token in the step's loss.
    pub(super) weight: Vec<f64>,
}

impl TokenBatch {
    /// The batch of a step, whose completions have at most `max_completion_length` tokens.
    pub(super) fn new(
        plan: &Plan,
        scored: ScoredGroups,
        max_completion_length: usize,
        ranks: &Ranks,
    ) -> Result<Self> {
        let ScoredGroups { offsets, groups, stats, counts, behavior_logp, .. } = scored;
        let advantages = match plan.rule.as_ref().is_some_and(Rule::is_function) {
            // A function need not give every rank the same.
            true => ranks.first(|| advantages(plan, &stats))?,
            false => advantages(plan, &stats)?,
        };
        let advantage = offsets.spread(&advantages.concat());
        let mini_batches = mini_batches(&groups, plan.steps_per_generation);
        let weights = |part: &Range<usize>| {
            let lengths = offsets.slice(part.clone()).lengths();
            completion_weights(plan, &lengths, &counts[part.clone()], max_completion_length)
        };
        let weight: Vec<f64> = mini_batches.iter().flat_map(weights).collect();
        let weight = offsets.spread(&weight);
        let base = scored.base.map(|BaseScores { logp, distributions }| (logp, distributions));
        let (base_logp, base) = base.unzip();
        let mut columns = Columns { offsets, behavior_logp, base_logp, advantage, weight };
        if let Some(costs) = &scored.costs {
            for group in groups {
                columns.subtract_penalty_to_go(group, costs, plan.beta());
            }
        }
        if let Some(importance) = &scored.importance {
            columns.multiply_weights(importance);
        }
        Ok(Self { sequences: scored.sequences, base: base.flatten(), mini_batches, columns })
    }

    /// Whether the gradient of a completion is zero under `plan`: its tokens have no weight, or no advantage where the
    /// loss has no other term.
    pub(super) fn is_zero_gradient(&self, completion: usize, plan: &Plan) -> bool {
        let span = self.columns.offsets.span(completion..completion + 1);
        let is_zero = |column: &[f64]| column[span.clone()].iter().all(|x| *x == 0.0);
        is_zero(&self.columns.weight)
            || (plan.token_loss().is_none() && is_zero(&self.columns.advantage))
    }

    /// Tokens and completions of a mini-batch that have a weight.
    pub(super) fn weighted(&self, mini_batch: usize) -> (usize, usize) {
        let Columns { offsets, weight, .. } = &self.columns;
        let rows = self.mini_batches[mini_batch].clone();
        let lengths = rows.map(|row| offsets.span(row..row + 1)).filter_map(|span| {
            weight[span.clone()].iter().any(|weight| *weight != 0.0).then_some(span.len())
        });
        lengths.fold((0, 0), |(tokens, rows), length| (tokens + length, rows + 1))
    }

    /// Tokens of consecutive completions.
    pub(super) fn tokens(&self, completions: Range<usize>) -> usize {
        self.columns.offsets.span(completions).len()
    }

    /// The advantage of each completion's first token; 0 where it has none.
    pub(super) fn first_advantages(&self) -> Vec<f64> {
        let completions = self.columns.offsets.split(&self.columns.advantage);
        completions.map(|values| values.first().copied().unwrap_or(0.0)).collect()
    }

    /// The columns of some completions, in the order given.
    pub(super) fn columns(&self, completions: &[usize]) -> Columns {
        self.columns.gather(completions)
    }
}

impl Columns {
    /// The columns of some completions, in the order given.
    fn gather(&self, completions: &[usize]) -> Self {
        let tokens = |column: &Vec<f64>| self.offsets.gather(column, completions);
        Self {
            offsets: self.offsets.select(completions),
            behavior_logp: self.offsets.gather(&self.behavior_logp, completions),
            base_logp: self.base_logp.as_ref().map(|x| self.offsets.gather(x, completions)),
            advantage: tokens(&self.advantage),
            weight: tokens(&self.weight),
        }
    }

    /// Multiplies the weights of tokens by importance weights, and not the normaliser: it counts tokens, and the
    /// estimate stays linear in them.
    fn multiply_weights(&mut self, importance: &[f64]) {
        self.weight.iter_mut().zip(importance).for_each(|(weight, x)| *weight *= x);
    }

    /// Subtracts the penalty of later tokens from the advantages of a group's completions; `costs` has the penalty of
    /// every token of the columns.
    fn subtract_penalty_to_go(&mut self, group: Range<usize>, costs: &[f64], beta: f64) {
        let (span, offsets) = (self.offsets.span(group.clone()), self.offsets.slice(group));
        let advantage = &mut self.advantage[span.clone()];
        subtract_penalty_to_go(&offsets, &costs[span], beta, advantage, None);
    }
}

/// The completions of each mini-batch: whole groups, as evenly as they divide.
fn mini_batches(groups: &[Range<usize>], count: usize) -> Vec<Range<usize>> {
    let count = count.min(groups.len().max(1));
    let end = |group: usize| group.checked_sub(1).map_or(0, |last| groups[last].end);
    let part = |number: usize| groups.len() * number / count;
    (0..count).map(|number| end(part(number))..end(part(number + 1))).collect()
}

/// The weight of each token of the completions of a mini-batch, of these lengths, in the mini-batch's own loss.
fn completion_weights(
    plan: &Plan,
    lengths: &[usize],
    counts: &[bool],
    max_completion_length: usize,
) -> Vec<f64> {
    let counted = || lengths.iter().zip(counts).filter(|(_, counts)| **counts);
    // Totals of the whole mini-batch and not of a micro-batch: a mean of means would count the tokens of short ones
    // more.
    let normaliser = Normaliser {
        tokens: counted().map(|(length, _)| length).sum::<usize>().max(1),
        sequences: counted().count().max(1),
        max_completion_length,
    };
    let weight = |(length, counts): (&usize, &bool)| match counts {
        true => plan.loss_type.weight(*length, &normaliser),
        false => 0.0,
    };
    lengths.iter().zip(counts).map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{GroupStats, Objective};

    const LENGTHS: [usize; 4] = [2, 1, 3, 2];

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
            normaliser: 0.5,
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
            importance: None,
            costs: None,
        }
    }

    #[test]
    fn advantages_and_weights_stand_at_every_token() {
        let plan = plan("rloo:loss-type=dapo:steps-per-generation=2:trust-region=ppo");
        let mut groups = scored();
        groups.counts[2] = false;
        let batch = TokenBatch::new(&plan, groups, 4, &Ranks::alone()).unwrap();
        assert_eq!(batch.mini_batches, [0..2, 2..4]);
        assert_eq!(batch.columns.advantage, [1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0]);
        let third = 1.0 / 3.0;
        assert_eq!(batch.columns.weight, [third, third, third, 0.0, 0.0, 0.0, 0.5, 0.5]);
        assert_eq!((batch.weighted(0), batch.weighted(1)), ((3, 2), (2, 1)));
        let zero: Vec<usize> = (0..4).filter(|row| batch.is_zero_gradient(*row, &plan)).collect();
        assert_eq!(zero, [2]);
        assert_eq!(batch.first_advantages(), [1.0, -1.0, 1.0, -1.0]);
    }

    #[test]
    fn importance_multiplies_weights_and_costs_lower_the_advantages_before_them() {
        let columns = |text: &str, groups| {
            TokenBatch::new(&plan(text), groups, 4, &Ranks::alone()).unwrap().columns
        };
        let plain = columns("rloo", scored());
        let importance = vec![0.5, 2.0, 1.0, 0.0, 1.5, 1.0, 0.25, 1.0];
        let product = plain.weight.iter().zip(&importance).map(|(weight, x)| weight * x).collect();
        let weighted = columns("rloo", ScoredGroups { importance: Some(importance), ..scored() });
        assert_eq!(weighted, Columns { weight: product, ..plain });
        // Beta times the costs after each token, less those of the group's other completion after its own.
        let costs = vec![0.25, 0.5, 1.0, 2.0, 0.125, 0.75, 0.5, 0.25];
        let lower = [-0.125, 0.0, 0.125, -0.15625, -0.1875, 0.0, 0.15625, 0.1875];
        let plain = columns("kl-full:0.25", scored());
        let sum = plain.advantage.iter().zip(lower).map(|(advantage, x)| advantage + x).collect();
        let lowered = columns("kl-full:0.25", ScoredGroups { costs: Some(costs), ..scored() });
        assert_eq!(lowered, Columns { advantage: sum, ..plain });
    }

    #[test]
    fn the_gather_of_a_batch_is_the_columns_of_its_completions() {
        let batch = TokenBatch::new(&plan("grpo"), scored(), 4, &Ranks::alone()).unwrap();
        let part = batch.columns.gather(&[2, 0]);
        assert_eq!(part.offsets, Offsets::new([3, 2]));
        assert_eq!(part.behavior_logp, [-1.0, -1.25, -1.5, -0.25, -0.5]);
    }
}
