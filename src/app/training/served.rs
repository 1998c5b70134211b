//! The policy of a run, as servers that sample for it receive it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::solvers::remote::{Probe, TrainedModel};
use tealight_formats::adapter::Adapter;
use tealight_formats::pretrained::Pretrained;
use tealight_nn::policy::{self, Policy, Sequence};

/// A policy, with what its files need besides.
pub(super) struct ServedPolicy<'a> {
    pub(super) base: &'a Pretrained,
    pub(super) policy: &'a Policy,
    pub(super) adapter: Option<&'a Adapter>,
}

impl TrainedModel for ServedPolicy<'_> {
    fn write(&self, folder: &Path, exchanged: Option<&Probe>) -> Result<()> {
        let mut tensors = self.policy.tensors();
        if let Some(probe) = exchanged {
            tensors = probe.exchange(&tensors)?;
        }
        self.base.save_trained(self.adapter, &tensors, folder)
    }

    fn logp(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let (first, rest) = ids.split_first().context("a probe has a token")?;
        let row = Sequence { prompt: vec![*first], completion: rest.to_vec() };
        let scores = policy::token_logp(self.policy.decoder(), &[row], 1.0)?;
        Ok(policy::on_host(&scores.logp)?)
    }

    fn ids(&self) -> usize {
        self.base.architecture.output_size
    }

    fn vocabulary(&self) -> usize {
        self.base.architecture.vocab_size
    }
}
