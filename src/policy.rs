//! The model being trained: its weights once, its decoder twice, and token log-probabilities.
//!
//! `tracked` builds a graph for the backward pass; `frozen` shares the same storage without one, so
//! what samples and what trains are the same numbers, and the sampler sees the newest step.
//!
//! Letters: B sequences, T completion tokens of the longest, N completion tokens of all, V
//! vocabulary, D hidden size.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, D, DType, Layout, MetalStorage, Result, Shape, Storage,
    Tensor, Var, bail,
};

use crate::kernels::cpu::logp::{LogpEntropy, LogpGradient};
use crate::model::weights::Weights;
use crate::model::{Architecture, Decoder, Spans};

/// Most logits that exist at once, in values: 64 MiB in f32.
const CHUNK_VALUES: usize = 16 << 20;

/// Trainable weights and the two decoders over them.
pub struct Policy {
    weights: BTreeMap<String, Var>,
    tracked: Decoder,
    frozen: Decoder,
}

impl Policy {
    /// A policy that starts at a copy of `weights`.
    ///
    /// # Errors
    /// Missing weights, no memory.
    pub fn new(architecture: &Architecture, weights: &Weights) -> Result<Self> {
        let weights: BTreeMap<String, Var> = weights
            .iter()
            .map(|(name, tensor)| Ok((name.clone(), Var::from_tensor(&tensor.copy()?)?)))
            .collect::<Result<_>>()?;
        let tracked = Decoder::new(architecture, |name| Ok(weights[name].as_tensor().clone()))?;
        let frozen = Decoder::new(architecture, |name| Ok(weights[name].as_detached_tensor()))?;
        Ok(Self { weights, tracked, frozen })
    }

    /// The weights by name; an optimizer writes them in place.
    pub fn weights(&self) -> &BTreeMap<String, Var> {
        &self.weights
    }

    /// The weights as tensors, to be saved.
    pub fn tensors(&self) -> Weights {
        self.weights.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect()
    }

    /// The decoder whose results have a gradient.
    pub fn tracked(&self) -> &Decoder {
        &self.tracked
    }

    /// The decoder for sampling and for constants.
    pub fn frozen(&self) -> &Decoder {
        &self.frozen
    }
}

/// A decoder over constant weights: a reference, or a model that is only evaluated.
///
/// # Errors
/// Missing weights.
pub fn frozen_decoder(architecture: &Architecture, weights: &Weights) -> Result<Decoder> {
    Decoder::new(architecture, |name| Ok(weights[name].clone()))
}

/// A prompt and what followed it, as token ids.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Sequence {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// The completion, end-of-sequence token included where there is one.
    pub completion: Vec<u32>,
}

/// What the model says of each completion token; zero where a row has ended.
pub struct TokenLogp {
    /// Natural log-probability `[B, T]`, at the temperature asked for.
    pub logp: Tensor,
    /// Entropy `[B, T]` in nats of the distribution it was drawn from; a constant to autograd.
    pub entropy: Tensor,
}

/// Log-probability of every completion token given those before it.
///
/// Sequences are padded on the right; masking is by position, so an end-of-sequence token counts
/// even where it is also the padding token.
///
/// # Errors
/// No sequence, an empty prompt, ids beyond the vocabulary, no memory.
pub fn token_logp(decoder: &Decoder, rows: &[Sequence], temperature: f64) -> Result<TokenLogp> {
    let longest = rows.iter().map(|row| row.prompt.len() + row.completion.len()).max();
    let Some(longest) = longest.filter(|_| rows.iter().all(|row| !row.prompt.is_empty())) else {
        bail!("log-probabilities need at least one sequence with a prompt");
    };
    // The last token predicts nothing that is asked for, so the model never sees it.
    let width = (longest - 1).max(1);
    let device = decoder.embedding().device();
    let mut ids = vec![0u32; rows.len() * width];
    let (mut places, mut targets) = (Vec::new(), Vec::<u32>::new());
    for (index, row) in rows.iter().enumerate() {
        let tokens = row.prompt.iter().chain(&row.completion);
        for (slot, token) in ids[index * width..(index + 1) * width].iter_mut().zip(tokens) {
            *slot = *token;
        }
        let first = index * width + row.prompt.len() - 1;
        places.extend((0..row.completion.len()).map(|t| (first + t) as u32));
        targets.extend(&row.completion);
    }
    let ids = Tensor::from_vec(ids, (rows.len(), width), device)?;
    let hidden = decoder.hidden(&ids, &Arc::new(Spans::from_start(rows.len())), None)?;
    let count = targets.len();
    let hidden =
        hidden.flatten_to(1)?.index_select(&Tensor::from_vec(places, count, device)?, 0)?;
    let targets = Tensor::from_vec(targets, count, device)?;
    let (logp, entropy) = linear_logp(&hidden, decoder.head(), &targets, temperature)?;
    Ok(TokenLogp { logp: unflatten(&logp, rows)?, entropy: unflatten(&entropy, rows)? })
}

/// Spreads values `[N]` of all completion tokens over `[B, T]`, zero where a row has ended.
fn unflatten(flat: &Tensor, rows: &[Sequence]) -> Result<Tensor> {
    let count = flat.dim(0)? as u32;
    let width = rows.iter().map(|row| row.completion.len()).max().unwrap_or(0);
    let mut places = vec![count; rows.len() * width];
    let mut next = 0;
    for (row, places) in rows.iter().zip(places.chunks_mut(width.max(1))) {
        for place in &mut places[..row.completion.len()] {
            *place = next;
            next += 1;
        }
    }
    let padded = Tensor::cat(&[flat, &flat.zeros_like()?.narrow(0, 0, 1)?], 0)?;
    let places = Tensor::from_vec(places, rows.len() * width, flat.device())?;
    padded.index_select(&places, 0)?.reshape((rows.len(), width))
}

/// Log-probability `[N]` of `targets` `[N]` and entropy `[N]` under `softmax(hidden weight^T /
/// temperature)`, without ever holding the logits `[N, V]`: they are computed in chunks, and again
/// in the backward pass.
fn linear_logp(
    hidden: &Tensor,
    weight: &Tensor,
    targets: &Tensor,
    temperature: f64,
) -> Result<(Tensor, Tensor)> {
    let (constant, constant_weight) = (hidden.detach(), weight.detach());
    let mut parts = Vec::new();
    for (start, length) in chunks(hidden.dim(0)?, weight.dim(0)?) {
        let logits = constant.narrow(0, start, length)?.matmul(&constant_weight.t()?)?;
        parts.push(logp_entropy(&logits, &targets.narrow(0, start, length)?, temperature)?);
    }
    let both = Tensor::cat(&parts, 0)?;
    let (logp, entropy) = (both.narrow(1, 0, 1)?.squeeze(1)?, both.narrow(1, 1, 1)?.squeeze(1)?);
    let (logp, entropy) = (logp.contiguous()?, entropy.contiguous()?);
    if hidden.track_op() || weight.track_op() {
        let op = LinearLogp { result: logp, temperature };
        return Ok((hidden.apply_op3(weight, targets, op)?, entropy));
    }
    Ok((logp, entropy))
}

/// `(start, length)` of the chunks that `rows` rows of `width` logits are computed in.
fn chunks(rows: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    let length = (CHUNK_VALUES / width).max(1);
    (0..rows).step_by(length).map(move |start| (start, length.min(rows - start)))
}

/// `[N, 2]`: log-probability of the targets and entropy, f32.
fn logp_entropy(logits: &Tensor, targets: &Tensor, temperature: f64) -> Result<Tensor> {
    let logits = logits.to_dtype(DType::F32)?;
    if logits.device().is_cpu() {
        let kernel = LogpEntropy { temperature: temperature as f32 };
        return logits.apply_op2_no_bwd(targets, &kernel);
    }
    let all = candle_nn::ops::log_softmax(&(logits / temperature)?, D::Minus1)?;
    let logp = all.gather(&targets.unsqueeze(1)?, 1)?;
    let entropy = (all.exp()? * all)?.sum_keepdim(1)?.neg()?;
    Tensor::cat(&[logp, entropy], 1)
}

/// `[N, V]`: the gradient of the logits for the gradient `[N]` of the log-probabilities.
fn logp_gradient(
    logits: &Tensor,
    targets: &Tensor,
    grad: &Tensor,
    temperature: f64,
) -> Result<Tensor> {
    let wide = logits.to_dtype(DType::F32)?;
    let out = if wide.device().is_cpu() {
        let kernel = LogpGradient { temperature: temperature as f32 };
        wide.apply_op3_no_bwd(targets, grad, &kernel)?
    } else {
        let scaled = (grad.unsqueeze(1)? / temperature)?;
        let spread = candle_nn::ops::softmax(&(wide / temperature)?, D::Minus1)?;
        let spread = spread.broadcast_mul(&scaled.neg()?)?;
        spread.scatter_add(&targets.unsqueeze(1)?, &scaled, 1)?
    };
    out.to_dtype(logits.dtype())
}

/// Gives the log-probabilities, computed beforehand, their gradient with respect to the hidden
/// states `[N, D]` and the weight `[V, D]`.
struct LinearLogp {
    result: Tensor,
    temperature: f64,
}

impl LinearLogp {
    fn storage<S>(&self, pick: impl FnOnce(&Storage, &Layout) -> Result<S>) -> Result<(S, Shape)> {
        let (storage, layout) = self.result.storage_and_layout();
        Ok((pick(&storage, layout)?, self.result.shape().clone()))
    }
}

impl CustomOp3 for LinearLogp {
    fn name(&self) -> &'static str {
        "linear-logp"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.storage(|storage, _| match storage {
            Storage::Cpu(storage) => Ok(storage.clone()),
            _ => bail!("log-probabilities are not on the CPU"),
        })
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Cuda(storage) => Ok(storage),
            _ => bail!("log-probabilities are not on the CUDA device"),
        })
    }

    fn metal_fwd(
        &self,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Metal(storage) => Ok(storage),
            _ => bail!("log-probabilities are not on the Metal device"),
        })
    }

    fn bwd(
        &self,
        hidden: &Tensor,
        weight: &Tensor,
        targets: &Tensor,
        _logp: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (hidden, weight) = (hidden.detach(), weight.detach());
        let grad = grad.contiguous()?;
        let mut d_hidden = Vec::new();
        let mut d_weight: Option<Tensor> = None;
        for (start, length) in chunks(hidden.dim(0)?, weight.dim(0)?) {
            let part = hidden.narrow(0, start, length)?;
            let targets = targets.narrow(0, start, length)?;
            let logits = part.matmul(&weight.t()?)?;
            let grad = grad.narrow(0, start, length)?;
            let d_logits = logp_gradient(&logits, &targets, &grad, self.temperature)?;
            d_hidden.push(d_logits.matmul(&weight)?);
            let share = d_logits.t()?.matmul(&part)?;
            d_weight = Some(match d_weight {
                None => share,
                Some(sum) => (sum + share)?,
            });
        }
        Ok((Some(Tensor::cat(&d_hidden, 0)?), d_weight, None))
    }
}
