//! How far the policy is from the base, which only the log reads: nothing of a step depends on it.

use anyhow::Result;

use super::batch::{TokenBatch, TrainingCompletion, sequences};
use super::run::Run;
use super::settings::LogKl;

/// Every how many steps the KL to the base is estimated.
const KL_STEPS: usize = 5;
/// From how many completions the KL to the base is estimated where the base's scores of all are not known.
const COMPLETIONS: usize = 32;

/// `KL(policy || base)` of whole completions before the first update of a step, by the mean of their log-ratios, and
/// its standard error: from all completions where the base has scored them, else from a few on the steps that log it,
/// which costs a forward pass of the base over them.
pub(super) fn kl_to_base(
    run: &Run<'_>,
    batch: &TokenBatch,
    step: usize,
) -> Result<Option<(f64, f64)>> {
    // k1: E_pi[log pi - log a] over whole completions is KL(pi || a), without bias; it can be negative in a sample.
    let ratio = |(completion, base_logp): (&TrainingCompletion, &Vec<f64>)| {
        completion.values.behavior_logp.iter().sum::<f64>() - base_logp.iter().sum::<f64>()
    };
    let all = &batch.completions;
    if run.has_base_scores() {
        let ratios: Vec<_> = all.iter().map(|one| ratio((one, &one.values.base_logp))).collect();
        return Ok(Some(mean(&ratios)));
    }
    let is_due = run.config.settings.log_kl == LogKl::Estimate && step.is_multiple_of(KL_STEPS);
    if !is_due {
        return Ok(None);
    }
    // Completions are in random order of prompts; those of one prompt are neighbours.
    let few: Vec<_> = evenly_spread(all.len()).into_iter().map(|index| &all[index]).collect();
    let base_logp = run.logp(run.base()?, &sequences(&few))?;
    Ok(Some(mean(&few.into_iter().zip(&base_logp).map(ratio).collect::<Vec<_>>())))
}

/// The indices of the completions that are compared, of so many: evenly spread.
fn evenly_spread(count: usize) -> Vec<usize> {
    let some = count.min(COMPLETIONS);
    (0..some).map(|index| index * count / some).collect()
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
