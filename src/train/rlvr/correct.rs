//! Weighing samples that another model than the policy drew: a server's, or the policy rounded.
//!
//! The policy's own log-probabilities of the tokens take the place of those they were drawn with. They cost a forward
//! pass before the step, or nothing: where no advantage reads them and the step is one pass over the batch, that pass
//! finds them.

use anyhow::{Result, bail};
use candle_core::Tensor;

use super::batch::{Batch, log_ratios};
use super::gradients::at;
use super::{Metrics, Run};
use crate::objective::tokens::Rows;
use crate::objective::{Corrected, Mismatch};
use crate::policy::{Sequence, by_row};

/// Mean difference of log-probabilities, in nats, at which an engine evidently samples from another model.
const ENGINE_APART: f64 = 0.1;

/// Rows that another model drew, weighted as the pass goes over them.
pub(super) struct Drawn {
    /// Log-probabilities of their tokens under that model.
    logp: Vec<Vec<f32>>,
    /// `log(pi / b)` of the tokens of the rows that were passed, and whether those are within the limit.
    ratios: Rows,
    counts: Vec<bool>,
}

impl Drawn {
    pub(super) fn new(logp: Vec<Vec<f32>>) -> Self {
        Self { logp, ratios: Vec::new(), counts: Vec::new() }
    }

    /// How far that model is from the policy.
    pub(super) fn mismatch(&self) -> Mismatch {
        Mismatch::of(&self.ratios, &self.counts)
    }
}

impl Run<'_> {
    /// Whether the rows of a step are weighted by the pass that trains on them. The first step's are not, which the
    /// checks at a run's start read.
    pub(super) fn waits_for_pass(&self, step: usize) -> bool {
        let drops = self.config.settings.lora.lora_dropout > 0.0;
        self.correction.is_some()
            && step > 0
            && self.ranks.size() == 1
            && !drops
            && !self.compares_with_base(step)
            && !self.plan.reads_policy_first()
    }

    /// Where another model drew the tokens: puts the policy's own log-probabilities in place of its in `behavior`, and
    /// says what each token counts for.
    pub(super) fn correct(
        &self,
        rows: &[Sequence],
        behavior: &mut Vec<Vec<f32>>,
        step: usize,
        metrics: &mut Metrics,
    ) -> Result<Option<Corrected>> {
        let Some(correction) = self.correction else { return Ok(None) };
        let own = self.logp_of(self.policy.decoder(), rows)?;
        let ratios = log_ratios(&own, behavior);
        let corrected = correction.weigh(&ratios);
        let mismatch = Mismatch::of(&ratios, &corrected.counts);
        let is_apart = mismatch.mean.is_nan() || mismatch.mean > ENGINE_APART;
        if step == 0 && is_apart && self.engine.is_some() {
            bail!(
                "the engine's log-probabilities are {:.2} nats a token from the policy's own on average: it has other \
                 weights, another temperature, or gives log-probabilities before the temperature (start vLLM with \
                 --logprobs-mode processed_logprobs)",
                mismatch.mean
            );
        }
        metrics.mismatch = Some(mismatch);
        *behavior = own;
        Ok(Some(corrected))
    }

    /// The same for the rows at `places`, with the log-probabilities `[N]` that a training pass found of them.
    pub(super) fn correct_passed(
        &self,
        batch: &mut Batch,
        places: &[usize],
        logp: &Tensor,
    ) -> Result<()> {
        let (Some(drawn), Some(correction)) = (&mut batch.drawn, self.correction) else {
            return Ok(());
        };
        let own = by_row(&logp.detach(), &at(&batch.rows, places))?;
        let ratios = log_ratios(&own, &at(&drawn.logp, places));
        let corrected = correction.weigh(&ratios);
        drawn.ratios.extend(ratios);
        drawn.counts.extend(corrected.counts);
        for (place, (own, factors)) in places.iter().zip(own.into_iter().zip(corrected.factor)) {
            batch.behavior[*place] = own;
            let weights = batch.weight[*place].iter_mut().zip(factors);
            weights.for_each(|(weight, factor)| *weight *= factor);
        }
        Ok(())
    }
}
