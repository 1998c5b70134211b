//! Low-rank adapters (LoRA, Hu et al., arXiv 2106.09685): `W x + s B A x`, of which only A and B train.
//!
//! The base's weights stay as they are and are shared, so the reference of a run costs no second copy.
//! Scaling is PEFT's: `alpha / r`, or `alpha / sqrt(r)` for rank-stabilised adapters (arXiv 2312.03732).
//! Dropout masks are values of (pass, module, element), so that a resumed run draws the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device, Result, Tensor, bail};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tealight_matmul::{Matrix, Output, Packed, Precision, Right, multiply, product};

use super::Architecture;
use super::weights::Weights;
use crate::kernels::cpu::with_values;

/// The projections of a layer that can be adapted, by their names in the Hub's layout.
pub const MODULES: [&str; 7] = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
];

/// What an adapter's matrices mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Columns of B, rows of A.
    pub r: usize,
    /// Numerator of the scale.
    pub lora_alpha: f64,
    /// Whether the scale falls with the root of the rank.
    pub use_rslora: bool,
    /// Share of the values that go into A which training drops.
    pub lora_dropout: f64,
}

impl Scaling {
    /// What B A is multiplied by.
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
    let mut found = Vec::new();
    for layer in 0..architecture.num_layers {
        for module in MODULES.iter().filter(|module| is_target(module)) {
            let name = format!("model.layers.{layer}.{module}");
            let shape = &shapes[&format!("{name}.weight")];
            found.push((name, [shape[0], shape[1]]));
        }
    }
    found
}

/// A fresh adapter: A uniform in `+-1 / sqrt(in)` as PEFT draws it, B zero, so that it changes nothing yet.
///
/// # Errors
/// No memory.
pub fn fresh(
    modules: &[(String, [usize; 2])],
    rank: usize,
    seed: u64,
    device: &Device,
) -> Result<Weights> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights = Weights::new();
    for (module, [out, inner]) in modules {
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
    /// `[r, in]`.
    pub(super) a: Tensor,
    /// `[out, r]`.
    pub(super) b: Tensor,
    scale: f64,
    dropout: f64,
    /// Keys the dropout of this projection apart from the others'.
    key: u64,
    ready: Option<Arc<[Packed; 2]>>,
}

impl LowRank {
    pub(super) fn new(a: Tensor, b: Tensor, scaling: &Scaling, module: &str) -> Result<Self> {
        let (rank, _) = a.dims2()?;
        if b.dims2()?.1 != rank {
            bail!("adapter of `{module}`: A is {:?}, B {:?}", a.dims(), b.dims());
        }
        let (scale, dropout) = (scaling.scale(), scaling.lora_dropout);
        let key = mixed(u64::from(crc32fast::hash(module.as_bytes())));
        Ok(Self { a, b, scale, dropout, key, ready: None })
    }

    /// The same, packed for many products.
    pub(super) fn ready(&self) -> Result<Self> {
        let packed = |x: &Tensor| {
            crate::kernels::product::packed(&x.detach(), Precision::F32, |count| vec![0; count])
        };
        let ready = Some(Arc::new([packed(&self.a)?, packed(&self.b)?]));
        Ok(Self { ready, ..self.clone() })
    }

    /// `s B A` `[out, in]`: what merging adds to the weight.
    pub(super) fn product(&self) -> Result<Tensor> {
        self.b.detach().matmul(&self.a.detach())? * self.scale
    }

    /// As a graph: `s B A x` of `x` `[n, in]`, whose gradient Candle finds; dropout is for our own layers.
    pub(super) fn graph(&self, x: &Tensor) -> Result<Tensor> {
        if self.dropout > 0.0 && self.a.track_op() {
            bail!("lora-dropout above 0 needs float32 or bfloat16: set it to 0");
        }
        x.matmul(&self.a.t()?)?.matmul(&self.b.t()?)? * self.scale
    }

    /// A and B, constant, in the type of `x`.
    fn like(&self, x: &Tensor) -> Result<[Tensor; 2]> {
        Ok([self.a.detach().to_dtype(x.dtype())?, self.b.detach().to_dtype(x.dtype())?])
    }

    /// `s B A x` of `x` `[n, in]` on a GPU, without a graph.
    pub(super) fn on_gpu(&self, x: &Tensor, pass: Option<u64>) -> Result<Tensor> {
        let [a, b] = self.like(x)?;
        (self.dropped_on_gpu(x, pass)?.matmul(&a.t()?)? * self.scale)?.matmul(&b.t()?)
    }

    /// The gradients of `x` `[n, in]` and of A and B for that of [`LowRank::on_gpu`]'s result.
    pub(super) fn back_on_gpu(
        &self,
        x: &Tensor,
        grad: &Tensor,
        pass: Option<u64>,
    ) -> Result<(Tensor, [Tensor; 2])> {
        let [a, b] = self.like(x)?;
        let x = self.dropped_on_gpu(x, pass)?;
        let inner = (x.matmul(&a.t()?)? * self.scale)?;
        let d_inner = (grad.matmul(&b)? * self.scale)?;
        let own = [d_inner.t()?.matmul(&x)?, grad.t()?.matmul(&inner)?];
        Ok((self.dropped_on_gpu(&d_inner.matmul(&a)?, pass)?, own))
    }

    /// The same as [`LowRank::dropped`], on a GPU.
    fn dropped_on_gpu(&self, x: &Tensor, pass: Option<u64>) -> Result<Tensor> {
        let Some(key) = self.drop_key(pass) else { return Ok(x.clone()) };
        let (limit, kept) = self.odds();
        tealight_gpu::kernels::drop_values(&x.contiguous()?, key, limit, kept)
    }

    /// `x` with dropped values zero and the others scaled up, where pass `key` drops any.
    fn dropped<'a>(&self, x: &'a [f32], key: Option<u64>) -> Cow<'a, [f32]> {
        match self.mask(key) {
            None => Cow::Borrowed(x),
            Some(mask) => x.iter().enumerate().map(|(i, x)| x * mask(i)).collect(),
        }
    }

    /// What keys the elements of this projection in pass `pass`, where that drops any. Pass and projection are
    /// hashed together first: passes are numbered in a row, and keys in a row would shift one mask.
    fn drop_key(&self, pass: Option<u64>) -> Option<u64> {
        pass.filter(|_| self.dropout > 0.0).map(|pass| mixed(pass ^ self.key))
    }

    /// Hashes of 32 bits below which a value is dropped, and what the others are multiplied by.
    fn odds(&self) -> (u32, f32) {
        ((self.dropout * 4_294_967_296.0) as u32, (1.0 / (1.0 - self.dropout)) as f32)
    }

    /// What element `i` of the input is multiplied by in pass `key`.
    fn mask(&self, key: Option<u64>) -> Option<impl Fn(usize) -> f32> {
        let key = self.drop_key(key)?;
        let (limit, kept) = self.odds();
        Some(
            move |i: usize| {
                if mixed(key.wrapping_add(i as u64)) >> 32 < u64::from(limit) { 0.0 } else { kept }
            },
        )
    }

    /// `s A x` `[n, r]`.
    fn inner(&self, x: &[f32]) -> Result<Vec<f32>> {
        let (rank, inner) = self.a.dims2()?;
        let left = Matrix::new(x, x.len() / inner, inner);
        let mut low = match &self.ready {
            Some(ready) => product(left, Right::Packed(&ready[0])),
            None => with_values(&self.a, |a| {
                let a = Matrix::new(a, rank, inner).transposed();
                Ok(product(left, Right::Plain(a, Precision::F32)))
            })?,
        };
        low.iter_mut().for_each(|x| *x *= self.scale as f32);
        Ok(low)
    }

    /// Adds `s B A x` to rows of `out`, `stride` apart; `x` is `[n, in]`.
    pub(super) fn add(
        &self,
        x: &[f32],
        out: &mut [f32],
        stride: usize,
        pass: Option<u64>,
        parallel: bool,
    ) -> Result<()> {
        let (width, rank) = self.b.dims2()?;
        let low = self.inner(&self.dropped(x, pass))?;
        let left = Matrix::new(&low, low.len() / rank, rank);
        let out = Output { data: out, stride, adds: true };
        match &self.ready {
            Some(ready) => multiply(left, Right::Packed(&ready[1]), out, parallel),
            None => with_values(&self.b, |b| {
                let b = Matrix::new(b, width, rank).transposed();
                multiply(left, Right::Plain(b, Precision::F32), out, parallel);
                Ok(())
            })?,
        }
        Ok(())
    }

    /// `s grad B` `[n, r]`: the gradient of `A x`.
    fn low_gradient(&self, grad: &[f32], stride: usize, rows: usize) -> Result<Vec<f32>> {
        let (width, rank) = self.b.dims2()?;
        let left = Matrix::strided(grad, rows, width, stride);
        let mut low = with_values(&self.b, |b| {
            let right = Right::Plain(Matrix::new(b, width, rank), Precision::F32);
            Ok(product(left, right))
        })?;
        low.iter_mut().for_each(|x| *x *= self.scale as f32);
        Ok(low)
    }

    /// Adds the gradients of A `[r, in]` and B `[out, r]`.
    pub(super) fn add_gradients(
        &self,
        x: &[f32],
        (grad, stride): (&[f32], usize),
        pass: Option<u64>,
        [d_a, d_b]: [&mut [f32]; 2],
    ) -> Result<()> {
        let ((rank, inner), (width, _)) = (self.a.dims2()?, self.b.dims2()?);
        let rows = x.len() / inner;
        let x = self.dropped(x, pass);
        let low = self.inner(&x)?;
        let grad_rows = Matrix::strided(grad, rows, width, stride).transposed();
        let right = Right::Plain(Matrix::new(&low, rows, rank), Precision::F32);
        multiply(grad_rows, right, Output { data: d_b, stride: rank, adds: true }, true);
        let low = self.low_gradient(grad, stride, rows)?;
        let left = Matrix::new(&low, rows, rank).transposed();
        let right = Right::Plain(Matrix::new(&x, rows, inner), Precision::F32);
        multiply(left, right, Output { data: d_a, stride: inner, adds: true }, true);
        Ok(())
    }

    /// Adds the gradient `[n, in]` of the input.
    pub(super) fn add_input_gradient(
        &self,
        (grad, stride): (&[f32], usize),
        pass: Option<u64>,
        dx: &mut [f32],
    ) -> Result<()> {
        let (rank, inner) = self.a.dims2()?;
        let rows = dx.len() / inner;
        let low = self.low_gradient(grad, stride, rows)?;
        let left = Matrix::new(&low, rows, rank);
        with_values(&self.a, |a| {
            let right = Right::Plain(Matrix::new(a, rank, inner), Precision::F32);
            match self.mask(pass) {
                None => multiply(left, right, Output { data: dx, stride: inner, adds: true }, true),
                Some(mask) => {
                    let own = product(left, right);
                    dx.iter_mut()
                        .zip(own)
                        .enumerate()
                        .for_each(|(i, (dx, own))| *dx += own * mask(i));
                }
            }
            Ok(())
        })
    }
}

/// A well-mixed number for each `x` (the finaliser of SplitMix64).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_neighbouring_passes_and_of_modules_are_independent() {
        let scaling = Scaling { r: 1, lora_alpha: 1.0, use_rslora: false, lora_dropout: 0.5 };
        let zeros = |shape: (usize, usize)| {
            Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu).unwrap()
        };
        let of = |name: &str| LowRank::new(zeros((1, 8)), zeros((8, 1)), &scaling, name).unwrap();
        let count = 4096;
        let mask = |low: &LowRank, pass: u64| -> Vec<bool> {
            let mask = low.mask(Some(pass)).unwrap();
            (0..count).map(|i| mask(i) == 0.0).collect()
        };
        let agree = |a: &[bool], b: &[bool]| {
            a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / a.len().min(b.len()) as f64
        };
        let (q, v) = (of("q_proj"), of("v_proj"));
        let first = mask(&q, 7);
        // Not each other, nor each other shifted by a few elements.
        for other in [mask(&q, 8), mask(&q, 6), mask(&v, 7)] {
            for shift in 0..4 {
                assert!((agree(&first[shift..], &other) - 0.5).abs() < 0.05, "shift {shift}");
                assert!((agree(&first, &other[shift..]) - 0.5).abs() < 0.05, "shift {shift}");
            }
        }
        assert_eq!(first, mask(&q, 7));
    }
}
