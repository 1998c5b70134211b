//! Matrix products on AVX-512, in f32 or with operands rounded to bf16 and sums in f32.
//!
//! A product is `out[m, n] = sum over k of left[m, k] right[k, n]`. Operands are packed into panels, the
//! right one perhaps long before ([`Packed`]: weights that many products share). Every element of the result
//! is summed in an order that depends on k alone, so it is the same bits whatever the number of threads and
//! whatever other rows are computed with it: a token's logits do not depend on its batch.
//!
//! Where the processor lacks AVX-512 the `gemm` crate does the work: rows may then differ in rounding from
//! batch to batch.

#![warn(missing_docs)]

mod kernel;
mod pack;
mod portable;

use std::cell::Cell;
use std::ops::Range;
use std::time::Instant;

use rayon::prelude::*;

/// Columns of a panel of the right operand: two vector registers.
const COLUMNS: usize = 32;
/// Most rows of a panel of the left operand: 28 of 32 registers hold sums.
const MAX_ROWS: usize = 14;
/// Words along k that are worked through at a time: a panel's share stays in the first-level cache.
const DEPTH: usize = 256;
/// Most row panels that go through a panel of columns together: their share of the left operand stays in
/// the second-level cache.
const SHARE: usize = 64;
/// Multiplications below which a product is not worth a second thread.
const SERIAL: usize = 1 << 17;

/// How operands enter the products; sums are f32 in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    F32,
    /// Rounded to the nearest bf16, two to a word.
    Bf16,
}

impl Precision {
    /// Words of 32 bits along `k` values.
    fn words(self, k: usize) -> usize {
        match self {
            Precision::F32 => k,
            Precision::Bf16 => k.div_ceil(2),
        }
    }
}

/// Whether products of this precision run on this processor's AVX-512, and so do not depend on the batch.
pub fn supports(precision: Precision) -> bool {
    kernel::supports(precision)
}

/// A matrix in a slice: element `(r, c)` stands at `r * row_stride + c * column_stride`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Row after row.
    ///
    /// # Panics
    /// Where `data` is not `rows * columns` long.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix of {rows} x {columns}");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Columns of a wider matrix: rows begin `stride` values apart.
    ///
    /// # Panics
    /// Where `data` is too short.
    pub fn strided(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
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
    precision: Precision,
    k: usize,
    columns: usize,
    /// Panel after panel, each `[words along k][COLUMNS]`; without our kernels, f32 row after row.
    words: Vec<u32>,
}

impl Packed {
    /// Packs `right` `[k, n]`.
    pub fn new(right: Matrix<'_>, precision: Precision) -> Self {
        Self::within(right, precision, |count| vec![0; count])
    }

    /// The same into the words that `room` gives for a count, whatever they hold: memory that a process has
    /// had before is faster than new.
    pub fn within(
        right: Matrix<'_>,
        precision: Precision,
        room: impl FnOnce(usize) -> Vec<u32>,
    ) -> Self {
        let (k, columns) = (right.rows, right.columns);
        if !supports(precision) {
            return Self { precision, k, columns, words: portable::rows(right, precision) };
        }
        let depth = precision.words(k);
        let mut words = room(columns.div_ceil(COLUMNS) * depth * COLUMNS);
        words.par_chunks_mut((depth * COLUMNS).max(1)).enumerate().for_each(|(panel, out)| {
            pack::right(right, panel * COLUMNS, 0..depth, precision, out);
        });
        Self { precision, k, columns, words }
    }

    /// The words, for another use of their memory.
    pub fn into_words(self) -> Vec<u32> {
        self.words
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }
}

/// The right operand `[k, n]` of a product.
#[derive(Debug, Clone, Copy)]
pub enum Right<'a> {
    /// Packed before.
    Packed(&'a Packed),
    /// Packed while the product goes on.
    Plain(Matrix<'a>, Precision),
}

impl Right<'_> {
    fn sizes(&self) -> (usize, usize, Precision) {
        match self {
            Right::Packed(packed) => (packed.k, packed.columns, packed.precision),
            Right::Plain(matrix, precision) => (matrix.rows, matrix.columns, *precision),
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
    let (k, columns, precision) = right.sizes();
    assert_eq!(left.columns, k, "inner sizes");
    if left.rows == 0 || columns == 0 {
        return;
    }
    assert!(out.stride >= columns && out.data.len() >= (left.rows - 1) * out.stride + columns);
    if !supports(precision) {
        return portable::multiply(left, right, out, parallel);
    }
    let (rows, depth) = (left.rows, precision.words(k));
    if depth == 0 {
        if !out.adds {
            out.data.chunks_mut(out.stride).take(rows).for_each(|row| row[..columns].fill(0.0));
        }
        return;
    }
    // Panels of about one height, so that the last is not much emptier than the others.
    let height = rows.div_ceil(rows.div_ceil(MAX_ROWS));
    let is_serial = !parallel || rows * columns * depth <= SERIAL;
    let count = columns.div_ceil(COLUMNS);
    // Few columns: rows are shared out too.
    let threads = if is_serial { 1 } else { rayon::current_num_threads() };
    let row_panels = rows.div_ceil(height);
    let shares = if is_serial { 1 } else { (2 * threads).div_ceil(count).min(row_panels) };
    let share = row_panels.div_ceil(shares.max(row_panels.div_ceil(SHARE)));
    let shares = row_panels.div_ceil(share);
    // The buffer of this thread's last product: fresh memory costs more than what is written to it.
    let mut panels = PANELS.take();
    pack::left(left, height, precision, is_serial || rows * depth < 1 << 14, &mut panels);
    let work = Work {
        panels: &panels,
        height,
        depth,
        right,
        precision,
        adds: out.adds,
        target: kernel::Target::new(out.data, rows, columns, out.stride),
    };
    let task = |index: usize| {
        let (panel, first) = (index % count, index / count * share);
        work.column_panel(panel, first..(first + share).min(row_panels));
    };
    if is_serial {
        (0..count * shares).for_each(task);
    } else {
        let least = (SERIAL / 2).div_ceil(share * height * COLUMNS * depth).max(1);
        (0..count * shares).into_par_iter().with_min_len(least).for_each(task);
    }
    PANELS.set(panels);
}

thread_local! {
    static PANELS: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// One product under way.
struct Work<'a> {
    /// The left operand, panel after panel.
    panels: &'a [u32],
    height: usize,
    depth: usize,
    right: Right<'a>,
    precision: Precision,
    adds: bool,
    target: kernel::Target<'a>,
}

impl Work<'_> {
    /// Computes a panel of columns of the result, for the row panels `tiles`.
    fn column_panel(&self, panel: usize, tiles: Range<usize>) {
        let (height, depth) = (self.height, self.depth);
        let mut fresh = Vec::new();
        for start in (0..depth).step_by(DEPTH) {
            let words = start..(start + DEPTH).min(depth);
            let right = match self.right {
                Right::Packed(packed) => {
                    let own = &packed.words[panel * depth * COLUMNS..][..depth * COLUMNS];
                    &own[words.start * COLUMNS..words.end * COLUMNS]
                }
                Right::Plain(matrix, _) => {
                    fresh.resize(words.len() * COLUMNS, 0);
                    let first = panel * COLUMNS;
                    pack::right(matrix, first, words.clone(), self.precision, &mut fresh);
                    &fresh
                }
            };
            for tile in tiles.clone() {
                let own = &self.panels[tile * depth * height..][..depth * height];
                let left = &own[words.start * height..words.end * height];
                let at = [tile * height, panel * COLUMNS];
                kernel::tile(left, right, self.precision, self.adds || start > 0, at, &self.target);
            }
        }
    }
}

/// Floating-point operations a second that all threads reach together on operands in the first-level
/// cache: the limit of any product. None where our kernels do not run.
pub fn peak(precision: Precision) -> Option<f64> {
    if !supports(precision) {
        return None;
    }
    let (left, right) = (vec![0; DEPTH * MAX_ROWS], vec![0; DEPTH * COLUMNS]);
    let threads = rayon::current_num_threads();
    let pass = |tiles: usize| {
        let start = Instant::now();
        (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
            let mut out = vec![0f32; MAX_ROWS * COLUMNS];
            let target = kernel::Target::new(&mut out, MAX_ROWS, COLUMNS, COLUMNS);
            for _ in 0..tiles {
                kernel::tile(&left, &right, precision, true, [0, 0], &target);
            }
        });
        start.elapsed().as_secs_f64()
    };
    pass(1000);
    let tiles = 20_000;
    let seconds = (0..5).map(|_| pass(tiles)).fold(f64::INFINITY, f64::min);
    let words = match precision {
        Precision::F32 => 1,
        Precision::Bf16 => 2,
    };
    Some((2 * MAX_ROWS * COLUMNS * DEPTH * words * tiles * threads) as f64 / seconds)
}
