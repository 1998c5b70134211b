//! One layer forward.

use candle_core::Result;
use rayon::prelude::*;
use tealight_matmul::{Matrix, Output, Right, multiply};

use super::super::Decoder;
use super::super::decoder::Layer;
use super::super::ops::Linear;
use super::super::pool::Pool;
use super::{Pass, Row, Slots};
use crate::kernels::cpu::rms_norm::{norm_in_place, rms_norm};
use crate::kernels::cpu::rope::rotate;
use crate::kernels::cpu::swiglu::swiglu;
use crate::kernels::cpu::{by_rows, simd, with_values};

/// What a layer computes on its way and the next layer writes over.
#[derive(Default)]
pub(super) struct Work {
    /// `[n, D]`: the input of a block, after its norm.
    normed: Vec<f32>,
    /// `[n, I]`: what the feed-forward block projects down.
    wide: Vec<f32>,
}

/// What the backward pass of a layer needs; n tokens, Q and K values of all query and key heads, I inner
/// values.
#[derive(Default)]
pub(super) struct Kept {
    /// `[n, D]`: what goes in.
    pub(super) input: Vec<f32>,
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
}

impl Work {
    pub(super) fn give(self, pool: &Pool) {
        pool.give([self.normed, self.wide]);
    }
}

impl Kept {
    /// Gives back all but the input.
    pub(super) fn forget(&mut self, pool: &Pool) {
        let Self { input, qkv, raw, attended, middle, both } = std::mem::take(self);
        pool.give([qkv, raw, attended, middle, both]);
        self.input = input;
    }
}

/// Makes `buffer` hold `count` values.
fn sized(buffer: &mut Vec<f32>, count: usize, pool: &Pool) {
    if buffer.len() != count {
        pool.give([std::mem::replace(buffer, pool.take(count))]);
    }
}

/// All layers of a decoder, in place on `x` `[n, D]`; one set of slots a layer, or one for all.
pub(super) fn layers(
    decoder: &Decoder,
    pass: Pass<'_>,
    x: &mut [f32],
    slots: &mut [Slots<'_>],
) -> Result<()> {
    let (mut work, mut kept) = (Work::default(), Kept::default());
    for (index, layer) in decoder.layers.iter().enumerate() {
        let own = index.min(slots.len() - 1);
        layer.forward(decoder, pass, x, &mut slots[own], &mut work, &mut kept)?;
    }
    kept.forget(&decoder.shared.pool);
    work.give(&decoder.shared.pool);
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
        pass: Pass<'_>,
    ) -> Result<()> {
        let (width, inner) = self.weight.dims2()?;
        let (rows, parallel) = (x.len() / inner, pass.parallel);
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
        let whole = Output { data: &mut *out, stride, adds };
        match &self.ready {
            Some(ready) => multiply(left, Right::Packed(ready.packed()), whole, parallel),
            None => with_values(&self.weight, |weight| {
                let weight = Matrix::new(weight, width, inner).transposed();
                multiply(left, Right::Plain(weight, self.precision), whole, parallel);
                Ok(())
            })?,
        }
        match &self.adapter {
            Some(adapter) => adapter.add(x, out, stride, pass.dropout, parallel),
            None => Ok(()),
        }
    }
}

impl Layer {
    /// The layer in place on `x` `[n, D]`; its keys and values go to `slots`.
    pub(super) fn forward(
        &self,
        decoder: &Decoder,
        pass: Pass<'_>,
        x: &mut [f32],
        slots: &mut Slots<'_>,
        work: &mut Work,
        kept: &mut Kept,
    ) -> Result<()> {
        let (architecture, pool) = (&decoder.architecture, &decoder.shared.pool);
        let (tokens, width) = (pass.tokens(), architecture.hidden_size);
        let eps = architecture.rms_norm_eps as f32;
        let (parallel, heads) = (pass.parallel, pass.heads);
        let queries = heads.queries * heads.dim;
        let keys = heads.keys * heads.dim;
        let all = queries + 2 * keys;
        let inner = architecture.intermediate_size;

        sized(&mut work.normed, tokens * width, pool);
        with_values(&self.input_norm, |weight| {
            rms_norm(x, weight, eps, &mut work.normed, parallel);
            Ok(())
        })?;
        sized(&mut kept.qkv, tokens * all, pool);
        for (linear, at) in [(&self.q, 0), (&self.k, queries), (&self.v, queries + keys)] {
            linear.write(&work.normed, &mut kept.qkv[at..], all, false, pass)?;
        }
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            sized(&mut kept.raw, tokens * all, pool);
            kept.raw.copy_from_slice(&kept.qkv);
            with_values(q_norm, |q_norm| {
                with_values(k_norm, |k_norm| {
                    by_rows(parallel, &mut kept.qkv, all, |_, part| {
                        simd(
                            #[inline(always)]
                            || {
                                for row in part.chunks_exact_mut(all) {
                                    norm_in_place(&mut row[..queries], q_norm, eps);
                                    norm_in_place(&mut row[queries..queries + keys], k_norm, eps);
                                }
                            },
                        );
                    });
                    Ok(())
                })
            })?;
        }
        by_rows(parallel, &mut kept.qkv, all, |first, part| {
            simd(
                #[inline(always)]
                || {
                    for (index, row) in part.chunks_exact_mut(all).enumerate() {
                        let (cos, sin) = pass.angles(first + index);
                        rotate(&mut row[..queries + keys], cos, sin, 1.0);
                    }
                },
            );
        });

        store(&kept.qkv, pass, slots);
        sized(&mut kept.attended, tokens * queries, pool);
        let (qkv, (cached_keys, cached_values)) = (&kept.qkv, (&*slots.0, &*slots.1));
        by_rows(parallel, &mut kept.attended, queries, |first, part| {
            let mut weights = Vec::new();
            simd(
                #[inline(always)]
                || {
                    for (index, out) in part.chunks_exact_mut(queries).enumerate() {
                        let token = first + index;
                        let (row, count) = pass.seen(token);
                        let own = row * heads.row()..(row + 1) * heads.row();
                        let cached = (&cached_keys[own.clone()], &cached_values[own]);
                        let q = &qkv[token * all..][..queries];
                        heads.attend(q, cached, count, &mut weights, out);
                    }
                },
            );
        });
        self.output.write(&kept.attended, x, width, true, pass)?;

        sized(&mut kept.middle, tokens * width, pool);
        kept.middle.copy_from_slice(x);
        with_values(&self.post_norm, |weight| {
            rms_norm(x, weight, eps, &mut work.normed, parallel);
            Ok(())
        })?;
        sized(&mut kept.both, tokens * 2 * inner, pool);
        self.gate.write(&work.normed, &mut kept.both, 2 * inner, false, pass)?;
        self.up.write(&work.normed, &mut kept.both[inner..], 2 * inner, false, pass)?;
        sized(&mut work.wide, tokens * inner, pool);
        swiglu(&kept.both, inner, &mut work.wide, parallel);
        self.down.write(&work.wide, x, width, true, pass)
    }
}

/// Puts the keys and values of `qkv` into the slots of their rows; what branches share into those of each.
fn store(qkv: &[f32], pass: Pass<'_>, slots: &mut Slots<'_>) {
    let heads = pass.heads;
    let (queries, keys) = (heads.queries * heads.dim, heads.keys * heads.dim);
    let all = queries + 2 * keys;
    let fill = |(row, (cached_keys, cached_values)): (&Row, (&mut [f32], &mut [f32]))| {
        let mut put = |slot: usize, token: usize| {
            let own = &qkv[token * all + queries..][..2 * keys];
            heads.store(slot, own.split_at(keys), (&mut *cached_keys, &mut *cached_values));
        };
        row.trunk.clone().enumerate().for_each(|(slot, token)| put(slot, token));
        let own = row.own.clone().map(|token| token - pass.first.1).enumerate();
        own.for_each(|(slot, token)| put(row.past + slot, token));
    };
    let width = heads.row();
    if pass.parallel {
        let rows = slots.0.par_chunks_mut(width).zip(slots.1.par_chunks_mut(width));
        pass.rows.par_iter().zip(rows).with_min_len(8).for_each(fill);
    } else {
        let rows = slots.0.chunks_mut(width).zip(slots.1.chunks_mut(width));
        pass.rows.iter().zip(rows).for_each(fill);
    }
}
