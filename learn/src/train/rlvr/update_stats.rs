//! One optimizer step on a batch: which one it is, and what it measured.

use anyhow::Result;
use candle_core::Tensor;

use crate::objective::Mismatch;
use tealight_core::ranks::Ranks;

/// The index of an optimizer step among those on a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    /// Its number among the steps on the batch.
    pub(super) number: usize,
    /// Number of updates on the batch.
    pub(super) count: usize,
    /// Index of the mini-batch.
    pub(super) part: usize,
}

impl Update {
    /// Of a step without mini-batches.
    pub(super) const ONLY: Self = Self { number: 0, count: 1, part: 0 };
}

#[derive(Debug, Clone, Default)]
pub(super) struct UpdateStats {
    pub(super) loss: f64,
    pub(super) rollouts: Option<RolloutStats>,
    pub(super) stored: Option<StoredStats>,
    /// The distance of the model that sampled from the policy, where the update's passes measured it.
    pub(super) mismatch: Option<Mismatch>,
    /// The advantage of the first token of completions whose advantages the update completed.
    pub(super) advantages: Vec<(usize, f64)>,
    /// Seconds in which they were summed over ranks.
    pub(super) reduction_time: Option<f64>,
    /// Whether stored completions were rehearsed, and do not stand for a target.
    pub(super) is_rehearsal: bool,
}

impl UpdateStats {
    /// Adds the statistics of the other ranks.
    pub(super) fn sum(&mut self, ranks: &Ranks) -> Result<()> {
        let (mut none, mut nothing) = (RolloutStats::default(), StoredStats::default());
        let rollouts = self.rollouts.as_mut().unwrap_or(&mut none);
        let stored = self.stored.as_mut().unwrap_or(&mut nothing);
        let sums = [
            &mut self.loss,
            &mut rollouts.entropy,
            &mut rollouts.clipped,
            &mut stored.value,
            &mut stored.logp,
            &mut stored.clamped,
        ];
        let count = sums.len();
        let mut local: Vec<f64> = sums.iter().map(|sum| **sum).collect();
        local.push(rollouts.logp_difference);
        // Each rank's numbers are of its own rows, already divided by the totals of all.
        let all = ranks.gather_numbers(local)?;
        for (place, sum) in sums.into_iter().enumerate() {
            *sum = all.iter().map(|numbers| numbers[place]).sum();
        }
        rollouts.logp_difference = all.iter().map(|numbers| numbers[count]).fold(0.0, f64::max);
        Ok(())
    }
}

/// Statistics of an update on rollouts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RolloutStats {
    /// Number of completions with a backward pass.
    pub(super) count: usize,
    /// Mean entropy of a token.
    pub(super) entropy: f64,
    /// Share of tokens that were clipped.
    pub(super) clipped: f64,
    /// Largest difference of log-probabilities between rollout and training.
    pub(super) logp_difference: f64,
}

/// Statistics of an update on stored completions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoredStats {
    /// Number of stored completions.
    pub(super) count: usize,
    /// The loss, without its coefficient.
    pub(super) value: f64,
    /// Mean log-probability of a token under the policy.
    pub(super) logp: f64,
    /// Share of log-ratios that were cut.
    pub(super) clamped: f64,
}

impl RolloutStats {
    /// Records the largest difference of log-probabilities between sampling and the first update on a batch; later
    /// updates train another policy than the one that sampled.
    pub(super) fn see_difference(
        &mut self,
        update: Update,
        policy: &Tensor,
        behavior: &Tensor,
    ) -> Result<()> {
        if update.number == 0 {
            let difference = (policy - behavior)?.abs()?.max(0)?;
            self.logp_difference = self.logp_difference.max(scalar(&difference)?);
        }
        Ok(())
    }
}

/// A scalar on the host.
pub(super) fn scalar(tensor: &Tensor) -> Result<f64> {
    Ok(f64::from(tensor.to_scalar::<f32>()?))
}
