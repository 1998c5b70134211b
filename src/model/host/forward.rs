//! One layer forward.

use candle_core::Result;
use rayon::prelude::*;
use tealight_matmul::{Matrix, Output, Right, multiply};

use super::super::decoder::Layer;
use super::super::ops::Linear;
use super::super::{Architecture, Decoder};
use super::{Pass, Slots};
use crate::kernels::cpu::rms_norm::{norm_in_place, rms_norm};
use crate::kernels::cpu::rope::rotate;
use crate::kernels::cpu::swiglu::swiglu;
use crate::kernels::cpu::{by_rows, simd, with_values};

/// What a layer computes on its way; n tokens, Q and K values of all query and key heads, I inner values.
#[derive(Default)]
pub(super) struct Scratch {
    /// `[n, D]`: the input of a block, after its norm.
    normed: Vec<f32>,
    /// `[n, Q + 2 K]`: queries, keys, values, rotated.
    pub(super) qkv: Vec<f32>,
    /// The same before the norms of queries and keys, where there are any.
    pub(super) raw: Vec<f32>,
    /// `[n, Q]`: what attention gathers.
    pub(super) attended: Vec<f32>,
    /// `[n, D]`: the stream between attention and the feed-forward block.
    pub(super) middle: Vec<f32>,
    /// `[n, 2 I]`: gate and up.
    pub(super) both: Vec<f32>,
    /// `[n, I]`.
    pub(super) wide: Vec<f32>,
}

/// What the backward pass of a layer needs: its input, and unless that is to be computed again, the rest.
pub(super) struct Kept {
    pub(super) input: Vec<f32>,
    pub(super) scratch: Option<Scratch>,
}

/// All layers of a decoder, in place on `x` `[n, D]`; one set of slots a layer, or one for all.
pub(super) fn layers(
    decoder: &Decoder,
    pass: Pass<'_>,
    x: &mut [f32],
    slots: &mut [Slots<'_>],
) -> Result<()> {
    let mut scratch = Scratch::default();
    for (index, layer) in decoder.layers.iter().enumerate() {
        let own = index.min(slots.len() - 1);
        layer.forward(&decoder.architecture, pass, x, &mut slots[own], &mut scratch)?;
    }
    Ok(())
}

impl Linear {
    /// `x` `[n, in]` to `n` rows of `out`, `stride` apart; adds to them where there is no bias and `adds`.
    pub(super) fn write(
        &self,
        x: &[f32],
        out: &mut [f32],
        stride: usize,
        adds: bool,
        parallel: bool,
    ) -> Result<()> {
        let (width, inner) = self.weight.dims2()?;
        let rows = x.len() / inner;
        let mut adds = adds;
        if let Some(bias) = &self.bias {
            with_values(bias, |bias| {
                for row in out.chunks_mut(stride).take(rows) {
                    match adds {
                        true => row[..width].iter_mut().zip(bias).for_each(|(x, b)| *x += b),
                        false => row[..width].copy_from_slice(bias),
                    }
                }
                Ok(())
            })?;
            adds = true;
        }
        let left = Matrix::new(x, rows, inner);
        let out = Output { data: out, stride, adds };
        match &self.ready {
            Some(packed) => multiply(left, Right::Packed(packed), out, parallel),
            None => with_values(&self.weight, |weight| {
                let weight = Matrix::new(weight, width, inner).transposed();
                multiply(left, Right::Plain(weight, self.precision), out, parallel);
                Ok(())
            })?,
        }
        Ok(())
    }
}

impl Layer {
    /// The layer in place on `x` `[n, D]`; its keys and values go to `slots`.
    pub(super) fn forward(
        &self,
        architecture: &Architecture,
        pass: Pass<'_>,
        x: &mut [f32],
        slots: &mut Slots<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (tokens, width) = (pass.rows() * pass.tokens, architecture.hidden_size);
        let eps = architecture.rms_norm_eps as f32;
        let (parallel, heads) = (pass.parallel, pass.heads);
        let queries = heads.queries * heads.dim;
        let keys = heads.keys * heads.dim;
        let all = queries + 2 * keys;
        let inner = architecture.intermediate_size;

        scratch.normed.resize(tokens * width, 0.0);
        with_values(&self.input_norm, |weight| {
            rms_norm(x, weight, eps, &mut scratch.normed, parallel);
            Ok(())
        })?;
        scratch.qkv.resize(tokens * all, 0.0);
        for (linear, at) in [(&self.q, 0), (&self.k, queries), (&self.v, queries + keys)] {
            linear.write(&scratch.normed, &mut scratch.qkv[at..], all, false, parallel)?;
        }
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            scratch.raw.clone_from(&scratch.qkv);
            with_values(q_norm, |q_norm| {
                with_values(k_norm, |k_norm| {
                    by_rows(parallel, &mut scratch.qkv, all, |_, part| {
                        simd(|| {
                            for row in part.chunks_exact_mut(all) {
                                norm_in_place(&mut row[..queries], q_norm, eps);
                                norm_in_place(&mut row[queries..queries + keys], k_norm, eps);
                            }
                        });
                    });
                    Ok(())
                })
            })?;
        }
        by_rows(parallel, &mut scratch.qkv, all, |first, part| {
            simd(|| {
                for (index, row) in part.chunks_exact_mut(all).enumerate() {
                    let (cos, sin) = pass.angles(first + index);
                    rotate(&mut row[..queries + keys], cos, sin, 1.0);
                }
            });
        });

        store(&scratch.qkv, pass, slots);
        scratch.attended.resize(tokens * queries, 0.0);
        let (qkv, (cached_keys, cached_values)) = (&scratch.qkv, (&*slots.0, &*slots.1));
        by_rows(parallel, &mut scratch.attended, queries, |first, part| {
            let mut weights = Vec::new();
            simd(|| {
                for (index, out) in part.chunks_exact_mut(queries).enumerate() {
                    let token = first + index;
                    let own = token / pass.tokens * heads.row();
                    let own = own..own + heads.row();
                    let cached = (&cached_keys[own.clone()], &cached_values[own]);
                    let q = &qkv[token * all..][..queries];
                    heads.attend(q, cached, pass.visible(token), &mut weights, out);
                }
            });
        });
        self.output.write(&scratch.attended, x, width, true, parallel)?;

        scratch.middle.clear();
        scratch.middle.extend_from_slice(x);
        with_values(&self.post_norm, |weight| {
            rms_norm(x, weight, eps, &mut scratch.normed, parallel);
            Ok(())
        })?;
        scratch.both.resize(tokens * 2 * inner, 0.0);
        self.gate.write(&scratch.normed, &mut scratch.both, 2 * inner, false, parallel)?;
        self.up.write(&scratch.normed, &mut scratch.both[inner..], 2 * inner, false, parallel)?;
        scratch.wide.resize(tokens * inner, 0.0);
        swiglu(&scratch.both, inner, &mut scratch.wide, parallel);
        self.down.write(&scratch.wide, x, width, true, parallel)
    }
}

/// Puts the keys and values of `qkv` into the slots of their rows.
fn store(qkv: &[f32], pass: Pass<'_>, slots: &mut Slots<'_>) {
    let heads = pass.heads;
    let (queries, keys) = (heads.queries * heads.dim, heads.keys * heads.dim);
    let all = queries + 2 * keys;
    let fill = |(row, (cached_keys, cached_values)): (usize, (&mut [f32], &mut [f32]))| {
        for token in 0..pass.tokens {
            let own = &qkv[(row * pass.tokens + token) * all + queries..][..2 * keys];
            let slot = pass.first_query[row] as usize + token;
            heads.store(slot, own.split_at(keys), (&mut *cached_keys, &mut *cached_values));
        }
    };
    let width = heads.row();
    if pass.parallel {
        let rows = slots.0.par_chunks_mut(width).zip(slots.1.par_chunks_mut(width));
        rows.take(pass.rows()).enumerate().with_min_len(8).for_each(fill);
    } else {
        let rows = slots.0.chunks_mut(width).zip(slots.1.chunks_mut(width));
        rows.take(pass.rows()).enumerate().for_each(fill);
    }
}
