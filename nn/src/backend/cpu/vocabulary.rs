//! Logits of an output layer, a block of the vocabulary at a time, and what is summed of a row of them.
//!
//! N tokens, D hidden values, V vocabulary. Sums go through blocks of a fixed size in order, so a row's
//! numbers are the same bits in every batch.

use tealight_matmul::{Matrix, Output, multiply};

use super::math::{exp, max, sum_of};
use super::product::Weight;
use tealight_divergence::elementary::ln;

/// Tokens of the vocabulary in a block, and rows that go through all blocks together.
pub(super) const BLOCK: usize = 2048;

/// A model's output layer at some positions.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    /// Hidden states, `[N, D]`.
    pub(super) hidden: &'a [f32],
    /// Output layer, `[V, D]`.
    pub(super) weight: Weight<'a>,
}

/// Some rows, and some tokens of the vocabulary.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) token: usize,
    /// Tokens of the vocabulary in the block.
    pub(super) count: usize,
}

/// Calls `work` with the logits of every block under every model, models of one vocabulary.
pub(super) fn blocks<const M: usize>(
    layers: [Layer<'_>; M],
    rows: usize,
    mut work: impl FnMut(Block, [&mut [f32]; M]),
) {
    let vocabulary = layers[0].weight.dims().0;
    // Logits of a block alone: those of a batch, [N, V], would be the peak of memory.
    let mut buffers = [(); M].map(|()| vec![0f32; rows.min(BLOCK) * vocabulary.min(BLOCK)]);
    for row in (0..rows).step_by(BLOCK) {
        for token in (0..vocabulary).step_by(BLOCK) {
            let (rows, count) = (BLOCK.min(rows - row), BLOCK.min(vocabulary - token));
            for (layer, buffer) in layers.iter().zip(&mut buffers) {
                let width = layer.weight.dims().1;
                let hidden = Matrix::new(&layer.hidden[row * width..][..rows * width], rows, width);
                let weight = layer.weight.rows(token..token + count).transposed();
                let out = Output { data: &mut buffer[..rows * count], stride: count, adds: false };
                multiply(hidden, weight, out, true);
            }
            let logits = buffers.each_mut().map(|buffer| &mut buffer[..rows * count]);
            work(Block { row, rows, token, count }, logits);
        }
    }
}

/// `softmax(hidden weight^T / temperature)` at some targets.
pub(crate) struct Head<'a> {
    pub(super) layer: Layer<'a>,
    /// Token ids whose log-probability is computed, `[N]`.
    pub(crate) targets: &'a [u32],
    /// One over the temperature.
    pub(crate) inverse: f32,
}

/// Sums of a row, in units of the scaled logits `x / temperature`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSums {
    /// The largest logit, not scaled.
    pub(super) top: f32,
    /// Sum of `e = exp((x - top) / temperature)`.
    pub(super) mass: f32,
    /// Sum of `e (x - top) / temperature`.
    pub(super) moment: f32,
    /// The target's logit, not scaled.
    pub(super) target: f32,
}

impl RowSums {
    pub(super) const EMPTY: Self =
        Self { top: f32::NEG_INFINITY, mass: 0.0, moment: 0.0, target: 0.0 };

    /// Natural log-probability of the target.
    pub(crate) fn logp(&self, inverse: f32) -> f32 {
        (self.target - self.top) * inverse - ln(self.mass)
    }

    /// The logarithm of the sum of `exp(x / temperature)`.
    pub(super) fn log_mass(&self, inverse: f32) -> f32 {
        self.top * inverse + ln(self.mass)
    }

    /// Entropy in nats.
    pub(crate) fn entropy(&self) -> f32 {
        // With z the scaled logits less the largest: H = -sum p log p = log sum e^z - sum e^z z / sum e^z.
        ln(self.mass) - self.moment / self.mass
    }

    /// Takes in a block of logits.
    #[inline(always)]
    pub(super) fn add(&mut self, logits: &[f32], inverse: f32) {
        self.add_mass(logits, inverse);
        let top = self.top;
        self.moment += sum_of(logits, |x| {
            let scaled = (x - top) * inverse;
            exp(scaled) * scaled
        });
    }

    /// The same without the moment, which the log-probability does not ask for.
    #[inline(always)]
    pub(super) fn add_mass(&mut self, logits: &[f32], inverse: f32) {
        let top = max(logits).max(self.top);
        if self.mass > 0.0 {
            // The sum so far was scaled by another maximum. With e^(z + shift) = e^z e^shift the mass is multiplied by
            // e^shift, and sum e^z z becomes e^shift sum e^z (z + shift).
            let shift = (self.top - top) * inverse;
            let shrink = exp(shift);
            self.moment = (self.moment + self.mass * shift) * shrink;
            self.mass *= shrink;
        }
        self.top = top;
        self.mass += sum_of(logits, |x| exp((x - top) * inverse));
    }
}
