//! What must hold before the first update of a run, checked in every run by numbers that its first step has anyway.

use anyhow::{Result, bail};

use super::gradients::UpdateStats;
use super::run::Run;
use crate::rollout::Group;
use tealight_nn::generate::Finish;
use tealight_nn::policy::{Sequence, rounding};

/// Largest number of stored completions that are looked at.
const STORED: usize = 256;

/// The log-probabilities of stored completions must be the base's: `--presamples` may name those of another model.
pub(super) fn check_stored(run: &Run<'_>) -> Result<()> {
    let stored = &run.data.training.rehearsal[..run.data.training.rehearsal.len().min(STORED)];
    if stored.is_empty() {
        return Ok(());
    }
    // Where the base is not held, the policy took its weights over and is the base until the first update.
    let base = run.models.base.unwrap_or(run.models.policy.decoder());
    let sequences: Vec<&Sequence> = stored.iter().map(|item| &item.sequence).collect();
    let logp = stored.iter().flat_map(|item| &item.logp);
    let pairs = run.logp(base, &sequences)?.into_iter().flatten().zip(logp);
    let difference = pairs.map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, |worst: f64, x| {
        // Not `max`, which would overlook what is not a number.
        if x > worst || x.is_nan() { x } else { worst }
    });
    if difference.is_nan() || difference > rounding(run.models.policy.decoder()) {
        bail!(
            "the stored pre-samples were not drawn from this base (log-probabilities differ by {difference:.1e}); \
             draw them again"
        );
    }
    Ok(())
}

/// The importance ratio of the first update must be 1: training gives a sampled token the probability that it was
/// sampled with.
pub(super) fn check_ratio(run: &Run<'_>, stats: &UpdateStats) -> Result<()> {
    let difference = stats.rollouts.map_or(0.0, |rollouts| rollouts.logp_difference);
    // The largest of differences overlooks what is not a number; the loss does not.
    let difference = if stats.loss.is_nan() { f64::NAN } else { difference };
    if difference.is_nan() || difference > rounding(run.models.policy.decoder()) {
        bail!(
            "rollout and training disagree on log-probabilities by {difference:.1e} before the first update; this is a \
             bug"
        );
    }
    Ok(())
}

/// A completion that ended by itself must hold the token that ended it, with its log-probability.
pub(super) fn check_ends(run: &Run<'_>, groups: &[Group]) -> Result<()> {
    for rollout in groups.iter().flat_map(|group| &group.rollouts) {
        let completion = &rollout.completion;
        let ends = completion.tokens.last().is_some_and(|t| run.models.tokenizer.eos().contains(t));
        let is_aligned = completion.tokens.len() == completion.logp.len();
        if !is_aligned || ends != (completion.finish == Finish::Stop) {
            bail!("a completion lost its end-of-sequence token; this is a bug");
        }
    }
    Ok(())
}
