//! Which backend computes a decoder.

use candle_core::{DType, Device, Result, Tensor, bail};

use super::architecture::Architecture;
use crate::backend::cpu::Cpu;
use crate::backend::gpu::{self, Gpu};
use crate::backend::{AnyBackend, Heads};

/// What computes a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendKind {
    /// Our operations on the CPU, in f32.
    Cpu,
    /// Our kernels on a GPU, in f32 or bf16. On `Device::Cpu` they run as C where the feature `emulated-gpu` is on.
    Gpu,
}

impl BackendKind {
    /// That of a device.
    pub fn of(device: &Device) -> Self {
        if device.is_cpu() { BackendKind::Cpu } else { BackendKind::Gpu }
    }

    pub(super) fn open(self, architecture: &Architecture, like: &Tensor) -> Result<AnyBackend> {
        let (dtype, device) = (like.dtype(), like.device());
        match self {
            BackendKind::Cpu if device.is_cpu() && dtype == DType::F32 => {
                Ok(AnyBackend::Cpu(Cpu::default()))
            }
            BackendKind::Cpu => bail!("a decoder on the CPU is of float32, not {dtype:?}"),
            BackendKind::Gpu => {
                gpu::check(heads(architecture), architecture.delta, dtype, device)?;
                Ok(AnyBackend::Gpu(Gpu { device: device.clone() }))
            }
        }
    }
}

/// The heads of a model's attention.
pub(super) fn heads(architecture: &Architecture) -> Heads {
    Heads {
        queries: architecture.num_heads,
        keys: architecture.num_kv_heads,
        dim: architecture.head_dim,
        rotary_dim: architecture.rotary_dim,
        scale: architecture.attention_scale as f32,
    }
}
