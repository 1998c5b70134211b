//! The policy of a run, as servers that sample for it receive it.

use std::path::Path;

use anyhow::{Context, Result};

use super::probe::Probe;
use tealight_formats::adapter::Adapter;
use tealight_formats::pretrained::Pretrained;
use tealight_nn::policy::{self, Policy, Sequence};

/// A policy, with what its files need besides.
pub struct ServedPolicy<'a> {
    /// The model that the run began with.
    pub base: &'a Pretrained,
    /// Its weights as trained.
    pub policy: &'a Policy,
    /// The adapter, where one is trained.
    pub adapter: Option<&'a Adapter>,
}

impl ServedPolicy<'_> {
    /// Writes the weights, or the adapter, to a folder, as the Hub or PEFT has it; all weights under the token ids of
    /// `exchanged`, where there is one.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub(super) fn write(&self, folder: &Path, exchanged: Option<&Probe>) -> Result<()> {
        let mut tensors = self.policy.tensors();
        if let Some(probe) = exchanged {
            tensors = probe.exchange(&tensors)?;
        }
        self.base.save_trained(self.adapter, &tensors, folder)
    }

    /// The log-probability of each token after the first, given those before it.
    ///
    /// # Errors
    /// Ids beyond the vocabulary.
    pub(super) fn logp(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let (first, rest) = ids.split_first().context("a probe has a token")?;
        let row = Sequence { prompt: vec![*first], completion: rest.to_vec() };
        let scores = policy::token_logp(self.policy.decoder(), &[row], 1.0)?;
        Ok(policy::on_host(&scores.logp)?)
    }

    /// Ids that have a token.
    pub(super) fn ids(&self) -> usize {
        self.base.architecture.output_size
    }

    /// Rows of the embedding, some of which may be padding.
    pub(super) fn vocabulary(&self) -> usize {
        self.base.architecture.vocab_size
    }
}
