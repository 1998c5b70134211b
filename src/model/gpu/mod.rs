//! The decoder's layers on a GPU in f32 or bf16, written out with our kernels: no graph, and what is computed of a
//! token by them does not depend on its batch. Candle's products, which are the device's own, may.
//!
//! It is the twin of `host`: the same passes over the same [`Spans`], with tensors in the place of slices. The
//! gradients of weights are summed in f32.

mod backward;
mod forward;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use candle_core::{DType, Device, Result, Shape, Tensor, bail};
use tealight_gpu::kernels::{self, Heads, Run, Runs};

use super::spans::Span;
use super::{Architecture, Decoder, KvCache, Spans, check_tokens};
use crate::kernels::given::given;
use forward::Kept;

/// Gradients by the names of weights, f32 on the device, summed over backward passes.
pub(super) type Sums = BTreeMap<String, Tensor>;

/// Whether kernels run a decoder like this.
pub(super) fn runs(architecture: &Architecture, dtype: DType, device: &Device) -> bool {
    matches!(dtype, DType::F32 | DType::BF16)
        && tealight_gpu::runs_on(device)
        && heads(architecture).are_known()
}

fn heads(architecture: &Architecture) -> Heads {
    Heads {
        queries: architecture.num_heads,
        keys: architecture.num_kv_heads,
        dim: architecture.head_dim,
    }
}

/// The tokens of one pass, on the device.
struct Pass {
    runs: Runs,
    /// `[N, D / 2]`.
    cos: Tensor,
    sin: Tensor,
    /// Keys what adapters drop, in training.
    dropout: Option<u64>,
    /// The rows of the cache that the tokens' keys and values go to.
    places: Option<Tensor>,
}

impl Pass {
    fn new(decoder: &Decoder, spans: &Spans, slots: Option<usize>) -> Result<Self> {
        let device = decoder.embedding.device();
        let angles = decoder.rope.angles(spans, device)?;
        let (runs, places) = match slots {
            None => (runs_of(spans), None),
            Some(slots) => {
                if spans.longest() > slots {
                    bail!("{} tokens do not fit a cache of {slots} slots", spans.longest());
                }
                let rows = spans.all().iter().enumerate();
                let places: Vec<u32> = rows
                    .flat_map(|(row, span)| {
                        (span.past..span.past + span.tokens)
                            .map(move |slot| (row * slots + slot) as u32)
                    })
                    .collect();
                let count = places.len();
                (runs_in_cache(spans, slots), Some(Tensor::from_vec(places, count, device)?))
            }
        };
        let runs = Runs::new(&runs, heads(&decoder.architecture), device)?;
        Ok(Self { runs, cos: angles.cos, sin: angles.sin, dropout: None, places })
    }
}

/// What tokens see of the cache's rows of keys.
fn runs_in_cache(spans: &Spans, slots: usize) -> Vec<Run> {
    let run = |(row, span): (usize, &Span)| Run {
        first: spans.range(row).start,
        tokens: span.tokens,
        sees: span.past + 1,
        start: row * slots,
        split: slots,
        rest: 0,
        until: spans.range(row).end,
    };
    spans.all().iter().enumerate().map(run).collect()
}

/// What tokens see of each other.
fn runs_of(spans: &Spans) -> Vec<Run> {
    let run = |(index, span): (usize, &Span)| {
        let own = spans.range(index);
        // Branches follow their trunk.
        let branches =
            spans.all()[index + 1..].iter().take_while(|span| span.parent == Some(index));
        let trunk = span.parent.map_or(own.clone(), |parent| spans.range(parent));
        Run {
            first: own.start,
            tokens: span.tokens,
            sees: span.past + 1,
            start: trunk.start,
            split: trunk.len(),
            rest: own.start,
            until: spans.range(index + branches.count()).end,
        }
    };
    spans.all().iter().enumerate().map(run).collect()
}

/// Hidden states `[N, D]`, after the last norm, without a gradient.
pub(super) fn hidden(
    decoder: &Decoder,
    ids: &Tensor,
    spans: &Spans,
    cache: Option<&KvCache>,
) -> Result<Tensor> {
    let pass = Pass::new(decoder, spans, cache.map(KvCache::slots))?;
    let (_, mut x) = embedded(decoder, ids)?;
    let mut more = None;
    for (index, layer) in decoder.layers.iter().enumerate() {
        let cache = cache.map(|cache| cache.layer(index)).transpose()?;
        let (stream, out, _) = layer.on_gpu(decoder, &pass, &x, more.as_ref(), cache)?;
        (x, more) = (stream, Some(out));
    }
    let eps = decoder.architecture.rms_norm_eps;
    Ok(kernels::add_norm(&x, more.as_ref(), &decoder.norm, eps)?.1)
}

/// The same, without a cache, as an operation whose backward pass adds to the decoder's sums.
pub(super) fn with_grad(decoder: &Decoder, ids: &Tensor, spans: &Spans) -> Result<Tensor> {
    let key = decoder.shared.passes.fetch_add(1, Ordering::Relaxed);
    let pass = Pass { dropout: Some(key), ..Pass::new(decoder, spans, None)? };
    let (ids, mut x) = embedded(decoder, ids)?;
    let (mut more, mut kept) = (None, Vec::new());
    for layer in &decoder.layers {
        let (stream, out, own) = layer.on_gpu(decoder, &pass, &x, more.as_ref(), None)?;
        (x, more) = (stream, Some(out));
        kept.push(match decoder.recomputes {
            true => Kept { rest: None, ..own },
            false => own,
        });
    }
    let eps = decoder.architecture.rms_norm_eps;
    let (last, normed) = kernels::add_norm(&x, more.as_ref(), &decoder.norm, eps)?;
    let decoder = decoder.clone();
    let trained = decoder.trained().unwrap_or(&decoder.embedding).clone();
    let kept = Mutex::new(Some((kept, last)));
    given(normed, [&trained, &trained], move |grad| {
        let kept = kept.lock().expect("no panic while the lock is held").take();
        let Some(kept) = kept else { bail!("a second backward pass through one forward pass") };
        let mut sums = decoder.shared.on_device.lock().expect("no panic while the lock is held");
        backward::body(&decoder, &pass, &ids, kept, grad, &mut sums)?;
        // They are where the decoder's gradients are.
        Ok([None, None])
    })
}

/// The tokens on the host, and the rows of the embedding for them.
fn embedded(decoder: &Decoder, ids: &Tensor) -> Result<(Vec<u32>, Tensor)> {
    let numbers: Vec<u32> = ids.to_vec1()?;
    check_tokens(&numbers, decoder.embedding.dim(0)?)?;
    Ok((numbers, decoder.embedding.detach().index_select(ids, 0)?))
}

/// Rows `places` of `x` `[N, D]`, which may name one several times.
pub(super) fn rows(x: &Tensor, places: Vec<u32>) -> Result<Tensor> {
    let count = places.len();
    let found = x.detach().index_select(&Tensor::from_slice(&places, count, x.device())?, 0)?;
    let (shape, dtype) = (x.shape().clone(), x.dtype());
    given(found, [x, x], move |grad| {
        let sums = Tensor::zeros(&shape, DType::F32, grad.device())?;
        kernels::embedding_back(grad, &places, &sums)?;
        Ok([Some(sums.to_dtype(dtype)?), None])
    })
}

/// The sum for `name`; zeros at first.
pub(super) fn sum_of(
    sums: &mut Sums,
    name: &str,
    shape: impl Into<Shape>,
    device: &Device,
) -> Result<Tensor> {
    if let Some(sum) = sums.get(name) {
        return Ok(sum.clone());
    }
    let sum = Tensor::zeros(shape, DType::F32, device)?;
    sums.insert(name.to_owned(), sum.clone());
    Ok(sum)
}
