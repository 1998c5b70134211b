//! Tokens that a GPU draws and keeps until the host reads them, many at a time: a wait for the device costs more than
//! they do.

use std::ops::Range;

use anyhow::{Result, bail};
use candle_core::DType;
use tealight_gpu::kernels::{self, SampleArgs};
use tealight_gpu::workspace::{Array, Destination};

use super::SamplingParams;

/// Room for tokens on a device, and the random numbers that they are drawn by.
pub(super) struct DeviceTokens {
    uniform: Array,
    tokens: Array,
    logp: Array,
}

impl DeviceTokens {
    /// For a token for each number.
    pub(super) fn new(uniform: Vec<f64>, to: Destination<'_>) -> Result<Self> {
        let count = uniform.len();
        let uniform: Vec<f32> = uniform.into_iter().map(below_one).collect();
        Ok(Self {
            uniform: to.upload(uniform, count)?,
            tokens: to.empty(count, DType::U32)?,
            logp: to.empty(count, DType::F32)?,
        })
    }

    /// Draws some of the tokens from logits `[B, V]`, each from its row, or all rows in turn; returns the tokens, on
    /// the device.
    pub(super) fn draw(
        &self,
        logits: &Array,
        rows: Option<&[u32]>,
        range: Range<usize>,
        params: &SamplingParams,
    ) -> Result<Array> {
        let part = |all: &Array| all.part(range.clone());
        let (uniform, tokens, logp) =
            (part(&self.uniform)?, part(&self.tokens)?, part(&self.logp)?);
        let super::Filters { top_k, top_p, min_p } = params.filters;
        let draw = SampleArgs { temperature: params.temperature, top_k, top_p, min_p };
        kernels::sample(logits, rows, &uniform, draw, [&tokens, &logp])?;
        Ok(tokens)
    }

    /// All tokens with their log-probabilities, once the device has drawn them.
    pub(super) fn read(&self) -> Result<Vec<(u32, f32)>> {
        let logp: Vec<f32> = self.logp.download()?;
        if logp.iter().any(|logp| logp.is_nan()) {
            bail!("{}", super::sampling::NOT_FINITE);
        }
        Ok(self.tokens.download::<u32>()?.into_iter().zip(logp).collect())
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
    fn rounding_to_f32_stays_below_one() {
        assert_eq!(1.0f64.next_down() as f32, 1.0, "what rounding does");
        assert!(below_one(1.0f64.next_down()) < 1.0);
        assert_eq!(below_one(0.25), 0.25);
        assert_eq!(below_one(0.0), 0.0);
    }
}
