//! Logits where they were computed, and tokens drawn from them there.

use std::sync::Arc;

use anyhow::{Result, bail};
use candle_core::Tensor;
use rayon::prelude::*;
use tealight_gpu::kernels;

use super::rng::RandomStream;
use super::{Filters, SamplingParams};
use crate::nn::backend::Buffer;
use crate::nn::model::Decoder;

/// Rows of logits `[B, V]`.
#[derive(Clone)]
pub(super) enum Logits {
    Cpu {
        values: Arc<Buffer>,
        vocabulary: usize,
    },
    /// On a GPU, from which tokens are drawn by a kernel.
    Gpu(Tensor),
}

impl Logits {
    /// Of hidden states `[B, D]`.
    pub(super) fn of(decoder: &Decoder, hidden: &Tensor, params: &SamplingParams) -> Result<Self> {
        // Filters sort the distribution first, which the CPU does.
        if decoder.is_on_gpu() && params.filters == Filters::default() {
            return Ok(Self::Gpu(decoder.logits(hidden)?));
        }
        let values = Arc::new(decoder.logits_on_cpu(hidden)?);
        Ok(Self::Cpu { values, vocabulary: decoder.architecture().vocab_size })
    }

    /// A copy of the rows of a tensor `[B, V]`.
    pub(super) fn of_rows(rows: &Tensor) -> Result<Self> {
        let values = Arc::new(rows.flatten_all()?.to_vec1()?.into());
        Ok(Self::Cpu { values, vocabulary: rows.dim(1)? })
    }

    /// Draws a token for each pair of a row and a stream: its id and log-probability.
    pub(super) fn draw(
        &self,
        picks: &mut [(usize, &mut RandomStream)],
        params: &SamplingParams,
    ) -> Result<Vec<(u32, f32)>> {
        match self {
            Self::Cpu { values, vocabulary } => {
                let row = |row: usize| &values[row * vocabulary..][..*vocabulary];
                let drawn = picks.par_iter_mut();
                drawn.map(|(index, stream)| params.draw(row(*index), stream)).collect()
            }
            Self::Gpu(logits) => {
                let count = picks.len();
                let is_every_row = count == logits.dim(0)?
                    && picks.iter().enumerate().all(|(index, (row, _))| index == *row);
                let logits = match is_every_row {
                    true => logits.clone(),
                    false => {
                        let rows: Vec<u32> = picks.iter().map(|(row, _)| *row as u32).collect();
                        logits.index_select(&Tensor::from_vec(rows, count, logits.device())?, 0)?
                    }
                };
                let uniform = picks.iter_mut().map(|(_, stream)| below_one(stream.uniform()));
                let uniform = Tensor::from_vec(uniform.collect(), count, logits.device())?;
                let (tokens, logp) = kernels::sample(&logits, &uniform, params.temperature)?;
                let tokens: Vec<u32> = tokens.to_vec1()?;
                if tokens.contains(&u32::MAX) {
                    bail!("{}", super::sampling::NOT_FINITE);
                }
                Ok(tokens.into_iter().zip(logp.to_vec1()?).collect())
            }
        }
    }
}

/// A number below 1 in f32, below 1 still: rounding would make 1 of one in 2^25, for which the inverse CDF has only the
/// last token with any mass to give.
fn below_one(uniform: f64) -> f32 {
    (uniform as f32).min(1.0f32.next_down())
}

#[cfg(test)]
mod tests {
    use super::below_one;

    #[test]
    fn a_number_below_one_stays_below_one() {
        assert_eq!(1.0f64.next_down() as f32, 1.0, "what rounding does");
        assert!(below_one(1.0f64.next_down()) < 1.0);
        assert_eq!(below_one(0.25), 0.25);
        assert_eq!(below_one(0.0), 0.0);
    }
}
