//! The model being trained: its weights, the decoder over them, and log-probabilities of tokens with their gradient.
//!
//! Sampler and trainer share one decoder over one storage, so the sampler sees the newest step.
//!
//! Letters: B sequences, N completion tokens of all of them, V vocabulary, D hidden size.

mod forward;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var, bail};

pub use crate::backend::GradAccumulator;
pub use crate::backend::Gradient;
use crate::backend::{Parameter, Targets, int8};
use crate::model::lora::{self, Scaling};
use crate::model::weights::Weights;
use crate::model::{Architecture, BackendKind, Decoder, PackedSequences};

pub use forward::{Base, Forward};

/// Trainable weights and the decoder over them; a clone is the same policy, over the same storage.
#[derive(Clone)]
pub struct Policy {
    weights: BTreeMap<String, Var>,
    /// In bf16 what the decoder is made of, rounded from the weights, which are always f32: all weights on a GPU,
    /// matrices on the CPU.
    rounded: BTreeMap<String, Var>,
    decoder: Decoder,
}

impl Policy {
    /// A policy that starts at a copy of `weights`, computed where they are.
    pub fn new(architecture: &Architecture, weights: &Weights) -> Result<Self> {
        Self::on(kind_of(weights), architecture, weights.clone())
    }

    /// A policy that takes the place of `weights`, one after the other: no two copies of all of them are ever held.
    pub fn in_place_of(architecture: &Architecture, weights: Weights) -> Result<Self> {
        Self::on(kind_of(&weights), architecture, weights)
    }

    /// The same on a backend of the caller's choice.
    pub fn on(kind: BackendKind, architecture: &Architecture, from: Weights) -> Result<Self> {
        if let Some((name, _)) = from.iter().find(|(_, tensor)| int8::is_int8(tensor)) {
            bail!("`{name}` is of 8 bits, which cannot be trained");
        }
        let (mut weights, mut rounded) = (BTreeMap::new(), BTreeMap::new());
        for (name, tensor) in from {
            // A variable has a copy of its own; the tensor is dropped before the next is copied.
            let var = |dtype: DType| Var::from_tensor(&tensor.to_dtype(dtype)?.detach());
            // An update of 1e-6 of a weight is below bf16's step of 2^-8: the optimizer writes the f32 copy.
            if tensor.dtype() == DType::BF16 {
                rounded.insert(name.clone(), var(DType::BF16)?);
            }
            weights.insert(name, var(DType::F32)?);
        }
        let decoder = Decoder::new(architecture, kind, |name| {
            let Some(var) = rounded.get(name).or_else(|| weights.get(name)) else {
                bail!("there is no weight `{name}`")
            };
            Ok(Parameter::trained(name, var.as_detached_tensor()))
        })?;
        Ok(Self { weights, rounded, decoder })
    }

    /// A policy that trains an adapter on constant `weights`, which it shares with whoever else has them.
    pub fn adapting(
        architecture: &Architecture,
        weights: &Weights,
        scaling: &Scaling,
        adapter: &Weights,
    ) -> Result<Self> {
        Self::adapting_on(kind_of(weights), architecture, weights, (scaling, adapter))
    }

    /// The same on a backend of the caller's choice.
    pub fn adapting_on(
        kind: BackendKind,
        architecture: &Architecture,
        weights: &Weights,
        (scaling, adapter): (&Scaling, &Weights),
    ) -> Result<Self> {
        let adapter_vars: BTreeMap<String, Var> = adapter
            .iter()
            .map(|(name, tensor)| Ok((name.clone(), Var::from_tensor(&tensor.detach())?)))
            .collect::<Result<_>>()?;
        let decoder = frozen_decoder_on(kind, architecture, weights)?;
        let decoder = decoder.adapted(scaling, |module| {
            let part = |name: String| {
                let var = adapter_vars.get(&name)?;
                Some(Parameter::trained(&name, var.as_detached_tensor()))
            };
            let [a, b] = lora::names(module).map(part);
            Ok(a.zip(b).map(|(a, b)| [a, b]))
        })?;
        Ok(Self { weights: adapter_vars, rounded: BTreeMap::new(), decoder })
    }

    /// The same policy, whose backward pass computes layers again instead of keeping what they computed.
    #[must_use]
    pub fn recomputing(self) -> Self {
        Self { decoder: self.decoder.recomputing(), ..self }
    }

    /// The same policy, which shares the memory that passes leave with `decoder`.
    #[must_use]
    pub fn sharing_buffers_with(self, decoder: &Decoder) -> Self {
        Self { decoder: self.decoder.sharing_buffers_with(decoder), ..self }
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
    pub fn refresh(&self) -> Result<()> {
        for (name, var) in &self.rounded {
            let weight = self.weights[name].as_detached_tensor();
            match self.decoder.is_on_gpu() {
                true => tealight_gpu::kernels::narrow(&weight, &var.as_detached_tensor())?,
                false => var.set(&weight.to_dtype(var.dtype())?)?,
            }
        }
        Ok(())
    }

    /// Gradients as tensors in the shapes of the weights.
    pub fn gradients(&self, grads: &GradAccumulator) -> Result<BTreeMap<String, Tensor>> {
        let shaped = |(name, gradient): (String, Tensor)| {
            let gradient = gradient.reshape(self.weights[&name].shape())?;
            Ok((name, gradient))
        };
        grads.tensors()?.into_iter().map(shaped).collect()
    }
}

fn kind_of(weights: &Weights) -> BackendKind {
    let device = weights.values().next().map_or(&Device::Cpu, Tensor::device);
    BackendKind::for_device(device)
}

/// A decoder over constant weights: a reference, or a model that is only evaluated.
pub fn frozen_decoder(architecture: &Architecture, weights: &Weights) -> Result<Decoder> {
    frozen_decoder_on(kind_of(weights), architecture, weights)
}

fn frozen_decoder_on(
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

/// Scores of completion tokens under a model, completions one after the other.
pub struct TokenLogp {
    /// Natural log-probability `[N]`, at the temperature asked for.
    pub logp: Tensor,
    /// Entropy `[N]` in nats of the distribution it was drawn from.
    pub entropy: Tensor,
    /// The distributions themselves, for others to be compared with.
    pub distributions: Distributions,
}

/// Next-token distributions at some positions, as little of them as another model's can be compared with.
#[derive(Clone)]
pub struct Distributions {
    /// Hidden states `[N, D]`.
    hidden: Tensor,
    /// The logarithm of what `exp(logit / temperature)` adds up to, `[N]`.
    log_mass: Tensor,
}

impl Distributions {
    /// Splits into consecutive chunks of `lengths` positions.
    pub fn split(&self, lengths: impl Iterator<Item = usize>) -> Result<Vec<Self>> {
        let mut first = 0;
        let part = |length: usize| {
            let rows = |x: &Tensor| x.narrow(0, first, length);
            let part = Self { hidden: rows(&self.hidden)?, log_mass: rows(&self.log_mass)? };
            first += length;
            Ok(part)
        };
        lengths.map(part).collect()
    }

    /// The positions of several, one after the other.
    pub fn joined(parts: &[&Self]) -> Result<Self> {
        let concat = |x: fn(&Self) -> &Tensor| {
            Tensor::cat(&parts.iter().map(|part| x(part)).collect::<Vec<_>>(), 0)
        };
        Ok(Self { hidden: concat(|part| &part.hidden)?, log_mass: concat(|part| &part.log_mass)? })
    }
}

/// Largest difference of two log-probabilities of one token by rounding alone. In bf16 a product on a
/// GPU may round otherwise in another batch, and a step of 2^-8 in a logit of 30 is 0.1.
pub fn rounding(decoder: &Decoder) -> f64 {
    match decoder.dtype() {
        DType::F32 | DType::F64 => 1e-3,
        _ => 0.5,
    }
}

/// Values `[N]` on the host.
pub fn on_host(values: &Tensor) -> Result<Vec<f32>> {
    values.to_dtype(DType::F32)?.to_vec1()
}

/// Splits values `[N]` of all completion tokens into those of each row, on the host.
pub fn by_row(values: &Tensor, rows: &[Sequence]) -> Result<Vec<Vec<f32>>> {
    let mut values = on_host(values)?.into_iter();
    Ok(rows.iter().map(|row| values.by_ref().take(row.completion.len()).collect()).collect())
}

/// Log-probability of every completion token given those before it, without a gradient. Of neighbours with the same
/// prompt it is computed once.
///
/// # Errors
/// No sequence, an empty prompt, ids beyond the vocabulary.
pub fn token_logp<S: Borrow<Sequence>>(
    decoder: &Decoder,
    rows: &[S],
    temperature: f64,
) -> Result<TokenLogp> {
    let (batch, hidden) = hidden_states(decoder, rows)?;
    let outputs = decoder.logp(&hidden, Targets { tokens: &batch.targets, temperature })?;
    let distributions = Distributions { hidden, log_mass: outputs.log_mass };
    Ok(TokenLogp { logp: outputs.logp, entropy: outputs.entropy, distributions })
}

/// Divergences of the next-token distributions of completion tokens from another model's, `[N]`.
pub fn token_divergence<S: Borrow<Sequence>>(
    decoder: &Decoder,
    rows: &[S],
    temperature: f64,
    base: &Base<'_>,
) -> Result<Tensor> {
    let (batch, hidden) = hidden_states(decoder, rows)?;
    let targets = Targets { tokens: &batch.targets, temperature };
    let outputs = decoder.logp(&hidden, targets)?;
    Ok(decoder.divergences(&hidden, targets, &outputs.saved, &base.anchor())?.values)
}

/// Hidden states of full sequences at the positions that predict completion tokens: `[N, D]`.
fn hidden_states<S: Borrow<Sequence>>(decoder: &Decoder, rows: &[S]) -> Result<(Batch, Tensor)> {
    let batch = Batch::new(rows)?;
    let hidden = batch.predicting(&decoder.hidden(&batch.ids, &batch.packed, None)?)?;
    Ok((batch, hidden))
}

/// Sequences as the tokens of one pass.
struct Batch {
    ids: Vec<u32>,
    packed: PackedSequences,
    /// The token at which each completion token is predicted.
    positions: Vec<u32>,
    targets: Vec<u32>,
}

impl Batch {
    fn new<S: Borrow<Sequence>>(rows: &[S]) -> Result<Self> {
        let rows: Vec<&Sequence> = rows.iter().map(S::borrow).collect();
        if rows.is_empty() || rows.iter().any(|row| row.prompt.is_empty()) {
            bail!("log-probabilities need at least one sequence with a prompt");
        }
        let mut packed = PackedSequences::default();
        let (mut ids, mut positions, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for group in rows.chunk_by(|row, next| row.prompt == next.prompt) {
            let prompt = &group[0].prompt;
            let prefix = packed.push_prefix(prompt.len());
            ids.extend(prompt);
            for row in group {
                // The last token predicts nothing that is asked for, so the model never sees it.
                let Some((_, seen)) = row.completion.split_last() else { continue };
                let suffix = packed.push_suffix(prefix, seen.len());
                ids.extend(seen);
                // Token t is predicted at t - 1: the first of the completion at the prompt's last token.
                positions.push(packed.range(prefix).end as u32 - 1);
                positions.extend(packed.range(suffix).map(|position| position as u32));
                targets.extend(&row.completion);
            }
        }
        Ok(Self { ids, packed, positions, targets })
    }

    /// The rows of hidden states that predict completion tokens.
    fn predicting(&self, hidden: &Tensor) -> Result<Tensor> {
        let positions = Tensor::from_slice(&self.positions, self.positions.len(), hidden.device())?;
        hidden.index_select(&positions, 0)
    }
}
