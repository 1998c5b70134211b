//! Functions of whole next-token distributions, a chunk of positions at a time, so that the logits of
//! a batch never exist at once.

use std::ops::Range;

use candle_core::{D, DType, Result, Tensor, Var};
use candle_nn::ops::log_softmax;

use super::{Positions, chunks};
use crate::kernels::given::given;
use crate::kernels::product;
use crate::model::{Decoder, Path};

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

fn logits(positions: &Positions, decoder: &Decoder, start: usize, length: usize) -> Result<Tensor> {
    let hidden = positions.hidden.detach().narrow(0, start, length)?;
    if decoder.path() == Path::Gpu {
        return decoder.logits(&hidden);
    }
    let precision = decoder.architecture().precision;
    product::linear(&hidden, &decoder.head().detach(), precision)?.to_dtype(DType::F32)
}

/// The sum over chunks of a scalar function, with its gradient in the hidden states and the head.
///
/// Each chunk's gradient is computed at once and its logits dropped; what is returned carries the
/// summed gradients on.
///
/// # Errors
/// Whatever `term` fails with, no memory.
pub fn vocabulary_sum(
    policy: (&Positions, &Decoder),
    reference: Option<(&Positions, &Decoder)>,
    temperature: f64,
    term: &dyn Fn(&Chunk) -> Result<Tensor>,
) -> Result<Tensor> {
    let (positions, decoder) = policy;
    let (hidden, head) = (positions.hidden.detach(), decoder.head().detach());
    let precision = decoder.architecture().precision;
    let (mut value, mut d_hidden, mut d_head) = (0.0, Vec::new(), head.zeros_like()?);
    for (start, length) in chunks(hidden.dim(0)?, head.dim(0)?, hidden.device()) {
        let leaf = Var::from_tensor(&logits(positions, decoder, start, length)?)?;
        let chunk = chunk(leaf.as_tensor(), positions, reference, temperature, start, length)?;
        let share = term(&chunk)?;
        value += f64::from(share.to_scalar::<f32>()?);
        let mut grads = share.backward()?;
        let d_logits = match grads.remove(&leaf) {
            Some(grad) => grad.detach().to_dtype(head.dtype())?,
            None => leaf.zeros_like()?.to_dtype(head.dtype())?,
        };
        d_hidden.push(product::times(&d_logits, &head, precision)?);
        let part = hidden.narrow(0, start, length)?;
        d_head = (d_head + product::transposed_times(&d_logits, &part, precision)?)?;
    }
    let d_hidden = Tensor::cat(&d_hidden, 0)?;
    let total = Tensor::new(value as f32, hidden.device())?;
    let decoder = decoder.clone();
    given(total, [&positions.hidden, &decoder.head().clone()], move |grad| {
        let times = |x: &Tensor| x.broadcast_mul(&grad.to_dtype(x.dtype())?);
        let d_head = times(&d_head)?;
        if decoder.path() != Path::Gpu {
            return Ok([Some(times(&d_hidden)?), Some(d_head)]);
        }
        if decoder.head().track_op() {
            decoder.add_head_gradient_on_gpu(&d_head)?;
        }
        Ok([Some(times(&d_hidden)?), None])
    })
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
    for (start, length) in
        chunks(positions.hidden.dim(0)?, decoder.head().dim(0)?, decoder.head().device())
    {
        let logits = logits(positions, decoder, start, length)?;
        let chunk = chunk(&logits, positions, reference, temperature, start, length)?;
        values.extend(term(&chunk)?.to_vec1::<f32>()?.into_iter().map(f64::from));
    }
    Ok(values)
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
        Some((of, decoder)) => Some(normalised(&self::logits(of, decoder, start, length)?)?),
    };
    Ok(Chunk {
        logp: normalised(logits)?,
        reference,
        targets: positions.targets.narrow(0, start, length)?,
        range: start..start + length,
    })
}
