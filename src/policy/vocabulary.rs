//! Functions of whole next-token distributions, a chunk of positions at a time, so that the logits of
//! a batch never exist at once.

use std::ops::Range;

use candle_core::{D, Result, Tensor, Var};
use candle_nn::ops::log_softmax;

use super::{Positions, chunks};
use crate::model::Decoder;

/// The next-token distributions of some positions.
pub struct Chunk {
    /// Log-probabilities `[n, V]` under the policy, f32, at the temperature asked for.
    pub logp: Tensor,
    /// The same under the reference, where there is one.
    pub reference: Option<Tensor>,
    /// The tokens that followed, `[n]`.
    pub targets: Tensor,
    /// Which positions these are.
    pub range: Range<usize>,
}

/// A scalar and its gradients.
pub struct VocabularySum {
    /// The sum over all chunks.
    pub value: f64,
    /// In the hidden states, `[N, D]`.
    pub d_hidden: Tensor,
    /// In the output layer's weight, `[V, D]`, where it is trained.
    pub d_head: Option<Tensor>,
}

/// The sum over chunks of a scalar function, with its gradients. Each chunk's gradient is computed at once and its
/// logits dropped.
///
/// # Errors
/// Whatever `term` fails with, no memory.
pub fn vocabulary_sum(
    policy: (&Positions, &Decoder),
    reference: Option<(&Positions, &Decoder)>,
    temperature: f64,
    term: &dyn Fn(&Chunk) -> Result<Tensor>,
) -> Result<VocabularySum> {
    let (positions, decoder) = policy;
    let (mut value, mut d_hidden) = (0.0, Vec::new());
    let mut d_head: Option<Tensor> = None;
    for (start, length) in parts(positions, decoder)? {
        let hidden = positions.hidden.narrow(0, start, length)?;
        let leaf = Var::from_tensor(&decoder.logits(&hidden)?)?;
        let chunk = chunk(leaf.as_tensor(), positions, reference, temperature, start, length)?;
        let share = term(&chunk)?;
        value += f64::from(share.to_scalar::<f32>()?);
        let d_logits = match share.backward()?.remove(&leaf) {
            Some(grad) => grad.detach(),
            None => leaf.zeros_like()?,
        };
        let (of_hidden, of_head) = decoder.logits_backward(&hidden, &d_logits)?;
        d_hidden.push(of_hidden);
        if let Some(more) = of_head {
            d_head = Some(d_head.map_or(Ok(more.clone()), |sum| sum + &more)?);
        }
    }
    Ok(VocabularySum { value, d_hidden: Tensor::cat(&d_hidden, 0)?, d_head })
}

/// A number for every position, `[N]` on the host, without a gradient.
///
/// # Errors
/// Whatever `term` fails with, no memory.
pub fn vocabulary_values(
    policy: (&Positions, &Decoder),
    reference: Option<(&Positions, &Decoder)>,
    temperature: f64,
    term: &dyn Fn(&Chunk) -> Result<Tensor>,
) -> Result<Vec<f64>> {
    let (positions, decoder) = policy;
    let mut values = Vec::new();
    for (start, length) in parts(positions, decoder)? {
        let logits = decoder.logits(&positions.hidden.narrow(0, start, length)?)?;
        let chunk = chunk(&logits, positions, reference, temperature, start, length)?;
        values.extend(term(&chunk)?.to_vec1::<f32>()?.into_iter().map(f64::from));
    }
    Ok(values)
}

fn parts(
    positions: &Positions,
    decoder: &Decoder,
) -> Result<impl Iterator<Item = (usize, usize)> + use<>> {
    let vocabulary = decoder.architecture().vocab_size;
    Ok(chunks(positions.targets.len(), vocabulary, decoder.device()))
}

fn chunk(
    logits: &Tensor,
    positions: &Positions,
    reference: Option<(&Positions, &Decoder)>,
    temperature: f64,
    start: usize,
    length: usize,
) -> Result<Chunk> {
    let normalised = |logits: &Tensor| log_softmax(&(logits / temperature)?, D::Minus1);
    let reference = match reference {
        None => None,
        Some((of, decoder)) => {
            Some(normalised(&decoder.logits(&of.hidden.narrow(0, start, length)?)?)?)
        }
    };
    let targets = &positions.targets[start..start + length];
    Ok(Chunk {
        logp: normalised(logits)?,
        reference,
        targets: Tensor::from_slice(targets, length, logits.device())?,
        range: start..start + length,
    })
}
