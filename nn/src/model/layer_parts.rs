//! The inputs of all parts of a layer: the pass, and the weights under their names.

use candle_core::Result;

use super::architecture::Architecture;
use super::linear::Linear;
use crate::backend::{Backend, Norm, Parameter};

/// The pass that a layer is part of.
pub(super) struct At<'a, B: Backend> {
    pub(super) backend: &'a B,
    pub(super) pass: &'a B::Pass,
}

impl<B: Backend> Clone for At<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for At<'_, B> {}

/// The weights of a layer, by the names that follow its own.
pub(super) struct Weights<'a> {
    pub(super) architecture: &'a Architecture,
    pub(super) find: &'a mut dyn FnMut(&str) -> Result<Parameter>,
}

impl Weights<'_> {
    pub(super) fn get(&mut self, name: &str) -> Result<Parameter> {
        (self.find)(name)
    }

    pub(super) fn norm(&mut self, name: &str, offset: f64) -> Result<Norm> {
        Ok(Norm { weight: self.get(name)?, eps: self.architecture.rms_norm_eps, offset })
    }

    pub(super) fn linear(&mut self, name: &str) -> Result<Linear> {
        let has_bias = self.architecture.has_bias(name);
        let bias = has_bias.then(|| self.get(&format!("{name}.bias"))).transpose()?;
        Ok(Linear { weight: self.get(&format!("{name}.weight"))?, bias, adapter: None })
    }
}
