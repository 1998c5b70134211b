//! `activation(gate) * up`, element by element, with its gradient. An activation is `x sigmoid(f(x))` or
//! `sigmoid(x)`.

use rayon::prelude::*;
use tealight_matmul::vectorized;

use super::math::exp;
use super::share;
use crate::backend::Activation;

/// Values of a row of work: what a task takes is a number of these.
const BLOCK: usize = 1024;
/// GELU's: `2 sqrt(2 / pi)`, and the factor of the cube.
const SLOPE: f32 = 1.595_769;
const CUBIC: f32 = 0.044_715;

/// Writes `activation(gate) * up` to `out`.
pub(crate) fn gated(
    activation: Activation,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    parallel: bool,
) {
    match activation {
        Activation::Silu => forward(|x| (x, x), gate, up, out, parallel),
        Activation::GeluTanh => {
            forward(|x| (x, SLOPE * (x + CUBIC * x * x * x)), gate, up, out, parallel);
        }
        Activation::Sigmoid => forward(|x| (1.0, x), gate, up, out, parallel),
    }
}

/// With `parts` of a gate: the factor before the sigmoid, and what goes into it.
#[inline(always)]
fn forward(
    parts: impl Fn(f32) -> (f32, f32) + Copy + Send + Sync,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    parallel: bool,
) {
    let part = BLOCK * share(out.len().div_ceil(BLOCK), parallel);
    let work = |((out, gate), up): ((&mut [f32], &[f32]), &[f32])| {
        vectorized(
            #[inline(always)]
            || {
                for i in 0..out.len() {
                    let (factor, inner) = parts(gate[i]);
                    out[i] = factor / (1.0 + exp(-inner)) * up[i];
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
/// `d_gate = g up s (1 + gate f'(gate) (1 - s))`, `d_up = g gate s`; of the sigmoid alone `g up s (1 - s)` and `g s`.
pub(crate) fn gradients(activation: Activation, gate: &mut [f32], up: &mut [f32], grad: &[f32]) {
    match activation {
        Activation::Silu => {
            backward(|x| Parts { factor: x, lead: 1.0, inner: x, turn: x }, gate, up, grad)
        }
        Activation::GeluTanh => {
            let inner = |x: f32| {
                // (1 + tanh(y)) / 2 = sigmoid(2 y): GELU is x sigmoid(f(x)), f(x) = SLOPE (x + CUBIC x^3), and x f' =
                // SLOPE (x + 3 CUBIC x^3).
                let square = CUBIC * x * x;
                let (inner, turn) = (SLOPE * x * (1.0 + square), SLOPE * x * (1.0 + 3.0 * square));
                Parts { factor: x, lead: 1.0, inner, turn }
            };
            backward(inner, gate, up, grad);
        }
        Activation::Sigmoid => {
            backward(|x| Parts { factor: 1.0, lead: 0.0, inner: x, turn: 1.0 }, gate, up, grad);
        }
    }
}

/// Of `factor * sigmoid(inner)` and its slope `s (lead + turn (1 - s))`.
struct Parts {
    factor: f32,
    lead: f32,
    inner: f32,
    turn: f32,
}

#[inline(always)]
fn backward(
    parts: impl Fn(f32) -> Parts + Copy + Send + Sync,
    gate: &mut [f32],
    up: &mut [f32],
    grad: &[f32],
) {
    let part = BLOCK * share(grad.len().div_ceil(BLOCK), true);
    let blocks = gate.par_chunks_mut(part).zip(up.par_chunks_mut(part)).zip(grad.par_chunks(part));
    blocks.for_each(|((gate, up), grad)| {
        vectorized(
            #[inline(always)]
            || {
                for i in 0..grad.len() {
                    let Parts { factor, lead, inner, turn } = parts(gate[i]);
                    let s = 1.0 / (1.0 + exp(-inner));
                    // Into a variable first: `up` is overwritten, and the gradient of the gate reads it.
                    let d_gate = grad[i] * up[i] * s * (lead + turn * (1.0 - s));
                    up[i] = grad[i] * factor * s;
                    gate[i] = d_gate;
                }
            },
        );
    });
}
