//! The model being trained: its weights, the decoder over them, and log-probabilities of tokens with their gradient.
//!
//! What samples and what trains is one decoder over one storage, so the sampler sees the newest step.
//!
//! Letters: B sequences, N completion tokens of all of them, V vocabulary, D hidden size.

mod vocabulary;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var, bail};

pub use crate::backend::GradAccumulator;
pub(crate) use crate::backend::Gradient;
use crate::backend::{Parameter, int8};
use crate::model::lora::{self, Scaling};
use crate::model::weights::Weights;
use crate::model::{Architecture, BackendKind, Decoder, LogpTrace, PackedSequences, Trace};

pub use vocabulary::{Chunk, VocabularySum, vocabulary_sum, vocabulary_values};

/// Trainable weights and the decoder over them.
pub struct Policy {
    weights: BTreeMap<String, Var>,
    /// In bf16 what the decoder is made of, rounded from the weights, which are always f32.
    rounded: BTreeMap<String, Var>,
    decoder: Decoder,
}

impl Policy {
    /// A policy that starts at a copy of `weights`, computed where they are.
    ///
    /// # Errors
    /// Missing weights, no memory.
    pub fn new(architecture: &Architecture, weights: &Weights) -> Result<Self> {
        Self::on(kind_of(weights), architecture, weights)
    }

    /// The same on a backend of the caller's choice.
    ///
    /// # Errors
    /// See [`Policy::new`]; weights that the backend does not know.
    pub fn on(kind: BackendKind, architecture: &Architecture, weights: &Weights) -> Result<Self> {
        if let Some((name, _)) = weights.iter().find(|(_, tensor)| int8::is_int8(tensor)) {
            bail!("`{name}` is of 8 bits, which cannot be trained");
        }
        let vars = |dtype: DType| -> Result<BTreeMap<String, Var>> {
            let var = |(name, tensor): (&String, &Tensor)| {
                let tensor = tensor.to_dtype(dtype)?.copy()?;
                Ok((name.clone(), Var::from_tensor(&tensor)?))
            };
            weights.iter().map(var).collect()
        };
        let is_half = weights.values().any(|tensor| tensor.dtype() == DType::BF16);
        let rounded = if is_half { vars(DType::BF16)? } else { BTreeMap::new() };
        let weights = vars(DType::F32)?;
        let decoder = Decoder::new(architecture, kind, |name| {
            let own = rounded.get(name).or_else(|| weights.get(name));
            let Some(var) = own else { bail!("there is no weight `{name}`") };
            Ok(Parameter::trained(name, var.as_detached_tensor()))
        })?;
        Ok(Self { weights, rounded, decoder })
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
        Self::adapting_on(kind_of(weights), architecture, weights, (scaling, adapter))
    }

    /// The same on a backend of the caller's choice.
    ///
    /// # Errors
    /// See [`Policy::adapting`].
    pub fn adapting_on(
        kind: BackendKind,
        architecture: &Architecture,
        weights: &Weights,
        (scaling, adapter): (&Scaling, &Weights),
    ) -> Result<Self> {
        let own: BTreeMap<String, Var> = adapter
            .iter()
            .map(|(name, tensor)| Ok((name.clone(), Var::from_tensor(&tensor.copy()?)?)))
            .collect::<Result<_>>()?;
        let decoder = frozen_decoder_on(kind, architecture, weights)?;
        let decoder = decoder.adapted(scaling, |module| {
            let part = |name: String| {
                let var = own.get(&name)?;
                Some(Parameter::trained(&name, var.as_detached_tensor()))
            };
            let [a, b] = lora::names(module).map(part);
            Ok(a.zip(b).map(|(a, b)| [a, b]))
        })?;
        Ok(Self { weights: own, rounded: BTreeMap::new(), decoder })
    }

    /// The same policy, whose backward pass computes layers again instead of keeping what they computed.
    #[must_use]
    pub fn recomputing(self) -> Self {
        Self { decoder: self.decoder.recomputing(), ..self }
    }

    /// The same policy, which shares the memory that passes leave with `decoder`.
    #[must_use]
    pub fn beside(self, decoder: &Decoder) -> Self {
        Self { decoder: self.decoder.beside(decoder), ..self }
    }

    /// The model as it is now.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The weights by name; an optimizer writes them in place.
    pub fn weights(&self) -> &BTreeMap<String, Var> {
        &self.weights
    }

    /// The weights as tensors, to be saved.
    pub fn tensors(&self) -> Weights {
        self.weights.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect()
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

    /// Lets the decoder see what the optimizer wrote.
    pub(crate) fn refresh(&self) -> Result<()> {
        for (name, var) in &self.rounded {
            let weight = self.weights[name].as_detached_tensor();
            tealight_gpu::kernels::narrow(&weight, &var.as_detached_tensor())?;
        }
        Ok(())
    }

    /// Log-probabilities of completions with what their gradient needs; `number` is that of a training pass, which
    /// keys the dropout of adapters: the same number, the same mask.
    ///
    /// # Errors
    /// See [`positions`].
    pub fn forward(
        &self,
        rows: &[Sequence],
        temperature: f64,
        number: Option<u64>,
    ) -> Result<Forward> {
        let batch = Batch::new(rows)?;
        let (hidden, trace) = self.decoder.forward(&batch.ids, &batch.packed, number)?;
        let positions = batch.positions(&hidden)?;
        let (logp, entropy, logp_trace) =
            self.decoder.logp(&positions.hidden, &positions.targets, temperature)?;
        Ok(Forward {
            logp: Var::from_tensor(&logp)?,
            entropy,
            positions,
            places: batch.places,
            tokens: batch.ids.len(),
            temperature,
            trace,
            logp_trace,
        })
    }

    /// Adds the gradient of `loss`, a scalar function of [`Forward::logp`], and of what depends on the hidden states
    /// in another way, where that is given, `[N, D]`.
    ///
    /// # Errors
    /// No memory.
    pub fn backward(
        &self,
        forward: Forward,
        loss: &Tensor,
        d_hidden: Option<&Tensor>,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let Forward { logp, positions, places, tokens, temperature, trace, logp_trace, .. } =
            forward;
        let grad = match loss.backward()?.remove(&logp) {
            Some(grad) => grad.detach().contiguous()?,
            None => logp.zeros_like()?,
        };
        let Positions { hidden, targets } = positions;
        let targets = (targets.as_slice(), temperature);
        let mut dx = self.decoder.logp_backward(&hidden, targets, &logp_trace, &grad, grads)?;
        if let Some(more) = d_hidden {
            dx = (dx + more)?;
        }
        let dx = self.decoder.scatter(&dx, &places, tokens)?;
        self.decoder.backward(trace, &dx, grads)
    }

    /// Gradients as tensors in the shapes of the weights.
    ///
    /// # Errors
    /// No memory.
    pub fn gradients(&self, grads: &GradAccumulator) -> Result<BTreeMap<String, Tensor>> {
        let shaped = |(name, gradient): (String, Tensor)| {
            let gradient = gradient.reshape(self.weights[&name].shape())?;
            Ok((name, gradient))
        };
        grads.tensors()?.into_iter().map(shaped).collect()
    }
}

/// Where weights are.
fn kind_of(weights: &Weights) -> BackendKind {
    let device = weights.values().next().map_or(&Device::Cpu, Tensor::device);
    BackendKind::of(device)
}

/// A decoder over constant weights: a reference, or a model that is only evaluated.
///
/// # Errors
/// Missing weights.
pub fn frozen_decoder(architecture: &Architecture, weights: &Weights) -> Result<Decoder> {
    frozen_decoder_on(kind_of(weights), architecture, weights)
}

/// The same on a backend of the caller's choice.
///
/// # Errors
/// Missing weights; weights that the backend does not know.
pub fn frozen_decoder_on(
    kind: BackendKind,
    architecture: &Architecture,
    weights: &Weights,
) -> Result<Decoder> {
    Decoder::new(architecture, kind, |name| match weights.get(name) {
        Some(weight) => Ok(Parameter::constant(name, weight.clone())),
        None => bail!("there is no weight `{name}`"),
    })
}

/// A prompt and what followed it, as token ids.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Sequence {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// The completion, end-of-sequence token included where there is one.
    pub completion: Vec<u32>,
}

/// What the model says of each completion token, rows one after the other.
pub struct TokenLogp {
    /// Natural log-probability `[N]`, at the temperature asked for.
    pub logp: Tensor,
    /// Entropy `[N]` in nats of the distribution it was drawn from.
    pub entropy: Tensor,
}

/// A pass through the policy that a gradient can go back through, once.
pub struct Forward {
    logp: Var,
    entropy: Tensor,
    positions: Positions,
    /// The token of the pass at which each completion token is predicted.
    places: Vec<u32>,
    /// Tokens of the pass.
    tokens: usize,
    temperature: f64,
    trace: Trace,
    logp_trace: LogpTrace,
}

impl Forward {
    /// Natural log-probability `[N]` of every completion token: what losses are functions of.
    pub fn logp(&self) -> &Tensor {
        self.logp.as_tensor()
    }

    /// Entropy `[N]` in nats, a constant.
    pub fn entropy(&self) -> &Tensor {
        &self.entropy
    }

    /// What predicts the tokens.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }
}

/// What predicts every completion token, rows one after the other.
pub struct Positions {
    /// Hidden states `[N, D]` that the output layer turns into logits.
    pub hidden: Tensor,
    /// The tokens that followed, N of them.
    pub targets: Vec<u32>,
}

/// How far apart two log-probabilities of one token may be that differ by rounding alone. In bf16 a product on a
/// GPU may round otherwise in another batch, and a step of 2^-8 in a logit of 30 is 0.1.
pub fn rounding(decoder: &Decoder) -> f64 {
    match decoder.dtype() {
        DType::F32 | DType::F64 => 1e-3,
        _ => 0.5,
    }
}

/// `(start, length)` of the chunks that `rows` rows of `width` logits are computed in.
fn chunks(
    rows: usize,
    width: usize,
    device: &Device,
) -> impl Iterator<Item = (usize, usize)> + use<> {
    // Values that exist at once: 64 MiB in f32, on a GPU 1 GiB.
    let values = if device.is_cpu() { 16 << 20 } else { 256 << 20 };
    let length = (values / width).max(1);
    (0..rows).step_by(length).map(move |start| (start, length.min(rows - start)))
}

/// Splits values `[N]` of all completion tokens into those of each row, on the host.
///
/// # Errors
/// No memory.
pub fn by_row(values: &Tensor, rows: &[Sequence]) -> Result<Vec<Vec<f32>>> {
    let values: Vec<f32> = values.to_dtype(DType::F32)?.to_vec1()?;
    let mut values = values.into_iter();
    Ok(rows.iter().map(|row| values.by_ref().take(row.completion.len()).collect()).collect())
}

/// Log-probability of every completion token given those before it, without a gradient.
///
/// # Errors
/// See [`positions`].
pub fn token_logp(decoder: &Decoder, rows: &[Sequence], temperature: f64) -> Result<TokenLogp> {
    let Positions { hidden, targets } = positions(decoder, rows)?;
    let (logp, entropy, _) = decoder.logp(&hidden, &targets, temperature)?;
    Ok(TokenLogp { logp, entropy })
}

/// Runs the model on whole sequences. Of neighbours with the same prompt it is computed once.
///
/// # Errors
/// No sequence, an empty prompt, ids beyond the vocabulary, no memory.
pub fn positions(decoder: &Decoder, rows: &[Sequence]) -> Result<Positions> {
    let batch = Batch::new(rows)?;
    batch.positions(&decoder.hidden(&batch.ids, &batch.packed, None)?)
}

/// Sequences as the tokens of one pass.
struct Batch {
    ids: Vec<u32>,
    packed: PackedSequences,
    /// The token at which each completion token is predicted.
    places: Vec<u32>,
    targets: Vec<u32>,
}

impl Batch {
    fn new(rows: &[Sequence]) -> Result<Self> {
        if rows.is_empty() || rows.iter().any(|row| row.prompt.is_empty()) {
            bail!("log-probabilities need at least one sequence with a prompt");
        }
        let mut packed = PackedSequences::default();
        let (mut ids, mut places, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for group in rows.chunk_by(|row, next| row.prompt == next.prompt) {
            let prompt = &group[0].prompt;
            let prefix = packed.push_prefix(prompt.len());
            ids.extend(prompt);
            for row in group {
                // The last token predicts nothing that is asked for, so the model never sees it.
                let Some((_, seen)) = row.completion.split_last() else { continue };
                let own = packed.push_suffix(prefix, seen.len());
                ids.extend(seen);
                places.push(packed.range(prefix).end as u32 - 1);
                places.extend(packed.range(own).map(|place| place as u32));
                targets.extend(&row.completion);
            }
        }
        Ok(Self { ids, packed, places, targets })
    }

    /// The rows of hidden states that predict completion tokens.
    fn positions(&self, hidden: &Tensor) -> Result<Positions> {
        let places = Tensor::from_slice(&self.places, self.places.len(), hidden.device())?;
        Ok(Positions { hidden: hidden.index_select(&places, 0)?, targets: self.targets.clone() })
    }
}
