//! The model being trained: its weights once, its decoder twice, and token log-probabilities.
//!
//! `with_grad` builds a graph for the backward pass; `frozen` shares the same storage without one, so
//! what samples and what trains are the same numbers, and the sampler sees the newest step.
//!
//! Letters: B sequences, T completion tokens of the longest, N completion tokens of all, V
//! vocabulary, D hidden size.

mod gradients;
mod logp;
mod vocabulary;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Result, Tensor, Var, bail};

use crate::model::lora::{self, Scaling};
use crate::model::weights::Weights;
use crate::model::{Architecture, Decoder, Path, Spans};

pub(crate) use gradients::Gradient;
pub use gradients::Gradients;
pub use vocabulary::{Chunk, vocabulary_sum, vocabulary_values};

/// Trainable weights and the two decoders over them.
pub struct Policy {
    weights: BTreeMap<String, Var>,
    /// In bf16 what the decoders are made of, rounded from the weights, which are always f32.
    rounded: BTreeMap<String, Var>,
    with_grad: Decoder,
    frozen: Decoder,
    /// What Candle's graph knows of the gradients so far; the decoder has the rest.
    gradients: Mutex<BTreeMap<String, Tensor>>,
}

impl Policy {
    /// A policy that starts at a copy of `weights`.
    ///
    /// # Errors
    /// Missing weights, no memory.
    pub fn new(architecture: &Architecture, weights: &Weights) -> Result<Self> {
        let vars = |dtype: Option<DType>| -> Result<BTreeMap<String, Var>> {
            let var = |tensor: &Tensor| match dtype {
                Some(dtype) if dtype != tensor.dtype() => {
                    Var::from_tensor(&tensor.to_dtype(dtype)?)
                }
                _ => Var::from_tensor(&tensor.copy()?),
            };
            weights.iter().map(|(name, tensor)| Ok((name.clone(), var(tensor)?))).collect()
        };
        let is_half = weights.values().any(|tensor| tensor.dtype() == DType::BF16);
        let (weights, rounded) = match is_half {
            true => (vars(Some(DType::F32))?, vars(Some(DType::BF16))?),
            false => (vars(None)?, BTreeMap::new()),
        };
        let var = |name: &str| rounded.get(name).unwrap_or(&weights[name]);
        let with_grad = Decoder::new(architecture, |name| Ok(var(name).as_tensor().clone()))?;
        let frozen = Decoder::new(architecture, |name| Ok(var(name).as_detached_tensor()))?;
        let frozen = frozen.beside(&with_grad);
        Ok(Self { weights, rounded, with_grad, frozen, gradients: Mutex::default() })
    }

    /// A policy that trains an adapter on constant `weights`, which it shares with whoever else has them.
    ///
    /// # Errors
    /// Missing weights, matrices that do not fit, no memory.
    pub fn adapting(
        architecture: &Architecture,
        weights: &Weights,
        scaling: &Scaling,
        adapter: &Weights,
    ) -> Result<Self> {
        let own: BTreeMap<String, Var> = adapter
            .iter()
            .map(|(name, tensor)| Ok((name.clone(), Var::from_tensor(&tensor.copy()?)?)))
            .collect::<Result<_>>()?;
        let adapted = |tensor: fn(&Var) -> Tensor| {
            frozen_decoder(architecture, weights)?.adapted(scaling, |module| {
                let [a, b] = lora::names(module).map(|name| own.get(&name).map(tensor));
                Ok(a.zip(b).map(|(a, b)| [a, b]))
            })
        };
        let with_grad = adapted(|var| var.as_tensor().clone())?;
        let frozen = adapted(Var::as_detached_tensor)?.beside(&with_grad);
        let rounded = BTreeMap::new();
        Ok(Self { weights: own, rounded, with_grad, frozen, gradients: Mutex::default() })
    }

    /// Numbers the training passes that follow, which keys the dropout of adapters: the same number, the same
    /// mask.
    pub fn set_dropout_seed(&self, first: u64) {
        self.with_grad.set_dropout_seed(first);
    }

    /// The same policy, whose backward pass computes layers again instead of keeping what they computed.
    ///
    /// # Errors
    /// Types that our own layers do not know.
    pub fn recomputing(self) -> Result<Self> {
        if self.with_grad.path() == Path::Graph {
            bail!("--gradient-checkpointing needs float32 or bfloat16: leave it out");
        }
        Ok(Self { with_grad: self.with_grad.recomputing(), ..self })
    }

    /// The weights by name; an optimizer writes them in place.
    pub fn weights(&self) -> &BTreeMap<String, Var> {
        &self.weights
    }

    /// Takes over `weights`, of the same names and shapes.
    ///
    /// # Errors
    /// A weight that is missing or does not fit.
    pub fn restore(&self, weights: &Weights) -> Result<()> {
        for (name, var) in &self.weights {
            match weights.get(name) {
                Some(saved) => var.set(&saved.to_dtype(var.dtype())?)?,
                None => bail!("there is no weight `{name}` to restore"),
            }
        }
        self.refresh()
    }

    /// Lets the decoders see what the optimizer wrote.
    pub(crate) fn refresh(&self) -> Result<()> {
        for (name, var) in &self.rounded {
            let weight = self.weights[name].as_detached_tensor();
            tealight_gpu::kernels::narrow(&weight, &var.as_detached_tensor())?;
        }
        Ok(())
    }

    /// The weights as tensors, to be saved.
    pub fn tensors(&self) -> Weights {
        self.weights.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect()
    }

    /// The gradients of all weights, added up since they were last taken, as the optimizer reads them.
    ///
    /// # Errors
    /// No memory.
    pub fn drain_gradients(&self) -> Result<Gradients> {
        let mut graph = std::mem::take(&mut *self.held());
        let (host, device) = self.with_grad.take_gradients();
        for (name, sum) in device {
            let more = graph.remove(&name);
            graph.insert(name, more.map_or(Ok(sum.clone()), |more| sum + more)?);
        }
        Gradients::joined(host, graph, self.with_grad.pool())
    }

    /// The same as tensors in the shapes of the weights.
    ///
    /// # Errors
    /// No memory.
    pub fn take_gradients(&self) -> Result<BTreeMap<String, Tensor>> {
        self.drain_gradients()?.tensors(&self.weights)
    }

    /// The same policy, which shares what memory passes leave with `decoder`.
    #[must_use]
    pub fn beside(self, decoder: &Decoder) -> Self {
        Self {
            with_grad: self.with_grad.beside(decoder),
            frozen: self.frozen.beside(decoder),
            ..self
        }
    }

    /// Adds the gradient of `loss`, which [`Policy::with_grad`] led to, to what will be taken.
    ///
    /// # Errors
    /// No memory.
    pub fn backward(&self, loss: &Tensor) -> Result<()> {
        let mut store = loss.backward()?;
        let mut gradients = self.held();
        for (name, var) in &self.weights {
            let Some(gradient) = store.remove(var) else { continue };
            // A gradient that keeps its graph would keep every activation alive.
            let gradient = gradient.detach();
            let sum = match gradients.remove(name) {
                None => gradient,
                Some(sum) => (sum + gradient)?,
            };
            gradients.insert(name.clone(), sum);
        }
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Tensor>> {
        self.gradients.lock().expect("no panic while the lock is held")
    }

    /// The decoder whose results have a gradient.
    pub fn with_grad(&self) -> &Decoder {
        &self.with_grad
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

/// How far apart two log-probabilities of one token may be that differ by rounding alone. In bf16 a product on a
/// GPU may round otherwise in another batch, and a step of 2^-8 in a logit of 30 is 0.1.
pub fn rounding(decoder: &Decoder) -> f64 {
    match decoder.embedding().dtype() {
        DType::F32 | DType::F64 => 1e-3,
        _ => 0.5,
    }
}

/// What predicts every completion token, rows one after the other.
pub struct Positions {
    /// Hidden states `[N, D]` that the head turns into logits.
    pub hidden: Tensor,
    /// The tokens that followed, `[N]`.
    pub targets: Tensor,
}

/// `(start, length)` of the chunks that `rows` rows of `width` logits are computed in.
fn chunks(rows: usize, width: usize, device: &Device) -> impl Iterator<Item = (usize, usize)> {
    // Values that exist at once: 64 MiB in f32, on a GPU 1 GiB.
    let values = if device.is_cpu() { 16 << 20 } else { 256 << 20 };
    let length = (values / width).max(1);
    (0..rows).step_by(length).map(move |start| (start, length.min(rows - start)))
}

/// Log-probability of every completion token given those before it.
///
/// # Errors
/// See [`positions`].
pub fn token_logp(decoder: &Decoder, rows: &[Sequence], temperature: f64) -> Result<TokenLogp> {
    positions_logp(&positions(decoder, rows)?, decoder, rows, temperature)
}

/// The same from hidden states that are there already.
///
/// # Errors
/// No memory.
pub fn positions_logp(
    positions: &Positions,
    decoder: &Decoder,
    rows: &[Sequence],
    temperature: f64,
) -> Result<TokenLogp> {
    let Positions { hidden, targets } = positions;
    let (logp, entropy) = logp::linear_logp(hidden, decoder, targets, temperature)?;
    Ok(TokenLogp { logp: unflatten(&logp, rows)?, entropy: unflatten(&entropy, rows)? })
}

/// Runs the model on whole sequences. Of neighbours with the same prompt it is computed once.
///
/// # Errors
/// No sequence, an empty prompt, ids beyond the vocabulary, no memory.
pub fn positions(decoder: &Decoder, rows: &[Sequence]) -> Result<Positions> {
    if rows.is_empty() || rows.iter().any(|row| row.prompt.is_empty()) {
        bail!("log-probabilities need at least one sequence with a prompt");
    }
    let device = decoder.embedding().device();
    let mut spans = Spans::default();
    let (mut ids, mut places, mut targets) = (Vec::<u32>::new(), Vec::new(), Vec::<u32>::new());
    for group in rows.chunk_by(|row, next| row.prompt == next.prompt) {
        let prompt = &group[0].prompt;
        let trunk = spans.begin(prompt.len());
        ids.extend(prompt);
        for row in group {
            // The last token predicts nothing that is asked for, so the model never sees it.
            let Some((_, seen)) = row.completion.split_last() else { continue };
            let own = spans.branch(trunk, seen.len());
            ids.extend(seen);
            places.push(spans.range(trunk).end as u32 - 1);
            places.extend(spans.range(own).map(|place| place as u32));
            targets.extend(&row.completion);
        }
    }
    let ids = Tensor::from_vec(ids, spans.tokens(), device)?;
    let hidden = decoder.hidden(&ids, &Arc::new(spans), None)?;
    let count = targets.len();
    let hidden = decoder.rows(&hidden, places)?;
    Ok(Positions { hidden, targets: Tensor::from_vec(targets, count, device)? })
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
