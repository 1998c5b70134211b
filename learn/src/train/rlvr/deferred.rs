//! Columns that the training pass itself completes. Where each completion passes through the model once, as it was
//! sampled, that pass computes what a pass of its own would: [`Deferred::finish`] puts it in. The loss reads a
//! [`MicroBatch`], which nothing else makes.

use std::ops::Range;

use anyhow::{Context, Result};
use candle_core::Tensor;

use super::columns::Columns;
use super::scorer::{log_ratios, widened};
use crate::objective::{ImportanceCorrection, Mismatch, Offsets, subtract_penalty_to_go};
use tealight_nn::policy::{Forward, TokenLogp, on_host};

/// The columns that the training pass completes, and by which rule.
pub(super) struct Deferred {
    /// The importance correction of tokens that another model sampled.
    pub(super) importance: Option<ImportanceCorrection>,
    /// The completions of the groups whose penalty-to-go is still to be subtracted from advantages, with their penalty
    /// coefficients.
    pub(super) costs: Vec<(Range<usize>, f64)>,
}

/// Outputs of a forward pass over completion tokens, `[N]` each.
pub(super) struct PassOutputs<'a> {
    pub(super) logp: &'a Tensor,
    /// Divergences from the base, where the pass compared with it.
    pub(super) divergence: Option<&'a Tensor>,
}

impl<'a> From<&'a Forward> for PassOutputs<'a> {
    fn from(pass: &'a Forward) -> Self {
        Self { logp: pass.logp(), divergence: pass.divergence() }
    }
}

impl<'a> From<&'a TokenLogp> for PassOutputs<'a> {
    fn from(pass: &'a TokenLogp) -> Self {
        Self { logp: &pass.logp, divergence: None }
    }
}

/// The completions of one pass with every column that their loss reads.
pub(super) struct MicroBatch {
    columns: Columns,
    ratios: Option<SamplerRatios>,
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

impl MicroBatch {
    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The ratios that the pass found, where importance weights were deferred.
    pub(super) fn ratios(&self) -> Option<&SamplerRatios> {
        self.ratios.as_ref()
    }
}

impl Deferred {
    /// Completes `columns`, those of `completions`, with what the pass over these computed.
    pub(super) fn finish(
        &self,
        completions: &[usize],
        mut columns: Columns,
        pass: &PassOutputs<'_>,
    ) -> Result<MicroBatch> {
        let ratios = match self.importance {
            None => None,
            Some(correction) => {
                let policy_logp = on_host(&pass.logp.detach())?;
                // With one update a step and no dropout, the training pass has the policy before the step.
                let log_ratios = log_ratios(&policy_logp, &columns.behavior_logp);
                let corrected = correction.weigh(&columns.offsets, &log_ratios);
                columns.behavior_logp = policy_logp;
                let weights = columns.weight.iter_mut().zip(&corrected.factor);
                weights.for_each(|(weight, factor)| *weight *= factor);
                let (lengths, counts) = (columns.offsets.lengths(), corrected.counts);
                Some(SamplerRatios { lengths, log_ratios, counts })
            }
        };
        for (group, beta) in &self.costs {
            let Some(first) = completions.iter().position(|row| *row == group.start) else {
                continue;
            };
            let costs = pass.divergence.context("no divergences in the pass; this is a bug")?;
            let (costs, local) = (widened(&on_host(&costs.detach())?), first..first + group.len());
            let (span, offsets) =
                (columns.offsets.span(local.clone()), columns.offsets.slice(local));
            let advantage = &mut columns.advantage[span.clone()];
            subtract_penalty_to_go(&offsets, &costs[span], *beta, advantage, None);
        }
        Ok(MicroBatch { columns, ratios })
    }
}
