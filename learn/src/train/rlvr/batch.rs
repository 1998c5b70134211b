//! Scored groups to the batch of one step: advantages and weights, token by token.

use std::ops::Range;

use anyhow::{Context, Result};
use candle_core::Tensor;

use super::scored::{BaseScores, Deferred, ScoredGroups, log_ratios, widened};
use crate::objective::{
    Mismatch, Normaliser, Offsets, Plan, Rule, advantages, subtract_penalty_to_go,
};
use tealight_core::ranks::Ranks;
use tealight_nn::policy::{Distributions, Sequence, on_host};

/// The completions of one step with flat columns of their tokens. Only [`TokenBatch::finish`] gives them to the loss.
pub(super) struct TokenBatch {
    pub(super) sequences: Vec<Sequence>,
    /// The base's distributions at every completion's tokens, where the loss compares with them and this rank has them.
    pub(super) base: Option<Vec<Distributions>>,
    /// The completions of each mini-batch, one optimizer step each.
    pub(super) mini_batches: Vec<Range<usize>>,
    groups: Vec<Range<usize>>,
    columns: Columns,
    deferred: Deferred,
}

/// The flat columns that the loss of rollouts reads: one number a token, completions one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Columns {
    pub(super) offsets: Offsets,
    /// Log-probabilities under the policy before the step, or under the sampler where nothing corrects for it.
    pub(super) behavior_logp: Vec<f32>,
    /// Log-probabilities under the base, where the objective reads them.
    pub(super) base_logp: Option<Vec<f32>>,
    pub(super) advantage: Vec<f64>,
    /// Weight of each token in the step's loss.
    pub(super) weight: Vec<f64>,
}

/// The completions of one pass with every column that their loss reads.
pub(super) struct MicroBatch {
    pub(super) columns: Columns,
    /// The ratios that the pass found, where importance weights were deferred.
    pub(super) ratios: Option<SamplerRatios>,
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
            for group in groups.iter().cloned() {
                columns.subtract_penalty_to_go(group, costs, plan.beta());
            }
        }
        if let Some(importance) = &scored.importance {
            columns.multiply_weights(importance);
        }
        Ok(Self {
            sequences: scored.sequences,
            base: base.flatten(),
            mini_batches,
            groups,
            columns,
            deferred: scored.deferred,
        })
    }

    /// Some completions with all that their loss reads, given what the pass over them computed, `[N]` each: their
    /// log-probabilities, and divergences from the base where the pass compared with it.
    pub(super) fn finish(
        &self,
        plan: &Plan,
        completions: &[usize],
        logp: &Tensor,
        divergence: Option<&Tensor>,
    ) -> Result<MicroBatch> {
        let (mut columns, mut ratios) = (self.columns.gather(completions), None);
        if let Some(correction) = self.deferred.importance {
            let policy_logp = on_host(&logp.detach())?;
            // With one update a step and no dropout, the training pass has the policy before the step.
            let log_ratios = log_ratios(&policy_logp, &columns.behavior_logp);
            let weights = correction.weigh(&columns.offsets, &log_ratios);
            columns.behavior_logp = policy_logp;
            columns.multiply_weights(&weights.factor);
            let (lengths, counts) = (columns.offsets.lengths(), weights.counts);
            ratios = Some(SamplerRatios { lengths, log_ratios, counts });
        }
        if self.deferred.costs {
            let costs = divergence.context("no divergences in the pass; this is a bug")?;
            let costs = widened(&on_host(&costs.detach())?);
            for group in &self.groups {
                if let Some(first) = completions.iter().position(|row| *row == group.start) {
                    let group = first..first + group.len();
                    columns.subtract_penalty_to_go(group, &costs, plan.beta());
                }
            }
        }
        Ok(MicroBatch { columns, ratios })
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

    /// The advantage of each completion's first token.
    pub(super) fn first_advantages(&self) -> Vec<f64> {
        self.columns.first_advantages()
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

    /// The advantage of each completion's first token; 0 where it has none.
    pub(super) fn first_advantages(&self) -> Vec<f64> {
        let completions = self.offsets.split(&self.advantage);
        completions.map(|values| values.first().copied().unwrap_or(0.0)).collect()
    }
}

/// `log(pi / b)` of tokens that another model sampled.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SamplerRatios {
    lengths: Vec<usize>,
    log_ratios: Vec<f64>,
    counts: Vec<bool>,
}

impl SamplerRatios {
    /// Takes in those of a further pass.
    pub(super) fn extend(&mut self, more: &Self) {
        self.lengths.extend(&more.lengths);
        self.log_ratios.extend(&more.log_ratios);
        self.counts.extend(&more.counts);
    }

    /// The distance of the model that sampled from the policy.
    pub(super) fn mismatch(&self) -> Mismatch {
        Mismatch::new(&Offsets::new(self.lengths.iter().copied()), &self.log_ratios, &self.counts)
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
    use candle_core::Device;

    use super::*;
    use crate::objective::{GroupStats, ImportanceCorrection, Objective};

    const LENGTHS: [usize; 4] = [2, 1, 3, 2];
    const CORRECTION: ImportanceCorrection = ImportanceCorrection::TokenTruncate(2.0);

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
            deferred: Deferred::default(),
        }
    }

    fn tensor(values: &[f64]) -> Tensor {
        let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
        Tensor::from_slice(&values, values.len(), &Device::Cpu).unwrap()
    }

    /// The columns of all completions after a pass with these outputs.
    fn finished(plan: &Plan, batch: &TokenBatch, outputs: [&[f64]; 2]) -> Columns {
        let [logp, divergence] = outputs.map(tensor);
        batch.finish(plan, &[0, 1, 2, 3], &logp, Some(&divergence)).unwrap().columns
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
        let importance = CORRECTION.weigh(&Offsets::new(LENGTHS), &ratios);
        let (factor, costs) = (Some(importance.factor), Some(divergence.to_vec()));
        let scored_first = [
            ScoredGroups { importance: factor, behavior_logp: policy_logp, ..scored() },
            ScoredGroups { costs, ..scored() },
        ];
        let deferred = [
            Deferred { importance: Some(CORRECTION), costs: false },
            Deferred { importance: None, costs: true },
        ];
        let deferred = deferred.map(|deferred| ScoredGroups { deferred, ..scored() });
        let steps = scored_first.into_iter().zip(deferred);
        for (text, (known, late)) in ["rloo", "kl-full:0.25"].into_iter().zip(steps) {
            let plan = plan(text);
            let known = TokenBatch::new(&plan, known, 4, &Ranks::alone()).unwrap();
            let late = TokenBatch::new(&plan, late, 4, &Ranks::alone()).unwrap();
            assert_ne!(late.columns, known.columns, "{text}: nothing was deferred");
            assert_eq!(finished(&plan, &late, outputs), finished(&plan, &known, outputs), "{text}");
        }
    }

    #[test]
    fn the_gather_of_a_batch_is_the_columns_of_its_completions() {
        let batch = TokenBatch::new(&plan("grpo"), scored(), 4, &Ranks::alone()).unwrap();
        let part = batch.columns.gather(&[2, 0]);
        assert_eq!(part.offsets, Offsets::new([3, 2]));
        assert_eq!(part.behavior_logp, [-1.0, -1.25, -1.5, -0.25, -0.5]);
    }
}
