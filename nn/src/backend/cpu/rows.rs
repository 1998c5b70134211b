//! Rows picked, added up, cut and put side by side.

use std::ops::Range;

use super::product::Weight;

/// The rows `ids` of `table` to `out`.
pub(super) fn gather(table: Weight<'_>, ids: &[u32], out: &mut [f32]) {
    for (id, out) in ids.iter().zip(out.chunks_exact_mut(table.dims().1)) {
        table.read(*id as usize, out);
    }
}

/// Adds the rows of `x` to the rows `ids` of `sums`: the gradient of [`gather`].
pub(super) fn scatter(x: &[f32], ids: &[u32], sums: &mut [f32], width: usize) {
    for (id, x) in ids.iter().zip(x.chunks_exact(width)) {
        let row = &mut sums[*id as usize * width..][..width];
        row.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
    }
}

/// Some columns of the rows of `x` to `out`.
pub(super) fn columns(x: &[f32], width: usize, columns: Range<usize>, out: &mut [f32]) {
    let rows = out.chunks_exact_mut(columns.len()).zip(x.chunks_exact(width));
    rows.for_each(|(out, x)| out.copy_from_slice(&x[columns.clone()]));
}

/// The rows of all parts side by side to `out`.
pub(super) fn join(parts: &[&[f32]], widths: &[usize], out: &mut [f32]) {
    let total = widths.iter().sum();
    let mut at = 0;
    for (part, width) in parts.iter().zip(widths) {
        let rows = out.chunks_exact_mut(total).zip(part.chunks_exact(*width));
        rows.for_each(|(out, part)| out[at..at + width].copy_from_slice(part));
        at += width;
    }
}
