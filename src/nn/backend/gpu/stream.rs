//! The residual stream on a GPU.

use candle_core::{Result, Tensor};
use tealight_gpu::counts::made;
use tealight_gpu::kernels::{self, Gain};

/// The stream, and what is still to be added to it: the next norm does both at once.
pub(crate) struct ResidualStream {
    x: Tensor,
    more: Option<Tensor>,
}

impl ResidualStream {
    pub(super) fn new(x: Tensor) -> Self {
        Self { x, more: None }
    }

    /// The norm of all of it.
    pub(super) fn norm(&mut self, gain: Gain<'_>) -> Result<Tensor> {
        let more = self.more.take();
        let (x, normed) = kernels::add_norm(&self.x, more.as_ref(), gain)?;
        self.x = x;
        Ok(normed)
    }

    pub(super) fn whole(&mut self) -> Result<Tensor> {
        if let Some(more) = self.more.take() {
            self.x = made((&self.x + more)?);
        }
        Ok(self.x.clone())
    }

    pub(super) fn add(&mut self, x: Tensor) -> Result<()> {
        match &self.more {
            Some(more) => kernels::add(more, &x)?,
            None => self.more = Some(x),
        }
        Ok(())
    }
}
