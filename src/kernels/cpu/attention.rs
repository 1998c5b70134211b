//! Causal attention of single queries, with grouped key-value heads, and its gradient.
//!
//! Keys are kept transposed, `[D, slots]` for each key-value head, and values as they are, `[slots, D]`:
//! both loops then run along memory. Nothing of size queries x keys is kept; the backward pass computes the
//! weights again.

use std::ops::Range;

use super::math::{add_scaled, exp, max, sum_of};

/// The sizes that keys, values and queries share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    /// Query heads.
    pub(crate) queries: usize,
    /// Key-value heads; divides the query heads.
    pub(crate) keys: usize,
    /// Values a head.
    pub(crate) dim: usize,
    /// Slots that a row of the cache has room for.
    pub(crate) slots: usize,
}

impl Heads {
    /// Query heads that share a key-value head.
    pub(crate) fn group(&self) -> usize {
        self.queries / self.keys
    }

    /// Values that a row of the cache has for its keys, and as many for its values.
    pub(crate) fn row(&self) -> usize {
        self.keys * self.dim * self.slots
    }

    /// Puts a token's keys and values `[keys, D]` into `slot` of a row's cache.
    #[inline(always)]
    pub(crate) fn store(
        &self,
        slot: usize,
        (k, v): (&[f32], &[f32]),
        (keys, values): (&mut [f32], &mut [f32]),
    ) {
        for (index, x) in k.iter().enumerate() {
            keys[index * self.slots + slot] = *x;
        }
        for (head, v) in v.chunks_exact(self.dim).enumerate() {
            values[(head * self.slots + slot) * self.dim..][..self.dim].copy_from_slice(v);
        }
    }

    /// Attends from one token's queries `[queries, D]` to the `visible` slots of its row; `weights` is
    /// scratch.
    #[inline(always)]
    pub(crate) fn attend(
        &self,
        q: &[f32],
        (keys, values): (&[f32], &[f32]),
        visible: Range<usize>,
        weights: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        out.fill(0.0);
        let heads = q.chunks_exact(self.dim).zip(out.chunks_exact_mut(self.dim));
        for (head, (q, out)) in heads.enumerate() {
            let at = head / self.group() * self.dim * self.slots;
            let keys = &keys[at..][..self.dim * self.slots];
            self.weights(q, |d| &keys[d * self.slots..][visible.clone()], visible.len(), weights);
            let values = &values[at + visible.start * self.dim..][..visible.len() * self.dim];
            combine(weights, values, self.dim, out);
        }
    }

    /// Softmax of the scaled products of `q` with keys, of which `key(d)` are the values at place `d`.
    #[inline(always)]
    fn weights<'a>(
        &self,
        q: &[f32],
        key: impl Fn(usize) -> &'a [f32],
        count: usize,
        weights: &mut Vec<f32>,
    ) {
        weights.clear();
        weights.resize(count, 0.0);
        products(q, key, weights);
        let scale = 1.0 / (self.dim as f32).sqrt();
        let largest = max(weights);
        weights.iter_mut().for_each(|weight| *weight = exp((*weight - largest) * scale));
        let inverse = 1.0 / sum_of(weights, |weight| weight);
        weights.iter_mut().for_each(|weight| *weight *= inverse);
    }

    /// The gradients of one key-value head of a row of `tokens` tokens: adds to `dq` `[tokens, group, D]`,
    /// `dk` and `dv` `[tokens, D]` from `q`, `k`, `v` and the gradient `grad` of the result, laid out alike.
    #[inline(always)]
    pub(crate) fn gradients(
        &self,
        tokens: usize,
        first_key: usize,
        [q, k, v, grad]: [&[f32]; 4],
        [dq, dk, dv]: [&mut [f32]; 3],
    ) {
        let (dim, wide) = (self.dim, self.group() * self.dim);
        let scale = 1.0 / (dim as f32).sqrt();
        let (keys, values) = (transposed(k, tokens, dim), transposed(v, tokens, dim));
        let (mut weights, mut pulls) = (Vec::new(), Vec::new());
        for token in first_key..tokens {
            let visible = first_key..token + 1;
            for head in 0..self.group() {
                let own = token * wide + head * dim..token * wide + (head + 1) * dim;
                let (q, grad, dq) = (&q[own.clone()], &grad[own.clone()], &mut dq[own]);
                let key = |d: usize| &keys[d * tokens..][visible.clone()];
                self.weights(q, key, visible.len(), &mut weights);
                // With p the weights and dp = grad . v: ds = p (dp - sum p dp) times the scale.
                pulls.clear();
                pulls.resize(visible.len(), 0.0);
                products(grad, |d| &values[d * tokens..][visible.clone()], &mut pulls);
                let mean: f32 = super::math::dot(&weights, &pulls);
                for (pull, weight) in pulls.iter_mut().zip(&weights) {
                    *pull = weight * (*pull - mean) * scale;
                }
                combine(&pulls, &k[visible.start * dim..visible.end * dim], dim, dq);
                let places = dk.chunks_exact_mut(dim).zip(dv.chunks_exact_mut(dim));
                let places = places.skip(visible.start);
                for ((dk, dv), (pull, weight)) in places.zip(pulls.iter().zip(&weights)) {
                    add_scaled(dk, *pull, q);
                    add_scaled(dv, *weight, grad);
                }
            }
        }
    }
}

/// Adds the products of `q` with columns, of which `row(d)` are the values at place `d`, to `out`.
#[inline(always)]
fn products<'a>(q: &[f32], row: impl Fn(usize) -> &'a [f32], out: &mut [f32]) {
    // Four at a time: `out` goes through the registers a quarter as often.
    let (blocks, rest) = q.as_chunks::<4>();
    for (index, q) in blocks.iter().enumerate() {
        let rows = [row(4 * index), row(4 * index + 1), row(4 * index + 2), row(4 * index + 3)];
        let rows = rows.map(|row| &row[..out.len()]);
        for (j, out) in out.iter_mut().enumerate() {
            let pairs =
                [q[0] * rows[0][j] + q[1] * rows[1][j], q[2] * rows[2][j] + q[3] * rows[3][j]];
            *out += pairs[0] + pairs[1];
        }
    }
    for (index, q) in rest.iter().enumerate() {
        add_scaled(out, *q, row(4 * blocks.len() + index));
    }
}

/// Adds the rows of `values` `[n, dim]`, each times its weight, to `out`.
#[inline(always)]
fn combine(weights: &[f32], values: &[f32], dim: usize, out: &mut [f32]) {
    let (blocks, rest) = weights.as_chunks::<4>();
    let (quads, last) = values.split_at(blocks.len() * 4 * dim);
    for (w, rows) in blocks.iter().zip(quads.chunks_exact(4 * dim)) {
        let (low, high) = rows.split_at(2 * dim);
        let ((a, b), (c, d)) = (low.split_at(dim), high.split_at(dim));
        for i in 0..out.len() {
            out[i] += (w[0] * a[i] + w[1] * b[i]) + (w[2] * c[i] + w[3] * d[i]);
        }
    }
    for (weight, row) in rest.iter().zip(last.chunks_exact(dim)) {
        add_scaled(out, *weight, row);
    }
}

/// `[rows, columns]` to `[columns, rows]`.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = vec![0f32; values.len()];
    for (row, values) in values.chunks_exact(columns).enumerate() {
        for (column, x) in values.iter().enumerate() {
            out[column * rows + row] = *x;
        }
    }
    out
}
