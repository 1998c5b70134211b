//! Causal attention of single queries, with grouped key-value heads, and its gradient.
//!
//! Keys are kept in blocks of [`LANES`] slots, `[slots / LANES, D, LANES]` for each key-value head, and values as they
//! are, `[slots, D]`: both are then read once from beginning to end, for several query heads together. Nothing of size
//! queries x keys is kept; the backward pass computes the weights again.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use tealight_matmul::arch;

use super::attention_sums::{combine, products, softmax, spread};
use super::key_layout::{KeyLayout, LANES, padded_slots, put_key};
use super::math::dot;
use super::slots::KeyValueSlots;

/// Query heads of one key-value head that go through its keys together at most.
const TOGETHER: usize = 4;

impl KeyLayout {
    /// Attends from one token's queries `[group, D]` of a key-value head to the slots `seen` of a row, all of which are
    /// in `parts`, in order; `weights` is scratch.
    pub(super) fn attend(
        &self,
        q: &[f32],
        parts: &[KeyValueSlots<'_>],
        seen: Range<usize>,
        weights: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let Self { dim, scale, .. } = *self;
        let seen = Keys { seen, dim, scale };
        for (q, out) in q.chunks(TOGETHER * dim).zip(out.chunks_mut(TOGETHER * dim)) {
            let (keys, weights) = (&seen, &mut *weights);
            match self.is_half {
                true => arch().dispatch(Attend::<true> { keys, q, parts, weights, out }),
                false => arch().dispatch(Attend::<false> { keys, q, parts, weights, out }),
            }
        }
    }

    /// The gradients of one key-value head of a run of tokens after `past` others, of which each sees the last
    /// `window`: adds to `dq` `[tokens, group, D]`, and to `dk` and `dv` `[past + tokens, D]`, from `q`, `k`, `v` and
    /// the gradient `grad` of the result, laid out alike.
    pub(crate) fn gradients(
        &self,
        past: usize,
        window: usize,
        [q, k, v, grad]: [&[f32]; 4],
        [dq, dk, dv]: [&mut [f32]; 3],
    ) {
        let Self { dim, scale, .. } = *self;
        let wide = self.group() * dim;
        let tokens = q.len() / wide;
        let blocks = [k, v].map(|values| in_blocks(values, dim, past + tokens));
        let mut scratch = [Vec::new(), Vec::new()];
        for token in 0..tokens {
            let until = past + token + 1;
            let seen = Keys { seen: until.saturating_sub(window)..until, dim, scale };
            let range = token * wide..(token + 1) * wide;
            let chunk = TOGETHER * dim;
            let parts = q[range.clone()].chunks(chunk).zip(grad[range.clone()].chunks(chunk));
            for ((q, grad), dq) in parts.zip(dq[range].chunks_mut(chunk)) {
                let (keys, blocks, scratch) = (&seen, &blocks, &mut scratch);
                let gradients = [dq, &mut *dk, &mut *dv];
                arch().dispatch(AttendGrads { keys, q, grad, blocks, k, scratch, gradients });
            }
        }
    }
}

/// The keys of one head that a token sees.
pub(super) struct Keys {
    pub(super) seen: Range<usize>,
    pub(super) dim: usize,
    pub(super) scale: f32,
}

impl Keys {
    /// The slots of the blocks that hold them.
    #[inline(always)]
    pub(super) fn blocks(&self) -> Range<usize> {
        self.seen.start / LANES * LANES..self.seen.end.next_multiple_of(LANES)
    }

    /// Where among the slots of those blocks they are.
    #[inline(always)]
    pub(super) fn within(&self) -> Range<usize> {
        let before = self.seen.start % LANES;
        before..before + self.seen.len()
    }

    /// Zeros for products with them, `[H, slots of the blocks]`.
    #[inline(always)]
    fn clear<const H: usize>(&self, products: &mut Vec<f32>) {
        products.clear();
        products.resize(H * self.blocks().len(), 0.0);
    }

    /// Their blocks among those of all keys, and the first slot of these.
    #[inline(always)]
    fn within_blocks<'a>(&self, blocks: &'a [f32]) -> (&'a [f32], usize) {
        let slots = self.blocks();
        (&blocks[slots.start * self.dim..slots.end * self.dim], slots.start)
    }
}

/// Sets `out` `[H, D]` to what the queries `[H, D]` of one head of keys gather; where `HALF`, keys and values are of
/// bfloat16.
struct Attend<'a, const HALF: bool> {
    keys: &'a Keys,
    q: &'a [f32],
    parts: &'a [KeyValueSlots<'a>],
    weights: &'a mut Vec<f32>,
    out: &'a mut [f32],
}

impl<const HALF: bool> Attend<'_, HALF> {
    #[inline(always)]
    fn of_heads<S: Simd, const H: usize>(self, simd: S) {
        let Self { keys, q, parts, weights, out } = self;
        // out = softmax(scale q K^T) V. The scores of all parts come first: exponentials need their maximum.
        keys.clear::<H>(weights);
        let blocks = keys.blocks();
        for part in parts {
            let Some((slots, words)) = part.overlap::<HALF>(&blocks, keys.dim) else { continue };
            let in_blocks = (&part.keys[words], slots.start);
            products::<S, H, HALF>(simd, keys, q, in_blocks, weights);
        }
        softmax(keys, weights);
        out.fill(0.0);
        for part in parts {
            let Some((slots, words)) = part.overlap::<HALF>(&keys.seen, keys.dim) else { continue };
            combine::<S, H, HALF>(simd, keys, weights, (&part.values[words], slots), out);
        }
    }
}

/// Adds the gradients of queries `[H, D]`, of the keys that they see and of those keys' values, for the gradient `grad`
/// `[H, D]` of what they gather. Keys and values are f32, rounded before where the layout rounds.
struct AttendGrads<'a> {
    keys: &'a Keys,
    q: &'a [f32],
    grad: &'a [f32],
    /// Keys and values in blocks.
    blocks: &'a [Vec<f32>; 2],
    /// Keys row after row.
    k: &'a [f32],
    scratch: &'a mut [Vec<f32>; 2],
    /// Of queries, keys and values.
    gradients: [&'a mut [f32]; 3],
}

impl AttendGrads<'_> {
    /// With p the weights and dp = grad . v: ds = p (dp - sum p dp) times the scale.
    #[inline(always)]
    fn of_heads<S: Simd, const H: usize>(self, simd: S) {
        let Self {
            keys,
            q,
            grad,
            blocks,
            k,
            scratch: [weights, score_grads],
            gradients: [dq, dk, dv],
        } = self;
        // p is computed again from q and k: keeping it would take queries x keys of memory.
        let [of_keys, of_values] = blocks.each_ref().map(|blocks| keys.within_blocks(blocks));
        keys.clear::<H>(weights);
        products::<S, H, false>(simd, keys, q, of_keys, weights);
        softmax(keys, weights);
        keys.clear::<H>(score_grads);
        // dp = grad . v has the access pattern of q . k, so that values are in blocks here too.
        products::<S, H, false>(simd, keys, grad, of_values, score_grads);
        let (within, width) = (keys.within(), keys.blocks().len());
        for (score_grads, weights) in
            score_grads.chunks_exact_mut(width).zip(weights.chunks_exact(width))
        {
            let (score_grads, weights) =
                (&mut score_grads[within.clone()], &weights[within.clone()]);
            // The softmax's Jacobian is diag(p) - p p^T: sum p dp is what normalisation gives back.
            let mean = dot(weights, score_grads);
            for (score_grad, weight) in score_grads.iter_mut().zip(weights) {
                *score_grad = weight * (*score_grad - mean) * keys.scale;
            }
        }
        let k = &k[keys.seen.start * keys.dim..keys.seen.end * keys.dim];
        // dq = ds k, dk = ds^T q, dv = p^T grad; the last two add up over query heads, which share the key-value head.
        combine::<S, H, false>(simd, keys, score_grads, (k, keys.seen.clone()), dq);
        spread::<S, H>(simd, keys, score_grads, q, dk);
        spread::<S, H>(simd, keys, weights, grad, dv);
    }
}

/// Runs what is written for any number of query heads, up to [`TOGETHER`], on the number there is.
macro_rules! by_heads {
    ($name:ident $(<$half:ident>)?) => {
        impl<$(const $half: bool)?> WithSimd for $name<'_ $(, $half)?> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                match self.q.len() / self.keys.dim {
                    1 => self.of_heads::<S, 1>(simd),
                    2 => self.of_heads::<S, 2>(simd),
                    3 => self.of_heads::<S, 3>(simd),
                    _ => self.of_heads::<S, TOGETHER>(simd),
                }
            }
        }
    };
}
by_heads!(Attend<HALF>);
by_heads!(AttendGrads);

/// Keys `[tokens, D]` of one head in blocks, zero past the last.
fn in_blocks(keys: &[f32], dim: usize, tokens: usize) -> Vec<f32> {
    let mut out = vec![0f32; padded_slots(tokens) * dim];
    for (slot, key) in keys.chunks_exact(dim).enumerate() {
        put_key(&mut out, slot, key);
    }
    out
}
