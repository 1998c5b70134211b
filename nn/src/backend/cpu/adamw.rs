//! One step of AdamW (Loshchilov and Hutter, arXiv 1711.05101) on a weight, in one pass over memory.

use rayon::prelude::*;
use tealight_matmul::vectorized;

use super::math::sum_of;

/// Values that one task works on.
const BLOCK: usize = 1 << 16;

/// Values whose squares are summed in f32.
pub const SQUARES: usize = 4096;

/// The numbers of one step.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Gradients are multiplied by this: clipping.
    pub scale: f32,
    /// Decay of the mean of gradients, and one less it.
    pub beta1: [f32; 2],
    /// The same for the mean of their squares.
    pub beta2: [f32; 2],
    /// Learning rate over the mean's bias correction.
    pub rate: f32,
    /// One over the square's bias correction.
    pub correct_2: f32,
    /// AdamW's epsilon: added to the root of the mean of squared gradients.
    pub epsilon: f32,
    /// The factor of a weight that decays.
    pub keep: f32,
}

impl Step {
    /// Changes weight and moments in place.
    pub fn apply(
        &self,
        weight: &mut [f32],
        gradient: &[f32],
        mean: &mut [f32],
        square: &mut [f32],
    ) {
        let moments = mean.par_chunks_mut(BLOCK).zip(square.par_chunks_mut(BLOCK));
        weight.par_chunks_mut(BLOCK).zip(gradient.par_chunks(BLOCK)).zip(moments).for_each(
            |((weight, gradient), (mean, square))| {
                vectorized(
                    #[inline(always)]
                    || {
                        for i in 0..weight.len() {
                            // m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2.
                            let g = gradient[i] * self.scale;
                            mean[i] = mean[i] * self.beta1[0] + g * self.beta1[1];
                            square[i] = square[i] * self.beta2[0] + g * g * self.beta2[1];
                            // w = (1 - lr decay) w - lr m^ / (sqrt(v^) + eps), m^ and v^ divided by 1 - beta^t: both
                            // moments begin at 0.
                            let root = (square[i] * self.correct_2).sqrt() + self.epsilon;
                            weight[i] = weight[i] * self.keep - mean[i] * self.rate / root;
                        }
                    },
                );
            },
        );
    }
}

/// The sums of the squares of every [`SQUARES`] values, in their order; the last may be of fewer.
pub fn squares(values: &[f32]) -> Vec<f64> {
    values
        // Blocks of a fixed size: the norm has the same bits for any number of threads. Across blocks f32 would lose
        // the small values of a large weight, so the callers add these in f64.
        .par_chunks(SQUARES)
        .with_min_len(16)
        .map(|part| {
            f64::from(vectorized(
                #[inline(always)]
                || sum_of(part, |x| x * x),
            ))
        })
        .collect()
}
