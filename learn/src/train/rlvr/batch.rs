//! Judged groups to the completions that a step trains on: their log-probabilities under policy and base, then one
//! advantage and one weight a token. Each rank scores a share of the completions, and all ranks have the result.

use std::borrow::Borrow;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use candle_core::Tensor;

use super::run::Run;
use super::settings::LogKl;
use crate::objective::{
    Estimator, GroupStats, Mismatch, Normaliser, Plan, Regulariser, Rule, TokenValues, advantages,
    shaped_reward, token_advantages,
};
use crate::rollout::Group;
use crate::train::checkpoint::State;
use crate::train::rank_shares::rank_passes;
use tealight_nn::generate::Finish;
use tealight_nn::model::Decoder;
use tealight_nn::policy::{Base, Distributions, Sequence, on_host, token_divergence, token_logp};

/// Mean difference of log-probabilities, in nats, at which an engine evidently samples from another model.
const ENGINE_APART: f64 = 0.1;

/// The completions of one step, group by group.
pub(super) struct TokenBatch {
    pub(super) completions: Vec<TrainingCompletion>,
    /// The completions of each mini-batch, one optimizer step each.
    pub(super) mini_batches: Vec<Range<usize>>,
    /// What advantages are functions of, one entry a group.
    pub(super) stats: Vec<GroupStats>,
    /// How far what sampled is from the policy, where it may be another model.
    pub(super) mismatch: Option<Mismatch>,
}

/// A completion of the policy with what its loss reads.
pub(super) struct TrainingCompletion {
    pub(super) sequence: Sequence,
    /// Whether it counts in the loss.
    counts: bool,
    pub(super) values: TokenValues,
    /// The base's distributions at its tokens, where the loss compares with them and this rank has all of them.
    pub(super) base: Option<Distributions>,
}

impl TokenBatch {
    /// Scores the groups of a step.
    pub(super) fn new(run: &Run<'_>, groups: &[Group], state: &mut State) -> Result<Self> {
        let (plan, step) = (run.plan, state.global_step);
        let completions = |group| TrainingCompletion::of_group(run, group);
        let mut completions: Vec<_> = groups.iter().flat_map(completions).collect();
        let mismatch = correct_sampler(run, &mut completions, step)?;
        score_by_base(run, &mut completions)?;
        let mut stats = stats(run, groups, &completions, step);
        if let Some(matching) = plan.matching() {
            // The state of the run holds the estimates, so that a resumed run has them too.
            let ids = groups.iter().map(|group| run.id(group.problem));
            matching.estimate_partition(ids, &mut stats, &mut state.partition);
        }
        let costs = penalties(run, &completions)?;
        let advantages = match plan.rule.as_ref().is_some_and(Rule::is_function) {
            // A function need not give every rank the same.
            true => run.ranks.first(|| advantages(plan, &stats))?,
            false => advantages(plan, &stats)?,
        };
        let mut batch = Self { completions, mini_batches: vec![], stats, mismatch };
        batch.set_advantages(&advantages, costs.as_deref());
        batch.set_weights(plan, run.config.settings.length());
        Ok(batch)
    }

    /// Sets the advantage of every token, of those of completions and of the regulariser's costs.
    fn set_advantages(&mut self, advantages: &[Vec<f64>], costs: Option<&[Vec<f64>]>) {
        let mut end = 0;
        for (stats, advantages) in self.stats.iter().zip(advantages) {
            let group = end..end + advantages.len();
            end = group.end;
            let costs = costs.map(|costs| &costs[group.clone()]);
            let tokens = token_advantages(stats, advantages, costs);
            for (completion, tokens) in self.completions[group].iter_mut().zip(tokens) {
                completion.values.advantage = tokens;
            }
        }
    }

    /// Divides the groups into mini-batches, and multiplies the weight of every token by that in its mini-batch's mean.
    fn set_weights(&mut self, plan: &Plan, max_completion_length: usize) {
        let count = plan.steps_per_generation.min(self.stats.len().max(1));
        // Whole groups, as evenly as they divide.
        let begin = |part: usize| -> usize {
            let groups = &self.stats[..self.stats.len() * part / count];
            groups.iter().map(|stats| stats.lengths.len()).sum()
        };
        self.mini_batches = (0..count).map(|part| begin(part)..begin(part + 1)).collect();
        for mini_batch in &self.mini_batches {
            let completions = &mut self.completions[mini_batch.clone()];
            let counted = || completions.iter().filter(|completion| completion.counts);
            // Totals of the whole mini-batch and not of a micro-batch: a mean of means would count the tokens of short
            // ones more.
            let normaliser = Normaliser {
                tokens: counted().map(TrainingCompletion::length).sum::<usize>().max(1),
                sequences: counted().count().max(1),
                max_completion_length,
            };
            for completion in completions {
                let weight = match completion.counts {
                    true => plan.loss_type.weight(completion.length(), &normaliser),
                    false => 0.0,
                };
                completion.values.weight.iter_mut().for_each(|one| *one *= weight);
            }
        }
    }

    /// Tokens and completions of a mini-batch that have a weight.
    pub(super) fn weighted(&self, mini_batch: usize) -> (usize, usize) {
        let all = &self.completions[self.mini_batches[mini_batch].clone()];
        let has_weight =
            |one: &&TrainingCompletion| one.values.weight.iter().any(|weight| *weight != 0.0);
        all.iter().filter(has_weight).fold((0, 0), |(tokens, completions), completion| {
            (tokens + completion.length(), completions + 1)
        })
    }

    /// The advantage of each completion's first token; 0 where it has none.
    pub(super) fn first_advantages(&self) -> Vec<f64> {
        let first = |one: &TrainingCompletion| one.values.advantage.first().copied().unwrap_or(0.0);
        self.completions.iter().map(first).collect()
    }
}

impl TrainingCompletion {
    /// The completions of a group as they were sampled: with no advantage yet, and a weight of 1.
    fn of_group<'a>(run: &'a Run<'_>, group: &'a Group) -> impl Iterator<Item = Self> + 'a {
        let prompt = &run.data.problems[group.problem].prompt;
        group.rollouts.iter().map(|rollout| {
            let sampled = &rollout.completion;
            Self {
                sequence: Sequence { prompt: prompt.clone(), completion: sampled.tokens.clone() },
                counts: !(run.plan.mask_truncated && sampled.finish == Finish::Length),
                values: TokenValues {
                    behavior_logp: sampled.logp.iter().copied().map(f64::from).collect(),
                    base_logp: vec![],
                    advantage: vec![],
                    weight: vec![1.0; sampled.tokens.len()],
                },
                base: None,
            }
        })
    }

    /// Number of its tokens.
    pub(super) fn length(&self) -> usize {
        self.sequence.completion.len()
    }

    /// Whether its gradient is zero under `plan`: its tokens have no weight, or no advantage where the loss has no
    /// other term.
    pub(super) fn is_zero_gradient(&self, plan: &Plan) -> bool {
        let is_zero = |values: &[f64]| values.iter().all(|x| *x == 0.0);
        is_zero(&self.values.weight)
            || (plan.token_loss().is_none() && is_zero(&self.values.advantage))
    }
}

/// The sequences of some completions.
pub(super) fn sequences<C: Borrow<TrainingCompletion>>(completions: &[C]) -> Vec<&Sequence> {
    completions.iter().map(|completion| &completion.borrow().sequence).collect()
}

/// Weighs tokens that another model may have sampled, and tells how far it is from the policy.
fn correct_sampler(
    run: &Run<'_>,
    completions: &mut [TrainingCompletion],
    step: usize,
) -> Result<Option<Mismatch>> {
    let Some(correction) = run.models.sampling.correction else { return Ok(None) };
    let policy_logp = run.logp(run.models.policy.decoder(), &sequences(completions))?;
    let sampled = completions.iter().map(|completion| &completion.values.behavior_logp);
    let ratios: Vec<_> = policy_logp.iter().zip(sampled).map(|(a, b)| log_ratios(a, b)).collect();
    let weights = correction.weigh(&ratios);
    let mismatch = Mismatch::new(&ratios, &weights.counts);
    let is_apart = mismatch.mean.is_nan() || mismatch.mean > ENGINE_APART;
    if step == 0 && is_apart && run.models.sampling.engine.is_some() {
        bail!(
            "the engine's log-probabilities are {:.2} nats a token from the policy's own on average: it has other \
             weights, another temperature, or gives log-probabilities before the temperature (start vLLM with \
             --logprobs-mode processed_logprobs)",
            mismatch.mean
        );
    }
    for ((completion, logp), factor) in completions.iter_mut().zip(policy_logp).zip(weights.factor)
    {
        // Three policies: the sampler b, pi before the step, pi now. pi / b is in the weights, so that the ratio
        // of the loss is pi now / pi before and begins at 1. It is in no normaliser: that counts tokens, and the
        // estimate stays linear in the weights.
        (completion.values.behavior_logp, completion.values.weight) = (logp, factor);
    }
    Ok(Some(mismatch))
}

/// Sets the base's scores, of all completions or of none.
fn score_by_base(run: &Run<'_>, completions: &mut [TrainingCompletion]) -> Result<()> {
    if !run.has_base_scores() {
        return Ok(());
    }
    let is_kept = run.plan.vocabulary_regulariser().is_some() && run.ranks.size() == 1;
    let (base, mut distributions) = (run.base()?, Vec::new());
    let logp = run.by_completion(&sequences(completions), |part, _| {
        let scores = token_logp(base, part, run.config.settings.temperature)?;
        if is_kept {
            let lengths = part.iter().map(|sequence| sequence.completion.len());
            distributions.extend(scores.distributions.split(lengths)?);
        }
        Ok(scores.logp)
    })?;
    let mut distributions = distributions.into_iter();
    for (completion, logp) in completions.iter_mut().zip(logp) {
        (completion.values.base_logp, completion.base) = (logp, distributions.next());
    }
    Ok(())
}

/// The statistics of every group, from the log-probabilities of its completions.
fn stats(
    run: &Run<'_>,
    groups: &[Group],
    completions: &[TrainingCompletion],
    step: usize,
) -> Vec<GroupStats> {
    let longest = run.config.settings.length();
    let shaped = |reward: f64, length: usize| {
        shaped_reward(reward, length, longest, run.plan.overlong_buffer)
    };
    // In f64: whole completions differ by a few nats in sums of thousands of terms.
    let logp = |logp: &Vec<f64>| logp.iter().sum::<f64>();
    let mut completions = completions.iter();
    let group_stats = |group: &Group| {
        let own: Vec<_> = completions.by_ref().take(group.rollouts.len()).collect();
        let lengths: Vec<usize> = own.iter().map(|one| one.length()).collect();
        GroupStats {
            classes: group.classes(),
            rewards: group.rewards().iter().zip(&lengths).map(|(r, n)| shaped(*r, *n)).collect(),
            behavior_logp: own.iter().map(|one| logp(&one.values.behavior_logp)).collect(),
            base_logp: own.iter().map(|one| logp(&one.values.base_logp)).collect(),
            lengths,
            normaliser: run.data.training.normaliser.get(group.problem).copied().unwrap_or(1.0),
            beta: run.plan.beta(),
            greedy: group
                .greedy
                .as_ref()
                .map(|greedy| shaped(greedy.reward(), greedy.completion.tokens.len())),
            step,
            progress: run.progress(step),
            mass: None,
        }
    };
    groups.iter().map(group_stats).collect()
}

/// The regulariser's cost at every token, where it enters the advantages of earlier tokens.
fn penalties(run: &Run<'_>, completions: &[TrainingCompletion]) -> Result<Option<Vec<Vec<f64>>>> {
    let Some(regulariser) = run.plan.penalty_to_go() else { return Ok(None) };
    if regulariser.estimator != Estimator::Full {
        // One sample's estimate of the token's reverse KL.
        let ratios =
            |one: &TrainingCompletion| log_ratios(&one.values.behavior_logp, &one.values.base_logp);
        return Ok(Some(completions.iter().map(ratios).collect()));
    }
    // The divergence of the next-token distributions.
    let (policy, temperature) = (run.models.policy, run.config.settings.temperature);
    let costs = run.by_completion(&sequences(completions), |part, range| {
        let base = run.compared(regulariser, &completions[range])?;
        Ok(token_divergence(policy.decoder(), part, temperature, &base)?)
    })?;
    Ok(Some(costs))
}

impl<'a> Run<'a> {
    /// Whether the base scores all completions: the objective reads its scores, or the log those of all.
    pub(super) fn has_base_scores(&self) -> bool {
        self.plan.needs_reference() || self.config.settings.log_kl == LogKl::All
    }

    /// The base's decoder.
    pub(super) fn base(&self) -> Result<&'a Decoder> {
        self.models.base.context("the base was not held, and something reads it; this is a bug")
    }

    /// Log-probabilities of the tokens of each completion under a model.
    pub(super) fn logp<S: Borrow<Sequence>>(
        &self,
        decoder: &Decoder,
        rows: &[S],
    ) -> Result<Vec<Vec<f64>>> {
        let temperature = self.config.settings.temperature;
        self.by_completion(rows, |part, _| Ok(token_logp(decoder, part, temperature)?.logp))
    }

    /// The base's next-token distributions that the policy's are compared with in a pass over some completions.
    pub(super) fn compared<C: Borrow<TrainingCompletion>>(
        &self,
        regulariser: &Regulariser,
        completions: &[C],
    ) -> Result<Base<'a>> {
        let (decoder, temperature) = (self.base()?, self.config.settings.temperature);
        let known: Option<Vec<&Distributions>> =
            completions.iter().map(|completion| completion.borrow().base.as_ref()).collect();
        let distributions = match known {
            Some(known) => Distributions::joined(&known)?,
            None => token_logp(decoder, &sequences(completions), temperature)?.distributions,
        };
        Ok(Base { decoder, distributions, divergence: regulariser.divergence })
    }

    /// Numbers of every token of each completion: each rank computes those of its own, pass by pass, whose range
    /// `compute` is told, and all ranks have all of them.
    fn by_completion<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        mut compute: impl FnMut(&[S], Range<usize>) -> Result<Tensor>,
    ) -> Result<Vec<Vec<f64>>> {
        let mut numbers: Vec<f32> = Vec::new();
        for range in rank_passes(rows, self.config.settings.micro_batch_tokens, self.ranks) {
            numbers.extend(on_host(&compute(&rows[range.clone()], range)?)?);
        }
        if self.ranks.size() > 1 {
            numbers = self.ranks.gather_numbers(numbers)?.concat();
        }
        let mut numbers = numbers.into_iter().map(f64::from);
        let lengths = rows.iter().map(|row| row.borrow().completion.len());
        Ok(lengths.map(|length| numbers.by_ref().take(length).collect()).collect())
    }
}

/// `log(pi / a)` of every token.
fn log_ratios(policy: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(policy.len(), base.len(), "tokens that only one model has scored; this is a bug");
    policy.iter().zip(base).map(|(p, a)| p - a).collect()
}

#[cfg(test)]
mod tests;
