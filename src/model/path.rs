//! Which of the three ways runs a decoder's layers.

use super::{Decoder, gpu, host};

/// What runs the layers of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Our layers on the CPU.
    Host,
    /// Our kernels on a GPU.
    Gpu,
    /// A graph of Candle's operations.
    Graph,
}

impl Decoder {
    /// What runs its layers.
    pub(crate) fn path(&self) -> Path {
        let (dtype, device) = (self.embedding().dtype(), self.embedding().device());
        if gpu::runs(self.architecture(), dtype, device) {
            Path::Gpu
        } else if host::runs(dtype, device) {
            Path::Host
        } else {
            Path::Graph
        }
    }
}
