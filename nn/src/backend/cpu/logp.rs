//! Log-probability of one target a row and the entropy of the row under the output layer, forward and
//! backward, a block of the vocabulary at a time: logits of a whole batch never exist.
//!
//! N tokens, D hidden values, V vocabulary.

use rayon::prelude::*;
use tealight_matmul::{Matrix, Output, multiply, vectorized};

use super::full_vocabulary::OutputGrads;
use super::math::exp;
use super::vocabulary::{BLOCK, Block, Head, RowSums, blocks};

/// A token drawn from a row of logits, and its log-probability, the same bits as [`Head::forward`] finds: the first
/// whose share and those of the tokens before it come to more than `uniform`, which is in `[0, 1)`. None where logits
/// are not finite.
pub(crate) fn draw_row(logits: &[f32], inverse: f32, uniform: f64) -> Option<(usize, f32)> {
    vectorized(
        #[inline(always)]
        || {
            let mut row = RowSums::EMPTY;
            // The row's running sum after every block.
            let mut after = Vec::with_capacity(logits.len().div_ceil(BLOCK));
            for logits in logits.chunks(BLOCK) {
                row.add_mass(logits, inverse);
                after.push((row.top, row.mass));
            }
            if !row.mass.is_finite() {
                return None;
            }
            let share = |(top, mass): (f32, f32)| {
                f64::from(mass) * f64::from((top - row.top) * inverse).exp()
            };
            let goal = uniform * f64::from(row.mass);
            // Inverse of the distribution function: first the block in which the sum passes the goal, then the token in
            // it.
            let block = after.partition_point(|sums| share(*sums) <= goal).min(after.len() - 1);
            let mut sum = block.checked_sub(1).map_or(0.0, |before| share(after[before]));
            let block_logits = &logits[block * BLOCK..][..BLOCK.min(logits.len() - block * BLOCK)];
            let mut masses = [0f32; BLOCK];
            for (mass, x) in masses.iter_mut().zip(block_logits) {
                *mass = exp((x - row.top) * inverse);
            }
            let mut sampled = 0;
            for (token, mass) in masses[..block_logits.len()].iter().enumerate() {
                sum += f64::from(*mass);
                if *mass > masses[sampled] || sum > goal {
                    // Where rounding has the sum stop short of the goal, the block's most likely token.
                    sampled = token;
                }
                if sum > goal {
                    break;
                }
            }
            let sampled = block * BLOCK + sampled;
            row.target = logits[sampled];
            Some((sampled, row.logp(inverse)))
        },
    )
}

impl Head<'_> {
    pub(crate) fn forward(&self) -> Vec<RowSums> {
        let mut sums = vec![RowSums::EMPTY; self.targets.len()];
        blocks([self.layer], self.targets.len(), |block, [logits]| {
            let Block { row, token, count, .. } = block;
            let rows = logits.par_chunks(count).zip(&mut sums[row..]).zip(&self.targets[row..]);
            rows.with_min_len(1 + 4096 / count).for_each(|((logits, sums), target)| {
                vectorized(
                    #[inline(always)]
                    || sums.add(logits, self.inverse),
                );
                if let Some(logit) =
                    (*target as usize).checked_sub(token).and_then(|at| logits.get(at))
                {
                    sums.target = *logit;
                }
            });
        });
        sums
    }

    /// Adds the gradients of the hidden states and, where it is trained, the weight for those of what was found of
    /// every row by the forward pass.
    pub(crate) fn backward(
        &self,
        sums: &[RowSums],
        output_grads: &OutputGrads<'_>,
        d_hidden: &mut [f32],
        mut d_weight: Option<&mut [f32]>,
    ) {
        let rows = self.targets.len();
        match output_grads.divergence {
            None => blocks([self.layer], rows, |block, [logits]| {
                output_grads.slopes(self, sums, block, logits);
                self.accumulate(block, logits, d_hidden, d_weight.as_deref_mut());
            }),
            Some(apart) => blocks([self.layer, apart.base.layer], rows, |block, [logits, base]| {
                output_grads.slopes_from(self, sums, apart, block, (logits, base));
                self.accumulate(block, logits, d_hidden, d_weight.as_deref_mut());
            }),
        }
    }

    /// Adds the gradients of hidden states and weight for `slope`, that of a block's logits.
    fn accumulate(
        &self,
        block: Block,
        slope: &[f32],
        d_hidden: &mut [f32],
        d_weight: Option<&mut [f32]>,
    ) {
        let Block { row, rows, token, count } = block;
        let width = self.layer.weight.dims().1;
        let slope = Matrix::new(slope, rows, count);
        let weight = self.layer.weight.rows(token..token + count).plain();
        let data = &mut d_hidden[row * width..][..rows * width];
        // dh = dz W of this block, added: dh sums over all of the vocabulary.
        multiply(slope, weight, Output { data, stride: width, adds: true }, true);
        let hidden = Matrix::new(&self.layer.hidden[row * width..][..rows * width], rows, width);
        let Some(d_weight) = d_weight else { return };
        let data = &mut d_weight[token * width..][..count * width];
        let right = self.layer.weight.activations(hidden);
        // dW = dz^T h: the rows of W that are this block's tokens.
        multiply(slope.transposed(), right, Output { data, stride: width, adds: true }, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::product::Weight;
    use crate::backend::cpu::vocabulary::Layer;

    #[test]
    fn blockwise_logp_equals_full_logp() {
        let (rows, width, vocabulary) = (3, 8, 2 * BLOCK + 77);
        let wave = |count: usize, by: f32| -> Vec<f32> {
            (0..count).map(|i| 2.0 * (i as f32 * by).sin()).collect()
        };
        let (hidden, weight) = (wave(rows * width, 0.9), wave(vocabulary * width, 0.37));
        let targets = [5, BLOCK as u32 + 3, vocabulary as u32 - 1];
        let matrix = Weight::floats(&weight, vocabulary, width);
        let layer = Layer { hidden: &hidden, weight: matrix };
        let head = Head { layer, targets: &targets, inverse: 1.0 / 0.7 };
        let sums = head.forward();
        let (mut d_hidden, mut d_weight) = (vec![0f32; hidden.len()], vec![0f32; weight.len()]);
        let grad = [1.0, -0.5, 2.0];
        let output_grads = OutputGrads { logp: &grad, entropy: None, divergence: None };
        head.backward(&sums, &output_grads, &mut d_hidden, Some(&mut d_weight));
        let mut exact_weight = vec![0f64; weight.len()];
        for row in 0..rows {
            let h = &hidden[row * width..][..width];
            let logits: Vec<f64> = weight
                .chunks(width)
                .map(|w| w.iter().zip(h).map(|(a, b)| f64::from(a * b)).sum::<f64>() / 0.7)
                .collect();
            let top = logits.iter().copied().fold(f64::MIN, f64::max);
            let mass: f64 = logits.iter().map(|x| (x - top).exp()).sum();
            let p: Vec<f64> = logits.iter().map(|x| (x - top).exp() / mass).collect();
            let target = targets[row] as usize;
            let close = |ours: f32, exact: f64, what: &str| {
                assert!(
                    (f64::from(ours) - exact).abs() < 2e-5 * exact.abs().max(1.0),
                    "{what}: {ours} is not {exact}"
                );
            };
            close(sums[row].logp(head.inverse), p[target].ln(), "logp");
            let entropy: f64 = p.iter().map(|p| -p * p.ln()).sum();
            close(sums[row].entropy(), entropy, "entropy");
            for d in 0..width {
                let slope = |v: usize| {
                    (f64::from(u8::from(v == target)) - p[v]) * f64::from(grad[row]) / 0.7
                };
                let exact: f64 =
                    (0..vocabulary).map(|v| slope(v) * f64::from(weight[v * width + d])).sum();
                close(d_hidden[row * width + d], exact, "d_hidden");
                for v in 0..vocabulary {
                    exact_weight[v * width + d] += slope(v) * f64::from(h[d]);
                }
            }
        }
        for (ours, exact) in d_weight.iter().zip(exact_weight) {
            assert!((f64::from(*ours) - exact).abs() < 2e-5, "d_weight: {ours} is not {exact}");
        }
    }
}
