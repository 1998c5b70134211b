//! `silu(gate) * up`, element by element, with its gradient.

use rayon::prelude::*;

use super::math::{exp, simd};
use super::share;

/// Values of a row of work: what a task takes is a number of these.
const BLOCK: usize = 1024;

/// To `out`.
pub(crate) fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32], parallel: bool) {
    let part = BLOCK * share(out.len().div_ceil(BLOCK), parallel);
    let work = |((out, gate), up): ((&mut [f32], &[f32]), &[f32])| {
        simd(
            #[inline(always)]
            || {
                for i in 0..out.len() {
                    out[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
                }
            },
        );
    };
    if parallel {
        out.par_chunks_mut(part).zip(gate.par_chunks(part)).zip(up.par_chunks(part)).for_each(work);
    } else {
        work(((out, gate), up));
    }
}

/// Puts their gradients in place of `gate` and `up`. With `s = sigmoid(gate)`:
/// `d_gate = g up s (1 + gate (1 - s))`, `d_up = g gate s`.
pub(crate) fn gradients(gate: &mut [f32], up: &mut [f32], grad: &[f32]) {
    let part = BLOCK * share(grad.len().div_ceil(BLOCK), true);
    let parts = gate.par_chunks_mut(part).zip(up.par_chunks_mut(part)).zip(grad.par_chunks(part));
    parts.for_each(|((gate, up), grad)| {
        simd(
            #[inline(always)]
            || {
                for i in 0..grad.len() {
                    let s = 1.0 / (1.0 + exp(-gate[i]));
                    let d_gate = grad[i] * up[i] * s * (1.0 + gate[i] * (1.0 - s));
                    up[i] = grad[i] * gate[i] * s;
                    gate[i] = d_gate;
                }
            },
        );
    });
}
