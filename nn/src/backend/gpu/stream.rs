//! The residual stream on a GPU.

use candle_core::Result;
use tealight_gpu::kernels::{self, Gain};
use tealight_gpu::workspace::{Array, Operand};

use super::Gpu;
use crate::backend::Parameter;

/// The stream, and what is still to be added to it: the next norm does both at once.
pub(crate) struct ResidualStream {
    x: Array,
    more: Option<Array>,
}

impl Gpu {
    /// The rows `ids` of the embedding, times `scale`, of ids on the device: each must be a row of it.
    pub(crate) fn embed_on_device(
        &self,
        table: &Parameter,
        ids: &Array,
        scale: f64,
    ) -> Result<ResidualStream> {
        let x = kernels::pick_rows(&table.values, ids, scale, self.destination())?;
        Ok(ResidualStream::new(x))
    }
}

impl ResidualStream {
    pub(super) fn new(x: Array) -> Self {
        Self { x, more: None }
    }

    /// Root-mean-square norm of the stream, pending additions included.
    pub(super) fn norm(&mut self, gain: Gain<'_>) -> Result<Array> {
        let more = self.more.take();
        let more = more.as_ref().map(|more| more as &dyn Operand);
        let (sum, normed) = kernels::add_norm(&self.x, more, gain)?;
        if let Some(sum) = sum {
            self.x = sum;
        }
        Ok(normed)
    }

    pub(super) fn whole(&mut self) -> Result<Array> {
        if let Some(more) = self.more.take() {
            // What is still to be added is the stream's alone; `x` may be held outside.
            kernels::add(&more, &self.x)?;
            self.x = more;
        }
        Ok(self.x.clone())
    }

    pub(super) fn add(&mut self, x: Array) -> Result<()> {
        match &self.more {
            Some(more) => kernels::add(more, &x)?,
            None => self.more = Some(x),
        }
        Ok(())
    }
}
