//! Low-rank adapters (LoRA, Hu et al., arXiv 2106.09685): `W x + s B A x`, of which only A and B train.
//!
//! The base's weights stay as they are and are shared, so the reference of a run costs no second copy.
//! Scaling is PEFT's: `alpha / r`, or `alpha / sqrt(r)` for rank-stabilised adapters (arXiv 2312.03732).

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, bail};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Architecture;
use super::weights::Weights;
use crate::backend::cpu::product::matrix_product;
use crate::backend::{Backend, GradAccumulator, Parameter};

/// The projections of a layer that can be adapted in one family or another, by the last parts of their names.
pub const LEAVES: [&str; 16] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "qkv_proj",
    "gate_up_proj",
    "input_linear",
    "output_linear",
    "in_proj_qkv",
    "in_proj_z",
    "in_proj_b",
    "in_proj_a",
    "out_proj",
];

/// The scaling of an adapter's matrices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Columns of B, rows of A.
    pub r: usize,
    /// Numerator of the scale.
    pub lora_alpha: f64,
    /// Whether the scale falls with the root of the rank.
    pub use_rslora: bool,
}

impl Scaling {
    /// The factor of B A.
    pub fn scale(&self) -> f64 {
        let rank = self.r as f64;
        self.lora_alpha / if self.use_rslora { rank.sqrt() } else { rank }
    }
}

/// The names of an adapter's two matrices for the projection `module`, such as
/// `model.layers.0.self_attn.q_proj`.
pub fn names(module: &str) -> [String; 2] {
    ["A", "B"].map(|which| format!("{module}.lora_{which}.weight"))
}

/// The adapted projections of a model: names and shapes `[out, in]`.
pub fn modules(architecture: &Architecture, targets: &[String]) -> Vec<(String, [usize; 2])> {
    let is_target = |name: &str| targets.iter().any(|t| name.rsplit('.').next() == Some(t));
    let shapes: BTreeMap<String, Vec<usize>> = architecture.tensors().into_iter().collect();
    let mut matrices = Vec::new();
    for layer in 0..architecture.num_layers {
        for module in architecture.modules(layer).into_iter().filter(|module| is_target(module)) {
            let name = format!("model.layers.{layer}.{module}");
            let shape = &shapes[&format!("{name}.weight")];
            matrices.push((name, [shape[0], shape[1]]));
        }
    }
    matrices
}

/// A fresh adapter: A uniform in `+-1 / sqrt(in)` as PEFT draws it, B zero, so that it changes nothing yet.
pub fn fresh(
    modules: &[(String, [usize; 2])],
    rank: usize,
    seed: u64,
    device: &Device,
) -> Result<Weights> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights = Weights::new();
    for (module, [out, inner]) in modules {
        // Kaiming's bound with a = sqrt(5): sqrt(6 / (1 + 5) / in). With B = 0 only B has a gradient in the first step.
        let bound = 1.0 / (*inner as f64).sqrt();
        let mut uniform = || (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        let a = (0..rank * inner).map(|_| ((2.0 * uniform() - 1.0) * bound) as f32);
        let a = Tensor::from_vec(a.collect::<Vec<f32>>(), (rank, *inner), device)?;
        let b = Tensor::zeros((*out, rank), candle_core::DType::F32, device)?;
        weights.extend(names(module).into_iter().zip([a, b]));
    }
    Ok(weights)
}

/// The adapter of one projection.
#[derive(Debug, Clone)]
pub(super) struct LowRank {
    /// Down-projection `[r, in]`.
    pub(super) a: Parameter,
    /// Up-projection `[out, r]`, zero at first.
    pub(super) b: Parameter,
    scale: f64,
}

impl LowRank {
    pub(super) fn new([a, b]: [Parameter; 2], scaling: &Scaling, module: &str) -> Result<Self> {
        let (rank, _) = a.dims2()?;
        if b.dims2()?.1 != rank {
            bail!("adapter of `{module}`: A is {:?}, B {:?}", a.values.dims(), b.values.dims());
        }
        Ok(Self { a, b, scale: scaling.scale() })
    }

    /// The same adapter with a copy of its matrices that products read fastest.
    pub(super) fn prepacked(&self, pack: impl Fn(&Parameter) -> Result<Parameter>) -> Result<Self> {
        Ok(Self { a: pack(&self.a)?, b: pack(&self.b)?, ..self.clone() })
    }

    /// `s B A` `[out, in]`: what merging adds to the weight.
    pub(super) fn product(&self) -> Result<Tensor> {
        let (a, b) = (&self.a.values, &self.b.values);
        let product = match (b.device(), b.dtype()) {
            (Device::Cpu, DType::F32) => matrix_product(b, a)?,
            _ => b.matmul(a)?,
        };
        product * self.scale
    }

    /// `s A x` `[N, r]`.
    pub(super) fn down<B: Backend>(&self, backend: &B, x: &B::Array) -> Result<B::Array> {
        let mut low = backend.linears(x, &[(&self.a, None)])?.swap_remove(0);
        backend.scale(&mut low, self.scale)?;
        Ok(low)
    }

    /// `s grad B` `[N, r]`: the gradient of `A x`.
    fn low_gradient<B: Backend>(&self, backend: &B, grad: &B::Array) -> Result<B::Array> {
        let mut low = backend.linear_backward(grad, &self.b, None)?;
        backend.scale(&mut low, self.scale)?;
        Ok(low)
    }

    /// Adds the gradients of A and B.
    pub(super) fn weight_backward<B: Backend>(
        &self,
        backend: &B,
        x: &B::Array,
        grad: &B::Array,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        // With y = s B A x: dB = dy^T (s A x), dA = (s dy B)^T x. [N, r] is cheap to compute again.
        let low = self.down(backend, x)?;
        backend.weight_backward(&low, grad, &self.b, None, grads)?;
        let d_low = self.low_gradient(backend, grad)?;
        backend.weight_backward(x, &d_low, &self.a, None, grads)
    }

    /// Adds the gradient of `x` to `dx`.
    pub(super) fn input_backward<B: Backend>(
        &self,
        backend: &B,
        grad: &B::Array,
        dx: B::Array,
    ) -> Result<B::Array> {
        let low = self.low_gradient(backend, grad)?;
        backend.linear_backward(&low, &self.a, Some(dx))
    }
}
