//! What must hold before the first step, checked at the start of every run.

use anyhow::{Context, Result, bail};

use super::super::step::{Accumulator, micro_batches, unpadded};
use super::{Batch, Run, scalar};
use crate::policy::token_logp;

/// Largest difference of log-probabilities between rollout and training that is rounding.
const MAX_LOGP_DIFFERENCE: f32 = 1e-3;

impl Run<'_> {
    /// What must hold before the first step: the importance ratio is 1, the policy is the base, and
    /// every weight has a gradient.
    pub(super) fn check_start(&self, batch: &Batch) -> Result<()> {
        let few = micro_batches(&batch.rows, self.config.settings.micro_batch_tokens).remove(0);
        let rows = &batch.rows[few.clone()];
        let said = token_logp(self.policy.tracked(), rows, self.config.settings.temperature)?;
        let policy = unpadded(&said.logp.detach(), rows)?;
        let worst = |other: &[Vec<f32>]| -> f32 {
            let pairs = policy.iter().flatten().zip(other.iter().flatten());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        let ratio = worst(&batch.behavior[few]);
        if ratio > MAX_LOGP_DIFFERENCE {
            bail!(
                "self-check: rollout and training disagree on log-probabilities by {ratio:.1e}; this is a bug"
            );
        }
        let divergence = worst(&self.reference_logp(rows)?);
        if divergence > MAX_LOGP_DIFFERENCE {
            bail!(
                "self-check: the policy does not start at the base (log-probabilities differ by {divergence:.1e})"
            );
        }
        let mut accumulator = Accumulator::default();
        accumulator.add(&said.logp.sum_all()?, self.policy.weights())?;
        for name in self.policy.weights().keys() {
            let gradient = accumulator.gradients.get(name);
            let gradient =
                gradient.with_context(|| format!("self-check: weight `{name}` has no gradient"))?;
            let size = scalar(&gradient.abs()?.flatten_all()?.max(0)?)?;
            if !(size > 0.0 && size.is_finite()) {
                bail!("self-check: the gradient of weight `{name}` is {size}");
            }
        }
        Ok(())
    }
}
