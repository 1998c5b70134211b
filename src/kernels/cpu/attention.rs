//! Causal attention with grouped key-value heads over rows of different spans, with its gradient.
//!
//! `q` `[B, T, H * D]`, `k` and `v` `[B, S, K * D]`, result `[B, T, H * D]`; B rows, T queries, S key
//! slots, H heads, K key-value heads, D values a head. Nothing of size T x S is kept: the backward
//! pass computes the probabilities again.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::{add_scaled, dot, exp, max, simd, sum_of};
use super::{shaped_like, values, with_values};
use crate::model::Spans;

/// Operands `q`, `k`, `v`; which keys a query sees is in `spans`.
pub(crate) struct Attention {
    pub(crate) spans: Arc<Spans>,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
}

/// The sizes of one call.
struct Sizes {
    queries: usize,
    keys: usize,
    q_width: usize,
    kv_width: usize,
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let sizes = self.sizes(q_layout.dims(), k_layout.dims());
        let (q, k, v) = (values(q, q_layout)?, values(k, k_layout)?, values(v, v_layout)?);
        let mut out = vec![0f32; q.len()];
        out.par_chunks_mut(sizes.q_width).enumerate().for_each_init(
            Vec::new,
            |weights, (token, out)| {
                let (row, query) = (token / sizes.queries, token % sizes.queries);
                let visible = self.visible(row, query, &sizes);
                let q = &q[token * sizes.q_width..][..sizes.q_width];
                let keys = &k[row * sizes.keys * sizes.kv_width..];
                let vals = &v[row * sizes.keys * sizes.kv_width..];
                simd(|| {
                    for head in 0..self.heads {
                        let own = head * self.head_dim..(head + 1) * self.head_dim;
                        let at = self.kv_offset(head);
                        self.weights(&q[own.clone()], &keys[at..], &visible, &sizes, weights);
                        let out = &mut out[own];
                        for (slot, weight) in visible.clone().zip(weights.iter()) {
                            let value = &vals[slot * sizes.kv_width + at..][..self.head_dim];
                            add_scaled(out, *weight, value);
                        }
                    }
                });
            },
        );
        Ok((CpuStorage::F32(out), q_layout.shape().clone()))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let sizes = self.sizes(q.dims(), k.dims());
        with_values(q, |qs| {
            with_values(k, |ks| {
                with_values(v, |vs| {
                    with_values(out, |outs| {
                        with_values(grad, |grads| {
                            let [dq, dk, dv] = self.gradients(&sizes, [qs, ks, vs, outs, grads]);
                            Ok((
                                Some(shaped_like(dq, q)?),
                                Some(shaped_like(dk, k)?),
                                Some(shaped_like(dv, v)?),
                            ))
                        })
                    })
                })
            })
        })
    }
}

impl Attention {
    fn sizes(&self, q: &[usize], k: &[usize]) -> Sizes {
        Sizes { queries: q[1], keys: k[1], q_width: q[2], kv_width: k[2] }
    }

    /// The key slots that query `query` of row `row` sees.
    #[inline(always)]
    fn visible(&self, row: usize, query: usize, sizes: &Sizes) -> Range<usize> {
        let last = self.spans.first_query[row] as usize + query;
        let first = self.spans.first_key[row] as usize;
        first..(last + 1).min(sizes.keys).max(first)
    }

    /// Where, within a token's keys, those that `head` shares begin.
    #[inline(always)]
    fn kv_offset(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads) * self.head_dim
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    /// Softmax of the scaled products of `q` with the visible keys; `keys` starts at the head's own.
    #[inline(always)]
    fn weights(
        &self,
        q: &[f32],
        keys: &[f32],
        visible: &Range<usize>,
        sizes: &Sizes,
        weights: &mut Vec<f32>,
    ) {
        let scale = self.scale();
        weights.clear();
        for slot in visible.clone() {
            weights.push(dot(q, &keys[slot * sizes.kv_width..][..self.head_dim]) * scale);
        }
        let largest = max(weights);
        for weight in weights.iter_mut() {
            *weight = exp(*weight - largest);
        }
        let inverse = 1.0 / sum_of(weights, |weight| weight);
        for weight in weights.iter_mut() {
            *weight *= inverse;
        }
    }

    /// `dq`, `dk`, `dv` from `q`, `k`, `v`, the result and its gradient; one task a row.
    fn gradients(&self, sizes: &Sizes, operands: [&[f32]; 5]) -> [Vec<f32>; 3] {
        let [q, k, v, out, grad] = operands;
        let (mut dq, mut dk) = (vec![0f32; q.len()], vec![0f32; k.len()]);
        let mut dv = vec![0f32; v.len()];
        let (q_row, kv_row) = (sizes.queries * sizes.q_width, sizes.keys * sizes.kv_width);
        dq.par_chunks_mut(q_row)
            .zip(dk.par_chunks_mut(kv_row))
            .zip(dv.par_chunks_mut(kv_row))
            .enumerate()
            .for_each(|(row, ((dq, dk), dv))| {
                let (queries, keys) = (row * q_row..(row + 1) * q_row, row * kv_row..);
                let parts = [
                    &q[queries.clone()],
                    &k[keys.clone()],
                    &v[keys],
                    &out[queries.clone()],
                    &grad[queries],
                ];
                simd(|| self.row_gradients(row, sizes, parts, dq, dk, dv));
            });
        [dq, dk, dv]
    }

    /// With `p` the weights and `dp = grad . v`: `ds = p (dp - grad . out)` times the scale.
    #[inline(always)]
    fn row_gradients(
        &self,
        row: usize,
        sizes: &Sizes,
        [q, k, v, out, grad]: [&[f32]; 5],
        dq: &mut [f32],
        dk: &mut [f32],
        dv: &mut [f32],
    ) {
        let mut weights = Vec::new();
        for query in 0..sizes.queries {
            let visible = self.visible(row, query, sizes);
            for head in 0..self.heads {
                let at = self.kv_offset(head);
                let start = query * sizes.q_width + head * self.head_dim;
                let own = start..start + self.head_dim;
                let (q, grad) = (&q[own.clone()], &grad[own.clone()]);
                self.weights(q, &k[at..], &visible, sizes, &mut weights);
                let mean = dot(grad, &out[own.clone()]);
                let dq = &mut dq[own];
                for (slot, weight) in visible.clone().zip(&weights) {
                    let place = slot * sizes.kv_width + at;
                    let place = place..place + self.head_dim;
                    let pull = weight * (dot(grad, &v[place.clone()]) - mean) * self.scale();
                    add_scaled(dq, pull, &k[place.clone()]);
                    add_scaled(&mut dk[place.clone()], pull, q);
                    add_scaled(&mut dv[place], *weight, grad);
                }
            }
        }
    }
}
