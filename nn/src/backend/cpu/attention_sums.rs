//! The sums of attention over the keys that a token sees, for `H` query heads together: scores, weights, what weights
//! gather of the values, and what gradients add to keys. Where `HALF`, keys and values are of bfloat16, two to a word.

use std::ops::Range;

use pulp::Simd;
use tealight_matmul::{add_scaled, block_products};

use super::attention::Keys;
use super::key_layout::{LANES, half_of, widened};
use super::math::{exp, max, sum_of};

/// Sets the columns of `out` `[H, slots of the blocks]` from slot `first` on to the products of `q` `[H, D]` with keys
/// in blocks.
#[inline(always)]
pub(super) fn products<S: Simd, const H: usize, const HALF: bool>(
    simd: S,
    keys: &Keys,
    q: &[f32],
    (in_blocks, first): (&[f32], usize),
    out: &mut [f32],
) {
    let (dim, slots, registers) = (keys.dim, keys.blocks(), LANES / S::F32_LANES);
    let width = slots.len();
    let q: [&[f32]; H] = std::array::from_fn(|head| &q[head * dim..][..dim]);
    let words = dim * LANES / if HALF { 2 } else { 1 };
    for (index, block) in in_blocks.chunks_exact(words).enumerate() {
        let at = first - slots.start + index * LANES;
        if S::IS_SCALAR {
            let block = if HALF { &widened(block, LANES) } else { block };
            for (head, q) in q.iter().enumerate() {
                out[head * width + at..][..LANES].copy_from_slice(&block_products(q, block));
            }
            continue;
        }
        let lines = S::as_simd_f32s(block).0;
        let lines_of_pair = if HALF { registers } else { 2 * registers };
        for register in 0..registers {
            // Two chains of sums, so that an addition need not wait for the one before it.
            let mut even = [simd.splat_f32s(0.0); H];
            let mut odd = even;
            for (pair, lines) in lines.chunks(lines_of_pair).enumerate() {
                let (first, second) = match HALF {
                    true => (lower(simd, lines[register]), Some(upper(simd, lines[register]))),
                    false => (lines[register], lines.get(registers + register).copied()),
                };
                for head in 0..H {
                    let q = simd.splat_f32s(q[head][2 * pair]);
                    even[head] = simd.mul_add_f32s(q, first, even[head]);
                }
                let Some(second) = second else { continue };
                for head in 0..H {
                    let q = simd.splat_f32s(q[head][2 * pair + 1]);
                    odd[head] = simd.mul_add_f32s(q, second, odd[head]);
                }
            }
            for head in 0..H {
                let out = &mut out[head * width + at..][..LANES];
                S::as_mut_simd_f32s(out).0[register] = simd.add_f32s(even[head], odd[head]);
            }
        }
    }
}

/// What is read of a word: all of it, an f32, or one of its two bfloat16.
const WHOLE: u8 = 0;
const LOWER: u8 = 1;
const UPPER: u8 = 2;

/// The lower values of words of two bfloat16.
#[inline(always)]
fn lower<S: Simd>(simd: S, words: S::f32s) -> S::f32s {
    let bits = simd.transmute_u32s_f32s(words);
    simd.transmute_f32s_u32s(simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(16)))
}

/// Their upper values.
#[inline(always)]
fn upper<S: Simd>(simd: S, words: S::f32s) -> S::f32s {
    let bits = simd.transmute_u32s_f32s(words);
    simd.transmute_f32s_u32s(simd.and_u32s(bits, simd.splat_u32s(0xffff_0000)))
}

/// Softmax of every row of scaled products; slots that are not seen get no weight.
#[inline(always)]
pub(super) fn softmax(keys: &Keys, weights: &mut [f32]) {
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

/// Adds the rows of `values` `[slots, D]`, which are seen, each times its weight to `out` `[H, D]`.
#[inline(always)]
pub(super) fn combine<S: Simd, const H: usize, const HALF: bool>(
    simd: S,
    keys: &Keys,
    weights: &[f32],
    (values, slots): (&[f32], Range<usize>),
    out: &mut [f32],
) {
    let (dim, blocks) = (keys.dim, keys.blocks());
    let (at, width) = (slots.start - blocks.start, blocks.len());
    let weights: [&[f32]; H] =
        std::array::from_fn(|head| &weights[head * width + at..][..slots.len()]);
    // The first word may hold the value of the slot before the first.
    let before = if HALF { slots.start % 2 } else { 0 };
    if S::IS_SCALAR {
        let values = if HALF { &widened(values, dim)[before * dim..] } else { values };
        for (slot, row) in values.chunks_exact(dim).take(slots.len()).enumerate() {
            for (weights, out) in weights.iter().zip(out.chunks_exact_mut(dim)) {
                add_scaled(out, weights[slot], row);
            }
        }
        return;
    }
    let mut at = 0;
    // Sums of a block of columns stay in registers over all slots; narrower blocks take the columns that are left.
    while at + 4 * S::F32_LANES <= dim {
        combine_columns::<S, H, 4, HALF>(simd, (weights, values, before), (out, dim), at);
        at += 4 * S::F32_LANES;
    }
    while at + S::F32_LANES <= dim {
        combine_columns::<S, H, 1, HALF>(simd, (weights, values, before), (out, dim), at);
        at += S::F32_LANES;
    }
    for slot in 0..slots.len() {
        for d in at..dim {
            let place = before + slot;
            let value = match HALF {
                true => half_of(values[place / 2 * dim + d], place),
                false => values[slot * dim + d],
            };
            for head in 0..H {
                let out = &mut out[head * dim + d];
                *out = weights[head][slot].mul_add(value, *out);
            }
        }
    }
}

/// The same of `W` registers of columns from `at` on, where so many values stand `before` those of the first slot.
#[inline(always)]
fn combine_columns<S: Simd, const H: usize, const W: usize, const HALF: bool>(
    simd: S,
    (weights, values, before): ([&[f32]; H], &[f32], usize),
    (out, dim): (&mut [f32], usize),
    at: usize,
) {
    let columns = at..at + W * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); W]; H];
    for (head, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(S::as_simd_f32s(&out[head * dim..][columns.clone()]).0);
    }
    let count = weights[0].len();
    for (index, row) in values.chunks_exact(dim).enumerate() {
        let row = S::as_simd_f32s(&row[columns.clone()]).0;
        if HALF {
            // The place before the first and the one after the last hold no value that is seen.
            if let Some(slot) = (2 * index).checked_sub(before) {
                add_row::<S, H, W, LOWER>(simd, (&weights, slot), row, &mut sums);
            }
            if 2 * index + 1 - before < count {
                add_row::<S, H, W, UPPER>(simd, (&weights, 2 * index + 1 - before), row, &mut sums);
            }
        } else {
            add_row::<S, H, W, WHOLE>(simd, (&weights, index), row, &mut sums);
        }
    }
    for (head, sums) in sums.iter().enumerate() {
        S::as_mut_simd_f32s(&mut out[head * dim..][columns.clone()]).0.copy_from_slice(sums);
    }
}

/// Adds a row, or the lower or upper values of its words, times the weight of its slot to the sums of each head.
#[inline(always)]
fn add_row<S: Simd, const H: usize, const W: usize, const PART: u8>(
    simd: S,
    (weights, slot): (&[&[f32]; H], usize),
    row: &[S::f32s],
    sums: &mut [[S::f32s; W]; H],
) {
    let row: &[S::f32s; W] = row.try_into().expect("W registers");
    for (sums, weights) in sums.iter_mut().zip(weights) {
        let weight = simd.splat_f32s(weights[slot]);
        for (sum, x) in sums.iter_mut().zip(row) {
            let x = match PART {
                LOWER => lower(simd, *x),
                UPPER => upper(simd, *x),
                _ => *x,
            };
            *sum = simd.mul_add_f32s(weight, x, *sum);
        }
    }
}

/// Adds to the rows that are seen of `out` `[slots, D]` those of `x` `[H, D]`, each times its weight.
#[inline(always)]
pub(super) fn spread<S: Simd, const H: usize>(
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
