//! Matrix products in f32, bfloat16 and 8 bits, the same bits on every processor; but for AMX, which sums products of
//! bfloat16 in another order ([`InstructionSet::Amx`]).
//!
//! A product is `out[m, n] = sum over k of left[m, k] right[k, n]`. Operands are packed into panels, the
//! right one perhaps long before ([`Packed`]: weights that many products share). Every element of the result
//! is a sum of fused multiply-adds in an order that depends on k alone: from zero over each stretch of 256 values
//! along k, and stretch after stretch. So it is the same bits with any instruction set but AMX, whatever the number of
//! threads and whatever other rows are computed with it: a token's logits do not depend on its batch.
//!
//! The right operand may be of 8 bits ([`Blocks`]): it is widened to f32 as it is packed, so that the product is that
//! of the widened matrix.
//!
//! Or it is rounded to 8 bits ([`Quantized`]), and so is the left one as it comes: sums are then of integers, which are
//! exact. Or both are rounded to bfloat16 ([`Right::Half`], [`Right::Rounded`]) and sums are in f32.

#![warn(missing_docs)]

mod bfloat16;
mod blocks;
mod floats;
mod huge_pages;
mod instructions;
mod kernel;
mod pack;
mod quantized;
mod vectors;

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use bfloat16::Form;

pub use bfloat16::multiplies_bfloat16;
pub use blocks::{BLOCK, BLOCK_BYTES, Blocks};
pub use huge_pages::huge_page_zeros;
pub use instructions::{InstructionSet, VARIABLE, arch, vectorized};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[doc(hidden)]
pub use kernel::amx::emulate_amx;
pub use quantized::Quantized;
pub use vectors::{LANES, add_scaled, block_products};

/// Multiplications below which a product is not worth a second thread.
const SERIAL: usize = 1 << 17;

/// A matrix in a slice: element `(r, c)` stands at `r * row_stride + c * column_stride`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T = f32> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Row after row.
    ///
    /// # Panics
    /// Where `data` is not `rows * columns` long.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix of {rows} x {columns}");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// A part of it; nothing moves. Both ranges lie within it and are not empty.
    fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        let start = rows.start * self.row_stride + columns.start * self.column_stride;
        Self { data: &self.data[start..], rows: rows.len(), columns: columns.len(), ..self }
    }

    /// The same with rows and columns exchanged; nothing moves.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// A right operand, ready for many products.
#[derive(Debug)]
pub struct Packed {
    k: usize,
    columns: usize,
    form: Form,
    /// Panel after panel, each `[lines of the form][columns of a tile]`.
    values: Vec<f32>,
}

impl Packed {
    /// Packs `right` `[k, n]`, which is not packed.
    pub fn new<'a>(right: impl Into<Right<'a>>) -> Self {
        Self::within(right, huge_page_zeros)
    }

    /// The same into the values that `allocate` gives for a count, whatever they are: memory that a process has had
    /// before is faster than new.
    pub fn within<'a>(
        right: impl Into<Right<'a>>,
        allocate: impl FnOnce(usize) -> Vec<f32>,
    ) -> Self {
        let right = right.into();
        let ((k, columns), form) = (right.sizes(), right.form());
        let width = InstructionSet::in_use().tile().columns;
        let panel = form.lines(k) * width;
        let mut values = allocate(columns.div_ceil(width) * panel);
        values.par_chunks_mut(panel.max(1)).enumerate().for_each(|(panel, out)| {
            pack::right(right, (panel * width, width), 0..k, form, out);
        });
        Self { k, columns, form, values }
    }

    /// `(k, n)`.
    pub fn sizes(&self) -> (usize, usize) {
        (self.k, self.columns)
    }

    /// The places `places` along k of a panel.
    fn panel(&self, panel: usize, places: Range<usize>) -> &[f32] {
        let width = InstructionSet::in_use().tile().columns;
        let values = &self.values[panel * self.form.lines(self.k) * width..];
        &values[self.form.lines(places.start) * width..self.form.lines(places.end) * width]
    }

    /// The values, for another use of their memory.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }

    /// Bytes of the packed values.
    pub fn bytes(&self) -> usize {
        self.values.len() * 4
    }
}

/// The right operand `[k, n]` of a product.
#[derive(Debug, Clone, Copy)]
pub enum Right<'a> {
    /// Packed before.
    Packed(&'a Packed),
    /// Packed while the product goes on.
    Plain(Matrix<'a>),
    /// Widened and packed while the product goes on.
    Blocks(Blocks<'a>),
    /// Rounded before: the product is that of the rounded operands.
    Quantized(&'a Quantized),
    /// Of bfloat16, to which the left operand is rounded; packed while the product goes on.
    Half(Matrix<'a, bf16>),
    /// As `Plain`, but the product is that of both operands rounded to bfloat16.
    Rounded(Matrix<'a>),
}

impl<'a> From<Matrix<'a>> for Right<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Right::Plain(matrix)
    }
}

impl Right<'_> {
    /// `(k, n)`.
    fn sizes(&self) -> (usize, usize) {
        match self {
            Right::Packed(packed) => packed.sizes(),
            Right::Plain(matrix) | Right::Rounded(matrix) => (matrix.rows, matrix.columns),
            Right::Half(matrix) => (matrix.rows, matrix.columns),
            Right::Blocks(blocks) => blocks.sizes(),
            Right::Quantized(quantized) => quantized.sizes(),
        }
    }

    /// That of its panels.
    fn form(&self) -> Form {
        match self {
            Right::Packed(packed) => packed.form,
            Right::Half(_) | Right::Rounded(_) => Form::half(),
            Right::Plain(_) | Right::Blocks(_) | Right::Quantized(_) => Form::Single,
        }
    }
}

/// Where a product goes: row after row, `stride` values apart.
#[derive(Debug)]
pub struct Output<'a> {
    /// The first row begins here.
    pub data: &'a mut [f32],
    /// Values from one row to the next.
    pub stride: usize,
    /// Add to what is there instead of writing over it.
    pub adds: bool,
}

/// `left` `[m, k]` times `right` `[k, n]`, row after row.
///
/// # Panics
/// Where the inner sizes differ.
pub fn product(left: Matrix<'_>, right: Right<'_>) -> Vec<f32> {
    let columns = right.sizes().1;
    let mut out = vec![0f32; left.rows * columns];
    multiply(left, right, Output { data: &mut out, stride: columns, adds: false }, true);
    out
}

/// Writes `left` `[m, k]` times `right` `[k, n]` to `out`, or adds it; on one thread, or on as many as pay.
///
/// # Panics
/// Where the inner sizes differ or `out` is too short.
pub fn multiply(left: Matrix<'_>, right: Right<'_>, out: Output<'_>, parallel: bool) {
    multiply_each(left, [(right, out)], parallel);
}

/// The same with several right operands, for which `left` is packed once; their products are shared out together.
///
/// # Panics
/// See [`multiply`].
pub fn multiply_each<'a>(
    left: Matrix<'_>,
    products: impl IntoIterator<Item = (Right<'a>, Output<'a>)>,
    parallel: bool,
) {
    let (rows, depth) = (left.rows, left.columns);
    let width = InstructionSet::in_use().tile().columns;
    let (mut floats, mut halves, mut quantized) = (Vec::new(), Vec::new(), Vec::new());
    for (right, out) in products {
        let (k, columns) = right.sizes();
        assert_eq!(depth, k, "inner sizes");
        if rows == 0 || columns == 0 {
            continue;
        }
        assert!(out.stride >= columns && out.data.len() >= (rows - 1) * out.stride + columns);
        if depth == 0 {
            if !out.adds {
                out.data.chunks_mut(out.stride).take(rows).for_each(|row| row[..columns].fill(0.0));
            }
            continue;
        }
        match right {
            Right::Quantized(right) => {
                quantized.push(Part::new(right, [rows, columns], right.panel(), out));
            }
            _ => {
                let parts = if right.form() == Form::Single { &mut floats } else { &mut halves };
                parts.push(Part::new(right, [rows, columns], width, out));
            }
        }
    }
    if !quantized.is_empty() {
        quantized::multiply(left, &quantized, parallel);
    }
    for parts in [floats, halves] {
        if let Some(first) = parts.first() {
            floats::multiply(left, first.right.form(), &parts, parallel);
        }
    }
}

/// A right operand, and where its product goes.
struct Part<'a, R> {
    right: R,
    adds: bool,
    target: kernel::Target<'a>,
    /// Number of panels of columns.
    panels: usize,
}

impl<'a, R> Part<'a, R> {
    /// With panels of `width` columns.
    fn new(right: R, [rows, columns]: [usize; 2], width: usize, out: Output<'a>) -> Self {
        let target = kernel::Target::new(out.data, rows, columns, out.stride);
        Self { right, adds: out.adds, target, panels: columns.div_ceil(width) }
    }

    /// Number of panels of all operands.
    fn count(parts: &[Self]) -> usize {
        parts.iter().map(|part| part.panels).sum()
    }

    /// Whose the panel `index` of all is, and which of its own.
    fn find(parts: &[Self], mut index: usize) -> (&Self, usize) {
        for part in parts {
            match index.checked_sub(part.panels) {
                None => return (part, index),
                Some(rest) => index = rest,
            }
        }
        unreachable!("no more panels than there are")
    }
}
