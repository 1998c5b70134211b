//! `activation(gate) * up`, element by element, with its gradient. An activation is `x sigmoid(f(x))`.

use rayon::prelude::*;

use super::math::{exp, simd};
use super::share;
use crate::backend::Activation;

/// Values of a row of work: what a task takes is a number of these.
const BLOCK: usize = 1024;
/// GELU's: `2 sqrt(2 / pi)`, and the factor of the cube.
const SLOPE: f32 = 1.595_769;
const CUBIC: f32 = 0.044_715;

/// To `out`.
pub(crate) fn gated(
    activation: Activation,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    parallel: bool,
) {
    match activation {
        Activation::Silu => forward(|x| x, gate, up, out, parallel),
        Activation::GeluTanh => {
            forward(|x| SLOPE * (x + CUBIC * x * x * x), gate, up, out, parallel);
        }
    }
}

#[inline(always)]
fn forward(
    inner: impl Fn(f32) -> f32 + Copy + Send + Sync,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    parallel: bool,
) {
    let part = BLOCK * share(out.len().div_ceil(BLOCK), parallel);
    let work = |((out, gate), up): ((&mut [f32], &[f32]), &[f32])| {
        simd(
            #[inline(always)]
            || {
                for i in 0..out.len() {
                    out[i] = gate[i] / (1.0 + exp(-inner(gate[i]))) * up[i];
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

/// Puts their gradients in place of `gate` and `up`. With `s = sigmoid(f(gate))`:
/// `d_gate = g up s (1 + gate f'(gate) (1 - s))`, `d_up = g gate s`.
pub(crate) fn gradients(activation: Activation, gate: &mut [f32], up: &mut [f32], grad: &[f32]) {
    match activation {
        // Of f, and of x f'(x).
        Activation::Silu => backward(|x| (x, x), gate, up, grad),
        Activation::GeluTanh => {
            let inner = |x: f32| {
                let square = CUBIC * x * x;
                (SLOPE * x * (1.0 + square), SLOPE * x * (1.0 + 3.0 * square))
            };
            backward(inner, gate, up, grad);
        }
    }
}

#[inline(always)]
fn backward(
    inner: impl Fn(f32) -> (f32, f32) + Copy + Send + Sync,
    gate: &mut [f32],
    up: &mut [f32],
    grad: &[f32],
) {
    let part = BLOCK * share(grad.len().div_ceil(BLOCK), true);
    let parts = gate.par_chunks_mut(part).zip(up.par_chunks_mut(part)).zip(grad.par_chunks(part));
    parts.for_each(|((gate, up), grad)| {
        simd(
            #[inline(always)]
            || {
                for i in 0..grad.len() {
                    let (value, turn) = inner(gate[i]);
                    let s = 1.0 / (1.0 + exp(-value));
                    let d_gate = grad[i] * up[i] * s * (1.0 + turn * (1.0 - s));
                    up[i] = grad[i] * gate[i] * s;
                    gate[i] = d_gate;
                }
            },
        );
    });
}
