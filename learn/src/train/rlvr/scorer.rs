//! Completions to flat columns of log-probabilities, entropies and divergences under policy and base. Each rank scores
//! a share of the completions, and all ranks have the result.

use std::borrow::Borrow;
use std::ops::Range;

use anyhow::{Context, Result};

use crate::objective::Plan;
use crate::train::micro_batches::lengths;
use crate::train::rank_shares::token_column;
use tealight_core::ranks::Ranks;
use tealight_nn::model::Decoder;
use tealight_nn::policy::{
    Base, Distributions, Policy, Sequence, on_host, token_divergence, token_logp,
};

/// The models of a run, as they score completions.
#[derive(Clone, Copy)]
pub(super) struct Scorer<'a> {
    pub(super) policy: &'a Policy,
    /// The base; none where its weights are not held.
    pub(super) base: Option<&'a Decoder>,
    pub(super) temperature: f64,
    pub(super) micro_batch_tokens: usize,
    pub(super) ranks: &'a Ranks,
}

/// Scores of completions under the base.
pub(super) struct BaseScores {
    /// Log-probabilities of their tokens.
    pub(super) logp: Vec<f32>,
    /// The distributions that these are from, completion by completion, where later passes compare with them and this
    /// rank has them all.
    pub(super) distributions: Option<Vec<Distributions>>,
}

impl<'a> Scorer<'a> {
    /// The base's decoder.
    pub(super) fn base(&self) -> Result<&'a Decoder> {
        self.base.context("the base was not held, and something reads it; this is a bug")
    }

    pub(super) fn policy_logp<S: Borrow<Sequence>>(&self, rows: &[S]) -> Result<Vec<f32>> {
        self.logp(self.policy.decoder(), rows)
    }

    pub(super) fn base_logp<S: Borrow<Sequence>>(&self, rows: &[S]) -> Result<Vec<f32>> {
        self.logp(self.base()?, rows)
    }

    /// Log-probabilities under a model.
    pub(super) fn logp<S: Borrow<Sequence>>(
        &self,
        decoder: &Decoder,
        rows: &[S],
    ) -> Result<Vec<f32>> {
        self.column(rows, |part, _| {
            Ok(on_host(&token_logp(decoder, part, self.temperature)?.logp)?)
        })
    }

    /// Log-probabilities under the base, with its distributions.
    pub(super) fn base_distributions(&self, rows: &[Sequence]) -> Result<BaseScores> {
        let mut distributions = Vec::with_capacity(rows.len());
        let logp = self.column(rows, |part, _| {
            let scores = token_logp(self.base()?, part, self.temperature)?;
            distributions.extend(scores.distributions.split(lengths(part).into_iter())?);
            Ok(on_host(&scores.logp)?)
        })?;
        Ok(BaseScores { logp, distributions: Some(distributions) })
    }

    /// Divergences of the policy's next-token distributions from the base's, which `base` has where it was computed.
    pub(super) fn divergences(
        &self,
        plan: &Plan,
        rows: &[Sequence],
        base: Option<&BaseScores>,
    ) -> Result<Vec<f64>> {
        let base = base.and_then(|base| base.distributions.as_deref());
        let divergence = self.column(rows, |part, range| {
            let base = base.map(|base| base[range].iter().collect());
            let Some(base) = self.compared(plan, part, base)? else {
                return Ok(vec![]);
            };
            let decoder = self.policy.decoder();
            Ok(on_host(&token_divergence(decoder, part, self.temperature, &base)?)?)
        })?;
        Ok(widened(&divergence))
    }

    /// The base that a pass over some completions is compared with, over the full vocabulary; `base` has its
    /// distributions of all of them, where they were computed before. None where the plan compares nothing.
    pub(super) fn compared<S: Borrow<Sequence>>(
        &self,
        plan: &Plan,
        rows: &[S],
        base: Option<Vec<&Distributions>>,
    ) -> Result<Option<Base<'a>>> {
        let Some(regulariser) = plan.vocabulary_regulariser() else { return Ok(None) };
        let distributions = match base {
            Some(base) => Distributions::joined(&base)?,
            None => token_logp(self.base()?, rows, self.temperature)?.distributions,
        };
        let divergence = regulariser.divergence;
        Ok(Some(Base { decoder: self.base()?, distributions, divergence }))
    }

    fn column<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        compute: impl FnMut(&[S], Range<usize>) -> Result<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        token_column(rows, self.micro_batch_tokens, self.ranks, compute)
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
