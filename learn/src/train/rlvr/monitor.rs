//! Measures of a step that only its log reads: they see what training sees, and nothing of a step depends on them.

use anyhow::Result;

use super::metrics::Metrics;
use super::run::Run;
use super::scored::{ScoredGroups, sum};
use crate::objective::{Offsets, clipped_reward_ratio};
use tealight_nn::policy::Sequence;

/// From how many completions the KL to the base is estimated where the base's scores of all are not known.
const COMPLETIONS: usize = 32;

/// Logs what the run asks for of a step's rollouts, before its first update.
pub(super) fn log_rollouts(
    run: &Run<'_>,
    scored: &ScoredGroups,
    step: usize,
    metrics: &mut Metrics,
) -> Result<()> {
    (metrics.kl, metrics.kl_stderr) = kl_to_base(run, scored, step)?.unzip();
    let matching = run.plan.matching();
    metrics.max_reward_ratio = matching.map(|it| clipped_reward_ratio(it, &scored.stats));
    Ok(())
}

/// How far the policy is from the base, `KL(policy || base)` of whole completions, by the mean of their log-ratios, and
/// its standard error: from all completions where the base has scored them, else from a few on the steps that log it,
/// which costs a forward pass of the base over them.
fn kl_to_base(run: &Run<'_>, scored: &ScoredGroups, step: usize) -> Result<Option<(f64, f64)>> {
    let ScoredGroups { sequences, offsets, behavior_logp, .. } = scored;
    if let Some(base) = &scored.base {
        return Ok(Some(estimate(offsets, behavior_logp, &base.logp)));
    }
    if !run.logs_kl(step) {
        return Ok(None);
    }
    // Completions are in random order of prompts; those of one prompt are neighbours.
    let indices = evenly_spread(sequences.len());
    let few: Vec<&Sequence> = indices.iter().map(|index| &sequences[*index]).collect();
    let base_logp = run.logp(run.base()?, &few)?;
    let policy_logp = offsets.gather(behavior_logp, &indices);
    Ok(Some(estimate(&offsets.select(&indices), &policy_logp, &base_logp)))
}

/// The indices of the completions that are compared, of so many: evenly spread.
fn evenly_spread(count: usize) -> Vec<usize> {
    let some = count.min(COMPLETIONS);
    (0..some).map(|index| index * count / some).collect()
}

/// The mean of the log-ratios of completions, and its standard error.
fn estimate(offsets: &Offsets, policy_logp: &[f32], base_logp: &[f32]) -> (f64, f64) {
    // k1: E_pi[log pi - log a] over whole completions is KL(pi || a), without bias; it can be negative in a sample.
    let pairs = offsets.split(policy_logp).zip(offsets.split(base_logp));
    mean(&pairs.map(|(p, a)| sum(p) - sum(a)).collect::<Vec<_>>())
}

/// The mean, and its standard error.
fn mean(ratios: &[f64]) -> (f64, f64) {
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let squares: f64 = ratios.iter().map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_completions_are_spread_over_all_prompts() {
        assert_eq!(evenly_spread(3), [0, 1, 2]);
        let some = evenly_spread(200);
        assert_eq!((some.len(), some[0]), (COMPLETIONS, 0));
        assert!(some.windows(2).all(|two| (6..=7).contains(&(two[1] - two[0]))));
        assert!(evenly_spread(0).is_empty());
        assert_eq!(mean(&[1.0, 3.0]), (2.0, 1.0));
    }
}
