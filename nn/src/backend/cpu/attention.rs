//! Causal attention of single queries, with grouped key-value heads, and its gradient.
//!
//! Keys are kept in blocks of [`LANES`] slots, `[slots / LANES, D, LANES]` for each key-value head, and values as they
//! are, `[slots, D]`: both are then read once from beginning to end, for several query heads together. Nothing of size
//! queries x keys is kept; the backward pass computes the weights again.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use tealight_matmul::{arch, block_products};

use super::key_layout::{KeyLayout, LANES, padded_slots, put_key};
use super::math::{add_scaled, dot, exp, max, sum_of};

/// Query heads of one key-value head that go through its keys together at most.
const TOGETHER: usize = 4;

/// Keys and values of one key-value head in some slots of a row, whole blocks.
pub(super) struct KeyValueSlots<'a> {
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
    pub(super) slots: Range<usize>,
}

impl KeyValueSlots<'_> {
    /// Those of some slots that are here, and where among the values.
    #[inline(always)]
    fn overlap(&self, slots: &Range<usize>, dim: usize) -> Option<(Range<usize>, Range<usize>)> {
        let range = slots.start.max(self.slots.start)..slots.end.min(self.slots.end);
        let at = |slot: usize| (slot - self.slots.start) * dim;
        (!range.is_empty()).then(|| (range.clone(), at(range.start)..at(range.end)))
    }
}

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
            arch().dispatch(Attend { keys, q, parts, weights, out });
        }
    }

    /// The gradients of one key-value head of a run of tokens after `past` others, of which each sees the last
    /// `window`: adds to `dq` `[tokens, group, D]`, and to `dk` and `dv` `[past + tokens, D]`, from `q`, `k`, `v` and
    /// the gradient `grad` of the result, laid out alike.
    pub(crate) fn gradients(
        &self,
        (past, window): (usize, usize),
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
struct Keys {
    seen: Range<usize>,
    dim: usize,
    scale: f32,
}

impl Keys {
    /// The slots of the blocks that hold them.
    #[inline(always)]
    fn blocks(&self) -> Range<usize> {
        self.seen.start / LANES * LANES..self.seen.end.next_multiple_of(LANES)
    }

    /// Where among the slots of those blocks they are.
    #[inline(always)]
    fn within(&self) -> Range<usize> {
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

/// Sets `out` `[H, D]` to what the queries `[H, D]` of one head of keys gather.
struct Attend<'a> {
    keys: &'a Keys,
    q: &'a [f32],
    parts: &'a [KeyValueSlots<'a>],
    weights: &'a mut Vec<f32>,
    out: &'a mut [f32],
}

impl Attend<'_> {
    #[inline(always)]
    fn of_heads<S: Simd, const H: usize>(self, simd: S) {
        let Self { keys, q, parts, weights, out } = self;
        let (blocks, dim) = (keys.blocks(), keys.dim);
        // out = softmax(scale q K^T) V. The scores of all parts come first: exponentials need their maximum.
        keys.clear::<H>(weights);
        for part in parts {
            let Some((slots, offsets)) = part.overlap(&blocks, dim) else { continue };
            products::<S, H>(simd, keys, q, (&part.keys[offsets], slots.start), weights);
        }
        softmax(keys, weights);
        out.fill(0.0);
        for part in parts {
            let Some((slots, offsets)) = part.overlap(&keys.seen, dim) else { continue };
            combine::<S, H>(simd, keys, weights, (&part.values[offsets], slots.start), out);
        }
    }
}

/// Adds the gradients of queries `[H, D]`, of the keys that they see and of those keys' values, for the gradient `grad`
/// `[H, D]` of what they gather.
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
        products::<S, H>(simd, keys, q, of_keys, weights);
        softmax(keys, weights);
        keys.clear::<H>(score_grads);
        // dp = grad . v has the access pattern of q . k, so that values are in blocks here too.
        products::<S, H>(simd, keys, grad, of_values, score_grads);
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
        combine::<S, H>(simd, keys, score_grads, (k, keys.seen.start), dq);
        spread::<S, H>(simd, keys, score_grads, q, dk);
        spread::<S, H>(simd, keys, weights, grad, dv);
    }
}

/// Runs what is written for any number of query heads, up to [`TOGETHER`], on the number there is.
macro_rules! by_heads {
    ($name:ident) => {
        impl WithSimd for $name<'_> {
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
by_heads!(Attend);
by_heads!(AttendGrads);

/// Sets the columns of `out` `[H, slots of the blocks]` from slot `first` on to the products of `q` `[H, D]` with keys
/// in blocks.
#[inline(always)]
fn products<S: Simd, const H: usize>(
    simd: S,
    keys: &Keys,
    q: &[f32],
    (in_blocks, first): (&[f32], usize),
    out: &mut [f32],
) {
    let (dim, slots, registers) = (keys.dim, keys.blocks(), LANES / S::F32_LANES);
    let width = slots.len();
    let q: [&[f32]; H] = std::array::from_fn(|head| &q[head * dim..][..dim]);
    for (index, block) in in_blocks.chunks_exact(dim * LANES).enumerate() {
        let at = first - slots.start + index * LANES;
        if S::IS_SCALAR {
            for (head, q) in q.iter().enumerate() {
                out[head * width + at..][..LANES].copy_from_slice(&block_products(q, block));
            }
            continue;
        }
        let lines = S::as_simd_f32s(block).0;
        for register in 0..registers {
            // Two chains of sums, so that an addition need not wait for the one before it.
            let mut even = [simd.splat_f32s(0.0); H];
            let mut odd = even;
            for (pair, lines) in lines.chunks(2 * registers).enumerate() {
                for head in 0..H {
                    let q = simd.splat_f32s(q[head][2 * pair]);
                    even[head] = simd.mul_add_f32s(q, lines[register], even[head]);
                }
                let Some(line) = lines.get(registers + register) else { continue };
                for head in 0..H {
                    let q = simd.splat_f32s(q[head][2 * pair + 1]);
                    odd[head] = simd.mul_add_f32s(q, *line, odd[head]);
                }
            }
            for head in 0..H {
                let out = &mut out[head * width + at..][..LANES];
                S::as_mut_simd_f32s(out).0[register] = simd.add_f32s(even[head], odd[head]);
            }
        }
    }
}

/// Softmax of every row of scaled products; slots that are not seen get no weight.
#[inline(always)]
fn softmax(keys: &Keys, weights: &mut [f32]) {
    let (within, scale) = (keys.within(), keys.scale);
    for row in weights.chunks_exact_mut(keys.blocks().len()) {
        row[..within.start].fill(f32::NEG_INFINITY);
        row[within.end..].fill(f32::NEG_INFINITY);
        // softmax(x) = softmax(x - max): no exponential overflows. Slots that are not seen have e^-inf.
        let largest = max(row);
        for weight in row.iter_mut() {
            *weight = exp((*weight - largest) * scale);
        }
        let inverse = 1.0 / sum_of(row, |weight| weight);
        for weight in row.iter_mut() {
            *weight *= inverse;
        }
    }
}

/// Adds the rows of `values` `[slots, D]`, which are seen and the first of which is slot `first`, each times its weight
/// to `out` `[H, D]`.
#[inline(always)]
fn combine<S: Simd, const H: usize>(
    simd: S,
    keys: &Keys,
    weights: &[f32],
    (values, first): (&[f32], usize),
    out: &mut [f32],
) {
    let (dim, blocks) = (keys.dim, keys.blocks());
    let (at, width, count) = (first - blocks.start, blocks.len(), values.len() / dim);
    let weights: [&[f32]; H] = std::array::from_fn(|head| &weights[head * width + at..][..count]);
    if S::IS_SCALAR {
        for (slot, row) in values.chunks_exact(dim).enumerate() {
            for (weights, out) in weights.iter().zip(out.chunks_exact_mut(dim)) {
                add_scaled(out, weights[slot], row);
            }
        }
        return;
    }
    let mut at = 0;
    // Sums of a block of columns stay in registers over all slots; narrower blocks take the columns that are left.
    while at + 4 * S::F32_LANES <= dim {
        combine_columns::<S, H, 4>(simd, (weights, values), (out, dim), at);
        at += 4 * S::F32_LANES;
    }
    while at + S::F32_LANES <= dim {
        combine_columns::<S, H, 1>(simd, (weights, values), (out, dim), at);
        at += S::F32_LANES;
    }
    for (slot, row) in values.chunks_exact(dim).enumerate() {
        for d in at..dim {
            for head in 0..H {
                let out = &mut out[head * dim + d];
                *out = weights[head][slot].mul_add(row[d], *out);
            }
        }
    }
}

/// The same of `W` registers of columns from `at` on.
#[inline(always)]
fn combine_columns<S: Simd, const H: usize, const W: usize>(
    simd: S,
    (weights, values): ([&[f32]; H], &[f32]),
    (out, dim): (&mut [f32], usize),
    at: usize,
) {
    let columns = at..at + W * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); W]; H];
    for (head, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(S::as_simd_f32s(&out[head * dim..][columns.clone()]).0);
    }
    for (slot, row) in values.chunks_exact(dim).enumerate() {
        let row = S::as_simd_f32s(&row[columns.clone()]).0;
        for head in 0..H {
            let weight = simd.splat_f32s(weights[head][slot]);
            for part in 0..W {
                sums[head][part] = simd.mul_add_f32s(weight, row[part], sums[head][part]);
            }
        }
    }
    for (head, sums) in sums.iter().enumerate() {
        S::as_mut_simd_f32s(&mut out[head * dim..][columns.clone()]).0.copy_from_slice(sums);
    }
}

/// Adds to the rows that are seen of `out` `[slots, D]` those of `x` `[H, D]`, each times its weight.
#[inline(always)]
fn spread<S: Simd, const H: usize>(
    simd: S,
    keys: &Keys,
    weights: &[f32],
    x: &[f32],
    out: &mut [f32],
) {
    let (dim, width) = (keys.dim, keys.blocks().len());
    let x: [&[f32]; H] = std::array::from_fn(|head| &x[head * dim..][..dim]);
    let registers_of_x = x.map(S::as_simd_f32s);
    let rows = out[keys.seen.start * dim..keys.seen.end * dim].chunks_exact_mut(dim);
    for (slot, row) in keys.within().zip(rows) {
        // out[slot] += sum over heads of weight[head, slot] x[head]: a row is read and written once for all heads.
        let weights: [f32; H] = std::array::from_fn(|head| weights[head * width + slot]);
        if S::IS_SCALAR {
            for (weight, x) in weights.iter().zip(x) {
                add_scaled(row, *weight, x);
            }
            continue;
        }
        let (registers, rest) = S::as_mut_simd_f32s(row);
        for (index, out) in registers.iter_mut().enumerate() {
            for (weight, (x, _)) in weights.iter().zip(&registers_of_x) {
                *out = simd.mul_add_f32s(simd.splat_f32s(*weight), x[index], *out);
            }
        }
        for (index, out) in rest.iter_mut().enumerate() {
            for (weight, (_, x)) in weights.iter().zip(&registers_of_x) {
                *out = weight.mul_add(x[index], *out);
            }
        }
    }
}

/// Keys `[tokens, D]` of one head in blocks, zero past the last.
fn in_blocks(keys: &[f32], dim: usize, tokens: usize) -> Vec<f32> {
    let mut out = vec![0f32; padded_slots(tokens) * dim];
    for (slot, key) in keys.chunks_exact(dim).enumerate() {
        put_key(&mut out, slot, key);
    }
    out
}
