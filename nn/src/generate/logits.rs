//! Logits where they were computed, and tokens drawn from them there.

use std::sync::Arc;

use anyhow::Result;
use candle_core::Tensor;
use rayon::prelude::*;
use tealight_gpu::workspace::Array;

use super::SamplingParams;
use super::device_tokens::DeviceTokens;
use super::rng::RandomStream;
use crate::backend::Buffer;
use crate::model::Decoder;

/// Rows of logits `[B, V]`.
#[derive(Clone)]
pub(super) enum Logits {
    Cpu {
        values: Arc<Buffer>,
        vocabulary: usize,
    },
    /// On a GPU, from which tokens are drawn by a kernel.
    Gpu(Array),
}

impl Logits {
    /// Of hidden states `[B, D]`.
    pub(super) fn from_hidden(decoder: &Decoder, hidden: &Tensor) -> Result<Self> {
        Ok(match decoder.logits_on_cpu(hidden)? {
            None => Self::Gpu(decoder.logits(hidden)?.into()),
            Some(values) => {
                let vocabulary = decoder.architecture().output_size;
                Self::Cpu { values: Arc::new(values), vocabulary }
            }
        })
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
                let picks = picks.par_iter_mut();
                picks.map(|(index, stream)| params.draw(row(*index), stream)).collect()
            }
            Self::Gpu(logits) => {
                let rows: Vec<u32> = picks.iter().map(|(row, _)| *row as u32).collect();
                let uniform = picks.iter_mut().map(|(_, stream)| stream.uniform()).collect();
                let device_tokens = DeviceTokens::new(uniform, logits.device().into())?;
                device_tokens.draw(logits, Some(&rows), 0..rows.len(), params)?;
                device_tokens.read()
            }
        }
    }
}
