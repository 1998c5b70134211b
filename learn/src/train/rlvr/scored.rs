//! Judged groups to scored groups: the log-probabilities of their completions under policy and base, and the statistics
//! that advantages are functions of. Each rank scores a share of the completions, and all ranks have the result.

use std::borrow::Borrow;
use std::ops::Range;

use anyhow::{Context, Result, bail};

use super::metrics::Metrics;
use super::run::Run;
use super::settings::LogKl;
use crate::objective::{Estimator, GroupStats, Mismatch, Offsets, shaped_reward};
use crate::rollout::Group;
use crate::train::checkpoint::State;
use crate::train::micro_batches::lengths;
use crate::train::rank_shares::token_column;
use tealight_nn::generate::Finish;
use tealight_nn::model::Decoder;
use tealight_nn::policy::{Base, Distributions, Sequence, on_host, token_divergence, token_logp};

/// Mean difference of log-probabilities, in nats, at which an engine evidently samples from another model.
const ENGINE_APART: f64 = 0.1;

/// The completions of a step, group by group, with their scores as flat columns.
pub(super) struct ScoredGroups {
    pub(super) sequences: Vec<Sequence>,
    pub(super) offsets: Offsets,
    /// The completions of each group.
    pub(super) groups: Vec<Range<usize>>,
    /// One entry a group.
    pub(super) stats: Vec<GroupStats>,
    /// Whether each completion counts in the loss.
    pub(super) counts: Vec<bool>,
    /// Log-probabilities under the policy before the step.
    pub(super) behavior_logp: Vec<f32>,
    /// Scores under the base, where the objective reads them or the log has all.
    pub(super) base: Option<BaseScores>,
    /// Importance weights of tokens that another model sampled.
    pub(super) importance: Option<Vec<f64>>,
    /// The regulariser's cost at every position, where it enters advantages of earlier tokens.
    pub(super) costs: Option<Vec<f64>>,
}

/// Scores of completions under the base.
pub(super) struct BaseScores {
    /// Log-probabilities of their tokens.
    pub(super) logp: Vec<f32>,
    /// The distributions that these are from, completion by completion, where later passes compare with them and this
    /// rank has them all.
    pub(super) distributions: Option<Vec<Distributions>>,
}

/// Scores the groups of a step.
pub(super) fn score(
    run: &Run<'_>,
    groups: &[Group],
    state: &mut State,
    metrics: &mut Metrics,
) -> Result<ScoredGroups> {
    let (plan, step) = (run.plan, state.global_step);
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    let sequences = sequences(run, groups);
    let offsets = Offsets::new(lengths(&sequences));
    let ranges = ranges(groups);
    let logp = rollouts().flat_map(|rollout| &rollout.completion.logp);
    let (mut behavior_logp, mut importance): (Vec<f32>, _) = (logp.copied().collect(), None);
    if let Some(correction) = run.models.sampling.correction {
        let policy_logp = run.logp(run.models.policy.decoder(), &sequences)?;
        let ratios = log_ratios(&policy_logp, &behavior_logp);
        let weights = correction.weigh(&offsets, &ratios);
        let mismatch = Mismatch::new(&offsets, &ratios, &weights.counts);
        check_engine(run, &mismatch, step)?;
        metrics.mismatch = Some(mismatch);
        // Three policies: the sampler b, pi before the step, pi now. pi / b is in the weights, so that the ratio
        // of the loss is pi now / pi before and begins at 1.
        (behavior_logp, importance) = (policy_logp, Some(weights.factor));
    }
    let base = base_scores(run, &sequences)?;
    let base_logp = base.as_ref().map(|base| base.logp.as_slice());
    let mut stats = stats(run, groups, &offsets, &behavior_logp, base_logp, step);
    if let Some(matching) = plan.matching() {
        // The state of the run holds the estimates, so that a resumed run has them too.
        let ids = groups.iter().map(|group| run.id(group.problem));
        matching.estimate_partition(ids, &mut stats, &mut state.partition);
    }
    let costs = match (plan.penalty_to_go(), &base) {
        (None, _) => None,
        // One sample's estimate of the token's reverse KL; otherwise the divergence of whole distributions.
        (Some(regulariser), Some(base)) if regulariser.estimator == Estimator::K2 => {
            Some(log_ratios(&behavior_logp, &base.logp))
        }
        _ => Some(run.divergences(&sequences, base.as_ref())?),
    };
    let is_truncated = |finish| finish == Finish::Length;
    let counts = rollouts().map(|r| !(plan.mask_truncated && is_truncated(r.completion.finish)));
    Ok(ScoredGroups {
        counts: counts.collect(),
        groups: ranges,
        sequences,
        offsets,
        stats,
        behavior_logp,
        base,
        importance,
        costs,
    })
}

fn sequences(run: &Run<'_>, groups: &[Group]) -> Vec<Sequence> {
    let group_sequences = |group: &Group| -> Vec<Sequence> {
        let prompt = &run.data.problems[group.problem].prompt;
        let completions = group.rollouts.iter().map(|rollout| rollout.completion.tokens.clone());
        completions.map(|completion| Sequence { prompt: prompt.clone(), completion }).collect()
    };
    groups.iter().flat_map(group_sequences).collect()
}

/// The completions of each group among all.
fn ranges(groups: &[Group]) -> Vec<Range<usize>> {
    let groups = Offsets::new(groups.iter().map(|group| group.rollouts.len()));
    (0..groups.completions()).map(|group| groups.span(group..group + 1)).collect()
}

/// Refuses an engine that samples from another model than the policy.
fn check_engine(run: &Run<'_>, mismatch: &Mismatch, step: usize) -> Result<()> {
    let is_apart = mismatch.mean.is_nan() || mismatch.mean > ENGINE_APART;
    if step == 0 && is_apart && run.models.sampling.engine.is_some() {
        bail!(
            "the engine's log-probabilities are {:.2} nats a token from the policy's own on average: it has other \
             weights, another temperature, or gives log-probabilities before the temperature (start vLLM with \
             --logprobs-mode processed_logprobs)",
            mismatch.mean
        );
    }
    Ok(())
}

/// The base's scores of a step's completions, where the objective reads them or the log has those of all.
fn base_scores(run: &Run<'_>, sequences: &[Sequence]) -> Result<Option<BaseScores>> {
    if !run.plan.needs_reference() && run.config.settings.log_kl != LogKl::All {
        return Ok(None);
    }
    Ok(Some(match run.plan.vocabulary_regulariser() {
        Some(_) if run.ranks.size() == 1 => run.base_distributions(sequences)?,
        _ => BaseScores { logp: run.logp(run.base()?, sequences)?, distributions: None },
    }))
}

/// The statistics of every group, from the log-probabilities under policy and base.
fn stats(
    run: &Run<'_>,
    groups: &[Group],
    offsets: &Offsets,
    behavior_logp: &[f32],
    base_logp: Option<&[f32]>,
    step: usize,
) -> Vec<GroupStats> {
    let longest = run.config.settings.length();
    let shaped = |reward: f64, length: usize| {
        shaped_reward(reward, length, longest, run.plan.overlong_buffer)
    };
    let mut behavior_logp = offsets.split(behavior_logp).map(sum);
    let mut base_logp = base_logp.map(|logp| offsets.split(logp).map(sum));
    let group_stats = |group: &Group| {
        let count = group.rollouts.len();
        let lengths: Vec<usize> =
            group.rollouts.iter().map(|r| r.completion.tokens.len()).collect();
        GroupStats {
            classes: group.classes(),
            rewards: group.rewards().iter().zip(&lengths).map(|(r, n)| shaped(*r, *n)).collect(),
            behavior_logp: behavior_logp.by_ref().take(count).collect(),
            base_logp: match &mut base_logp {
                Some(logp) => logp.take(count).collect(),
                None => vec![0.0; count],
            },
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

impl<'a> Run<'a> {
    /// The base's decoder.
    pub(super) fn base(&self) -> Result<&'a Decoder> {
        self.models.base.context("the base was not held, and something reads it; this is a bug")
    }

    /// Log-probabilities of the tokens of completions under a model.
    pub(super) fn logp<S: Borrow<Sequence>>(
        &self,
        decoder: &Decoder,
        rows: &[S],
    ) -> Result<Vec<f32>> {
        self.column(rows, |part, _| {
            Ok(on_host(&token_logp(decoder, part, self.config.settings.temperature)?.logp)?)
        })
    }

    /// Log-probabilities under the base, with its distributions.
    fn base_distributions(&self, rows: &[Sequence]) -> Result<BaseScores> {
        let mut distributions = Vec::with_capacity(rows.len());
        let logp = self.column(rows, |part, _| {
            let scores = token_logp(self.base()?, part, self.config.settings.temperature)?;
            distributions.extend(scores.distributions.split(lengths(part).into_iter())?);
            Ok(on_host(&scores.logp)?)
        })?;
        Ok(BaseScores { logp, distributions: Some(distributions) })
    }

    /// Divergences of the policy's next-token distributions from the base's, which `base` has where it was computed.
    fn divergences(&self, rows: &[Sequence], base: Option<&BaseScores>) -> Result<Vec<f64>> {
        let base = base.and_then(|base| base.distributions.as_deref());
        let divergence = self.column(rows, |part, range| {
            let base = base.map(|base| base[range].iter().collect());
            let Some(base) = self.compared(part, base)? else { return Ok(vec![]) };
            let (policy, temperature) = (self.models.policy, self.config.settings.temperature);
            Ok(on_host(&token_divergence(policy.decoder(), part, temperature, &base)?)?)
        })?;
        Ok(widened(&divergence))
    }

    /// The base that a pass over some completions is compared with, over the full vocabulary; `base` has its
    /// distributions of all of them, where they were computed before. None where the plan compares nothing.
    pub(super) fn compared<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        base: Option<Vec<&Distributions>>,
    ) -> Result<Option<Base<'a>>> {
        let Some(regulariser) = self.plan.vocabulary_regulariser() else { return Ok(None) };
        let (decoder, temperature) = (self.base()?, self.config.settings.temperature);
        let distributions = match base {
            Some(base) => Distributions::joined(&base)?,
            None => token_logp(decoder, rows, temperature)?.distributions,
        };
        Ok(Some(Base { decoder, distributions, divergence: regulariser.divergence }))
    }

    fn column<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        compute: impl FnMut(&[S], Range<usize>) -> Result<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        token_column(rows, self.config.settings.micro_batch_tokens, self.ranks, compute)
    }
}

/// The same numbers in f64.
pub(super) fn widened(column: &[f32]) -> Vec<f64> {
    column.iter().map(|x| f64::from(*x)).collect()
}

/// `log(pi / a)` of every token.
pub(super) fn log_ratios(policy: &[f32], base: &[f32]) -> Vec<f64> {
    policy.iter().zip(base).map(|(p, a)| f64::from(*p) - f64::from(*a)).collect()
}

/// The log-probability of a completion, of those of its tokens.
pub(super) fn sum(logp: &[f32]) -> f64 {
    // In f64: whole completions differ by a few nats in sums of thousands of terms.
    logp.iter().map(|x| f64::from(*x)).sum()
}
