//! Causal attention of single queries, with grouped key-value heads, and its gradient.
//!
//! Keys are kept transposed, `[D, slots]` for each key-value head, and values as they are, `[slots, D]`:
//! both loops then run along memory. Nothing of size queries x keys is kept; the backward pass computes the
//! weights again.

use std::ops::Range;

use super::super::Heads;
use super::math::{add_scaled, exp, max, sum_of};

/// How a row of the cache holds keys and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyLayout {
    /// Query heads.
    pub(crate) queries: usize,
    /// Key-value heads; divides the query heads.
    pub(crate) keys: usize,
    /// Values a head.
    pub(crate) dim: usize,
    /// Slots that a row of the cache has room for.
    pub(crate) slots: usize,
    /// Tokens that a row holds at most where it lets go of those before a window.
    held: Option<usize>,
    /// What products of queries and keys are multiplied by.
    pub(crate) scale: f32,
}

/// Keys that are looked at together: one AVX-512 register.
const LANES: usize = 16;

/// Tokens that a row lets go of together: moving the others up is rare then.
const BLOCK: usize = 64;

/// Tokens that a row holds of so many, where each sees the last `window`.
pub(crate) fn held(window: usize, tokens: usize) -> usize {
    window.saturating_add(BLOCK).min(tokens)
}

/// Slots that a row needs for `tokens` tokens: what is looked at past the last one must be there too.
fn room(tokens: usize) -> usize {
    tokens.next_multiple_of(LANES) + LANES
}

impl KeyLayout {
    /// Room for up to `tokens` tokens.
    pub(crate) fn new(heads: Heads, tokens: usize) -> Self {
        let Heads { queries, keys, dim, scale, .. } = heads;
        Self { queries, keys, dim, slots: room(tokens), held: None, scale }
    }

    /// The same where tokens see the last `window`: what is before them is let go of, some at a time.
    pub(crate) fn sliding(heads: Heads, tokens: usize, window: usize) -> Self {
        let held = held(window, tokens);
        Self { held: (held < tokens).then_some(held), ..Self::new(heads, held) }
    }

    /// The first token that a row still holds once it was given so many; at least a window and one more follow.
    #[inline(always)]
    pub(crate) fn first(&self, count: usize) -> usize {
        match self.held {
            Some(held) if count > held => (count - held).next_multiple_of(BLOCK),
            _ => 0,
        }
    }

    /// Makes room in a row for the token after `count` others.
    #[inline(always)]
    pub(crate) fn make_room(&self, count: usize, keys: &mut [f32], values: &mut [f32]) {
        let gone = self.first(count + 1) - self.first(count);
        if gone > 0 {
            keys.chunks_exact_mut(self.slots).for_each(|keys| keys.copy_within(gone.., 0));
            let heads = values.chunks_exact_mut(self.slots * self.dim);
            heads.for_each(|values| values.copy_within(gone * self.dim.., 0));
        }
    }

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

    /// Attends from one token's queries `[queries, D]` to the slots `seen` of a row; `weights` is scratch.
    #[inline(always)]
    pub(crate) fn attend(
        &self,
        q: &[f32],
        (keys, values): (&[f32], &[f32]),
        seen: Range<usize>,
        weights: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        out.fill(0.0);
        let heads = q.chunks_exact(self.dim).zip(out.chunks_exact_mut(self.dim));
        for (head, (q, out)) in heads.enumerate() {
            let at = head / self.group() * self.dim * self.slots;
            let keys = &keys[at..][..self.dim * self.slots];
            self.weights(q, |d| &keys[d * self.slots + seen.start..], seen.len(), weights);
            let values = &values[at..][seen.start * self.dim..seen.end * self.dim];
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
        products(q, key, count, weights);
        let scale = self.scale;
        // What is past the last key gets no weight.
        weights[count..].fill(f32::NEG_INFINITY);
        let largest = max(weights);
        for weight in weights.iter_mut() {
            *weight = exp((*weight - largest) * scale);
        }
        let inverse = 1.0 / sum_of(weights, |weight| weight);
        for weight in weights.iter_mut() {
            *weight *= inverse;
        }
        weights.truncate(count);
    }

    /// The gradients of one key-value head of a run of tokens after `past` others, of which each sees the last
    /// `window`: adds to `dq`
    /// `[tokens, group, D]`, and to `dk` and `dv` `[past + tokens, D]`, from `q`, `k`, `v` and the gradient
    /// `grad` of the result, laid out alike.
    #[inline(always)]
    pub(crate) fn gradients(
        &self,
        (past, window): (usize, usize),
        [q, k, v, grad]: [&[f32]; 4],
        [dq, dk, dv]: [&mut [f32]; 3],
    ) {
        let (dim, wide) = (self.dim, self.group() * self.dim);
        let scale = self.scale;
        let tokens = q.len() / wide;
        let wide_row = room(past + tokens);
        let (keys, values) = (transposed(k, dim, wide_row), transposed(v, dim, wide_row));
        let (mut weights, mut pulls) = (Vec::new(), Vec::new());
        for token in 0..tokens {
            let until = past + token + 1;
            let from = until.saturating_sub(window);
            let count = until - from;
            for head in 0..self.group() {
                let own = token * wide + head * dim..token * wide + (head + 1) * dim;
                let (q, grad, dq) = (&q[own.clone()], &grad[own.clone()], &mut dq[own]);
                self.weights(q, |d| &keys[d * wide_row + from..], count, &mut weights);
                // With p the weights and dp = grad . v: ds = p (dp - sum p dp) times the scale.
                products(grad, |d| &values[d * wide_row + from..], count, &mut pulls);
                pulls.truncate(count);
                let mean: f32 = super::math::dot(&weights, &pulls);
                for (pull, weight) in pulls.iter_mut().zip(&weights) {
                    *pull = weight * (*pull - mean) * scale;
                }
                let seen = from * dim..until * dim;
                combine(&pulls, &k[seen.clone()], dim, dq);
                let (dk, dv) = (&mut dk[seen.clone()], &mut dv[seen]);
                let places = dk.chunks_exact_mut(dim).zip(dv.chunks_exact_mut(dim));
                for ((dk, dv), (pull, weight)) in places.zip(pulls.iter().zip(&weights)) {
                    add_scaled(dk, *pull, q);
                    add_scaled(dv, *weight, grad);
                }
            }
        }
    }
}

/// Sets `out` to the products of `q` with `count` columns, of which `row(d)` begins with the values at place
/// `d`, and with what follows them up to a whole register.
#[inline(always)]
fn products<'a>(q: &[f32], row: impl Fn(usize) -> &'a [f32], count: usize, out: &mut Vec<f32>) {
    out.clear();
    out.resize(count.next_multiple_of(LANES), 0.0);
    let (blocks, _) = out.as_chunks_mut::<LANES>();
    for (index, out) in blocks.iter_mut().enumerate() {
        let mut sums = [[0f32; LANES]; 2];
        let mut add = |lane: usize, d: usize, q: f32| {
            let keys = &row(d)[index * LANES..][..LANES];
            for (sum, key) in sums[lane].iter_mut().zip(keys) {
                *sum = q.mul_add(*key, *sum);
            }
        };
        let (pairs, last) = q.as_chunks::<2>();
        for (at, [a, b]) in pairs.iter().enumerate() {
            add(0, 2 * at, *a);
            add(1, 2 * at + 1, *b);
        }
        if let [q] = last {
            add(0, 2 * pairs.len(), *q);
        }
        for lane in 0..LANES {
            out[lane] = sums[0][lane] + sums[1][lane];
        }
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
            let low = w[1].mul_add(b[i], w[0].mul_add(a[i], out[i]));
            out[i] = w[3].mul_add(d[i], w[2].mul_add(c[i], low));
        }
    }
    for (weight, row) in rest.iter().zip(last.chunks_exact(dim)) {
        add_scaled(out, *weight, row);
    }
}

/// `[rows, columns]` to `[columns, wide]`, zero past the rows.
fn transposed(values: &[f32], columns: usize, wide: usize) -> Vec<f32> {
    let mut out = vec![0f32; columns * wide];
    for (row, values) in values.chunks_exact(columns).enumerate() {
        for (column, x) in values.iter().enumerate() {
            out[column * wide + row] = *x;
        }
    }
    out
}
