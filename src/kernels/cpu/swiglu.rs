//! `silu(gate) * up`, element by element, with its gradient. A row holds its gate and then its up half.

use rayon::prelude::*;

use super::math::{exp, simd};
use super::{by_rows, share};

/// From rows `[gate, up]` of `2 * width` values to rows of `width`.
pub(crate) fn swiglu(both: &[f32], width: usize, out: &mut [f32], parallel: bool) {
    by_rows(parallel, out, width, |first, out| {
        let rows = both[first * 2 * width..].chunks_exact(2 * width);
        simd(
            #[inline(always)]
            || {
                for (out, both) in out.chunks_exact_mut(width).zip(rows) {
                    let (gate, up) = both.split_at(width);
                    for i in 0..width {
                        out[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
                    }
                }
            },
        );
    });
}

/// Puts the gradient of the rows `[gate, up]` in their place. With `s = sigmoid(gate)`:
/// `d_gate = g up s (1 + gate (1 - s))`, `d_up = g gate s`.
pub(crate) fn gradients(both: &mut [f32], width: usize, grad: &[f32]) {
    let part = share(grad.len() / width, true);
    both.par_chunks_mut(part * 2 * width).zip(grad.par_chunks(part * width)).for_each(
        |(both, grad)| {
            simd(
                #[inline(always)]
                || {
                    let rows = both.chunks_exact_mut(2 * width).zip(grad.chunks_exact(width));
                    for (both, grad) in rows {
                        let (gate, up) = both.split_at_mut(width);
                        for i in 0..width {
                            let s = 1.0 / (1.0 + exp(-gate[i]));
                            let d_gate = grad[i] * up[i] * s * (1.0 + gate[i] * (1.0 - s));
                            up[i] = grad[i] * gate[i] * s;
                            gate[i] = d_gate;
                        }
                    }
                },
            );
        },
    );
}
