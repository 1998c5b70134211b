//! Which backend computes a decoder.

use candle_core::{DType, Device, Result, Tensor, bail};
use tealight_gpu::self_check::{self, DeltaShapes, Shapes};

use super::architecture::Architecture;
use crate::backend::cpu::Cpu;
use crate::backend::gpu::{self, Gpu};
use crate::backend::{AnyBackend, Heads};
use crate::device::is_by_cpu;

/// The backend of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendKind {
    /// Our operations on the CPU, in f32; products of matrices, keys and values in f32 or bf16.
    Cpu,
    /// Our kernels on a GPU, in f32 or bf16. On `Device::Cpu` they run as C, in tests.
    Gpu,
}

impl BackendKind {
    /// The GPU backend on a GPU, or where kernels are emulated; else the CPU backend.
    pub fn for_device(device: &Device) -> Self {
        if is_by_cpu(device) { BackendKind::Cpu } else { BackendKind::Gpu }
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
                if BackendKind::for_device(device) == self {
                    self_check::first_use(device, &shapes(architecture, dtype))?;
                }
                Ok(AnyBackend::Gpu(Gpu { device: device.clone(), workspace: None }))
            }
        }
    }
}

/// The kernels that a model needs.
fn shapes(architecture: &Architecture, dtype: DType) -> Shapes {
    let a = architecture;
    let window = a.layers.iter().find_map(|layer| layer.window());
    Shapes {
        dtype,
        hidden: a.hidden_size,
        inner: a.intermediate_size,
        vocabulary: a.output_size,
        heads: [a.num_heads, a.num_kv_heads, a.head_dim],
        other_heads: Vec::new(),
        pairs: a.rotary_dim / 2,
        window,
        delta: a.delta.map(|d| DeltaShapes {
            heads: [d.key_heads, d.value_heads],
            dims: [d.key_dim, d.value_dim],
            taps: d.kernel,
        }),
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
