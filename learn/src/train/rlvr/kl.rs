//! How far the policy is from the base, as steps log it: `KL(policy || base)` of whole completions by the mean of their
//! log-ratios, which costs a forward pass of the base over them.

use anyhow::Result;

use super::metrics::Metrics;
use super::run::Run;
use super::scorer::{BaseScores, sum};
use super::settings::LogKl;
use crate::objective::Offsets;
use tealight_nn::policy::Sequence;

/// Every how many steps it is estimated.
const STEPS: usize = 5;
/// From how many completions.
const COMPLETIONS: usize = 32;

/// The base's scores of a step's completions, where the objective reads them or all are logged; logs the KL, of these
/// or of a few.
pub(super) fn compare_with_base(
    run: &Run<'_>,
    sequences: &[Sequence],
    offsets: &Offsets,
    policy_logp: &[f32],
    step: usize,
    metrics: &mut Metrics,
) -> Result<Option<BaseScores>> {
    if !compares_with_base(run, step) {
        return Ok(None);
    }
    let scorer = run.scorer();
    if run.plan.needs_reference() || run.config.settings.log_kl == LogKl::All {
        let scores = match run.plan.vocabulary_regulariser() {
            Some(_) if run.ranks.size() == 1 => scorer.base_distributions(sequences)?,
            _ => BaseScores { logp: scorer.base_logp(sequences)?, distributions: None },
        };
        let pairs = offsets.split(policy_logp).zip(offsets.split(&scores.logp));
        (metrics.kl, metrics.kl_stderr) = mean(pairs.map(|(p, a)| sum(p) - sum(a)).collect());
        return Ok(Some(scores));
    }
    // Completions are in random order of prompts; those of one prompt are neighbours.
    let indices = evenly_spread(sequences.len());
    let few: Vec<&Sequence> = indices.iter().map(|index| &sequences[*index]).collect();
    let base_logp = scorer.base_logp(&few)?;
    let few = offsets.select(&indices);
    let policy_logp = offsets.gather(policy_logp, &indices);
    // k1: E_pi[log pi - log a] over whole completions is KL(pi || a), without bias; it can be negative in a sample.
    let pairs = few.split(&policy_logp).zip(few.split(&base_logp));
    (metrics.kl, metrics.kl_stderr) = mean(pairs.map(|(p, a)| sum(p) - sum(a)).collect());
    Ok(None)
}

/// Whether log-probabilities of a step's completions are compared with the base's.
pub(super) fn compares_with_base(run: &Run<'_>, step: usize) -> bool {
    let is_logged = match run.config.settings.log_kl {
        LogKl::All => true,
        LogKl::Estimate => step.is_multiple_of(STEPS),
        LogKl::Off => false,
    };
    is_logged || run.plan.needs_reference()
}

/// The indices of the completions that are compared, of so many: evenly spread.
fn evenly_spread(count: usize) -> Vec<usize> {
    let some = count.min(COMPLETIONS);
    (0..some).map(|index| index * count / some).collect()
}

/// The mean, and its standard error.
fn mean(ratios: Vec<f64>) -> (Option<f64>, Option<f64>) {
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let squares: f64 = ratios.iter().map(|x| (x - mean) * (x - mean)).sum();
    (Some(mean), Some((squares / (count - 1.0).max(1.0) / count).sqrt()))
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
        let (value, error) = mean(vec![1.0, 3.0]);
        assert_eq!((value, error), (Some(2.0), Some(1.0)));
    }
}
