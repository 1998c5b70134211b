//! Matrix products in f32, bfloat16 and 8 bits, the same bits on every processor.
//!
//! A product is `out[m, n] = sum over k of left[m, k] right[k, n]`. Operands are packed into panels, the
//! right one perhaps long before ([`Packed`]: weights that many products share). Every element of the result
//! is a sum of fused multiply-adds in an order that depends on k alone: from zero over each stretch of 256 values
//! along k, and stretch after stretch. So it is the same bits with any instruction set ([`InstructionSet`]), whatever
//! the number of threads and whatever other rows are computed with it: a token's logits do not depend on its batch.
//!
//! The right operand may be of 8 bits ([`Blocks`]): it is widened to f32 as it is packed, so that the product is that
//! of the widened matrix.
//!
//! Or it is rounded to 8 bits ([`Quantized`]), and so is the left one as it comes: sums are then of integers, which are
//! exact. Or both are rounded to bfloat16 ([`Right::Half`], [`Right::Rounded`]) and sums are in f32.

#![warn(missing_docs)]

mod bfloat16;
mod blocks;
mod huge_pages;
mod instructions;
mod kernel;
mod pack;
mod peak;
mod quantized;
mod vectors;

use std::cell::Cell;
use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use bfloat16::Form;
use pack::RowPanels;

pub use bfloat16::multiplies_bfloat16;
pub use blocks::{BLOCK, BLOCK_BYTES, Blocks};
pub use huge_pages::huge_page_zeros;
pub use instructions::{InstructionSet, VARIABLE, arch, vectorized};
pub use peak::{bfloat16_peak, peak};
pub use quantized::Quantized;
pub use vectors::{LANES, add_scaled, block_products};

/// Places along k that are worked through at a time: a panel's share stays in the first-level cache.
const DEPTH: usize = 256;
/// Most row panels that go through a panel of columns together: their share of the left operand stays in
/// the second-level cache.
const SHARE: usize = 64;
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

    /// Columns of a wider matrix: rows begin `stride` values apart.
    ///
    /// # Panics
    /// Where `data` is too short.
    pub fn strided(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || data.len() >= (rows - 1) * stride + columns, "{rows} x {columns}");
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
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
            multiply_floats(left, first.right.form(), &parts, parallel);
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

/// Products whose panels are all of one form.
fn multiply_floats(left: Matrix<'_>, form: Form, parts: &[Part<'_, Right<'_>>], parallel: bool) {
    let (rows, depth, count) = (left.rows, left.columns, Part::count(parts));
    let set = InstructionSet::in_use();
    let shape = set.tile();
    // As few panels as fit, of nearly one height: a tile of few rows costs as much to load as a full one.
    let tiles = RowPanels::new(rows, shape.rows);
    let is_serial = !parallel || rows * count * shape.columns * depth <= SERIAL;
    // Few columns: rows are shared out too.
    let threads = if is_serial { 1 } else { rayon::current_num_threads() };
    let shares = if is_serial { 1 } else { (2 * threads).div_ceil(count).min(tiles.count) };
    let share = tiles.count.div_ceil(shares.max(tiles.count.div_ceil(SHARE)));
    let shares = tiles.count.div_ceil(share);
    // The buffer of this thread's last product: fresh memory costs more than what is written to it.
    let mut panels = PANELS.take();
    pack::left(left, tiles, form, is_serial || rows * depth < 1 << 14, &mut panels);
    let work = Work { set, panels: &panels, tiles, depth, form, parts };
    let task = |index: usize| {
        let (panel, first) = (index % count, index / count * share);
        work.column_panel(panel, first..(first + share).min(tiles.count));
    };
    if is_serial {
        (0..count * shares).for_each(task);
    } else {
        let least = (SERIAL / 2).div_ceil(share * tiles.most() * shape.columns * depth).max(1);
        (0..count * shares).into_par_iter().with_min_len(least).for_each(task);
    }
    PANELS.set(panels);
}

thread_local! {
    static PANELS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Products of one left operand under way.
struct Work<'a> {
    set: InstructionSet,
    /// The left operand, panel after panel.
    panels: &'a [f32],
    tiles: RowPanels,
    depth: usize,
    form: Form,
    parts: &'a [Part<'a, Right<'a>>],
}

impl Work<'_> {
    /// Computes a panel of columns of the results, for the row panels `tiles`.
    fn column_panel(&self, panel: usize, tiles: Range<usize>) {
        let (form, width) = (self.form, self.set.tile().columns);
        let depth = form.lines(self.depth);
        let (part, panel) = Part::find(self.parts, panel);
        let mut fresh = Vec::new();
        // 256 places along k at a time, whose panel of columns stays in the first-level cache for all row panels. The
        // stretches are added in their order: the result's bits depend on k alone.
        for start in (0..self.depth).step_by(DEPTH) {
            let places = start..(start + DEPTH).min(self.depth);
            let lines = form.lines(places.start)..form.lines(places.end);
            let right = match part.right {
                Right::Packed(packed) => {
                    let values = &packed.values[panel * depth * width..][..depth * width];
                    &values[lines.start * width..lines.end * width]
                }
                right => {
                    fresh.resize(lines.len() * width, 0.0);
                    pack::right(right, (panel * width, width), places, form, &mut fresh);
                    &fresh
                }
            };
            for tile in tiles.clone() {
                let rows = self.tiles.rows(tile);
                let height = rows.len();
                let left = &self.panels[rows.start * depth..rows.end * depth];
                let left = &left[lines.start * height..lines.end * height];
                let at = [rows.start, panel * width];
                let panels = kernel::Panels { left, right, height, form };
                kernel::tile(self.set, panels, part.adds || start > 0, at, &part.target);
            }
        }
    }
}
