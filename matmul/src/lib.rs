//! Matrix products on AVX-512, in f32 or with operands rounded to bf16 and sums in f32.
//!
//! A product is `out[m, n] = sum over k of left[m, k] right[k, n]`. Operands are packed into panels, the
//! right one perhaps long before ([`Packed`]: weights that many products share). Every element of the result
//! is summed in an order that depends on k alone, so it is the same bits whatever the number of threads and
//! whatever other rows are computed with it: a token's logits do not depend on its batch.
//!
//! Where the processor lacks AVX-512, [`supports`] says so and callers use another library.

#![warn(missing_docs)]

mod kernel;
mod pack;

use std::ops::Range;
use std::time::Instant;

use rayon::prelude::*;

/// Columns of a panel of the right operand: two vector registers.
const COLUMNS: usize = 32;
/// Most rows of a panel of the left operand: 28 of 32 registers hold sums.
const MAX_ROWS: usize = 14;
/// Words along k that are worked through at a time: a panel's share stays in the first-level cache.
const DEPTH: usize = 256;
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

/// Whether this processor has the instructions that products of this precision need.
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
    /// Panel after panel, each `[words along k][COLUMNS]`.
    words: Vec<u32>,
}

impl Packed {
    /// Packs `right` `[k, n]`.
    pub fn new(right: Matrix<'_>, precision: Precision) -> Self {
        let depth = precision.words(right.rows);
        let mut words = vec![0; right.columns.div_ceil(COLUMNS) * depth * COLUMNS];
        words.par_chunks_mut((depth * COLUMNS).max(1)).enumerate().for_each(|(panel, out)| {
            pack::right(right, panel * COLUMNS, 0..depth, precision, out);
        });
        Self { precision, k: right.rows, columns: right.columns, words }
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }
}

/// The right operand of one product.
#[derive(Clone, Copy)]
enum Right<'a> {
    Packed(&'a Packed),
    Plain(Matrix<'a>),
}

/// `left` `[m, k]` times `right` `[k, n]`, row after row.
///
/// # Panics
/// Where the inner sizes differ, or the processor does not support the precision.
pub fn product(left: Matrix<'_>, right: Matrix<'_>, precision: Precision) -> Vec<f32> {
    assert_eq!(left.columns, right.rows, "inner sizes");
    run(left, Right::Plain(right), right.columns, precision)
}

/// `left` `[m, k]` times what was packed, row after row.
///
/// # Panics
/// Where the inner sizes differ, or the processor does not support the precision.
pub fn product_packed(left: Matrix<'_>, right: &Packed) -> Vec<f32> {
    assert_eq!(left.columns, right.k, "inner sizes");
    run(left, Right::Packed(right), right.columns, right.precision)
}

fn run(left: Matrix<'_>, right: Right<'_>, columns: usize, precision: Precision) -> Vec<f32> {
    assert!(supports(precision), "this processor has no instructions for {precision:?} products");
    let (rows, depth) = (left.rows, precision.words(left.columns));
    let mut out = vec![0f32; rows * columns];
    if out.is_empty() || depth == 0 {
        return out;
    }
    // Panels of about one height, so that the last is not much emptier than the others.
    let height = rows.div_ceil(rows.div_ceil(MAX_ROWS));
    let is_serial = rows * columns * depth <= SERIAL;
    let count = columns.div_ceil(COLUMNS);
    // Few columns: rows are shared out too.
    let threads = rayon::current_num_threads();
    let row_panels = rows.div_ceil(height);
    let shares = (2 * threads).div_ceil(count).min(row_panels);
    let share = row_panels.div_ceil(shares);
    let work = Work {
        panels: &pack::left(left, height, precision, is_serial || rows * depth < 1 << 14),
        height,
        depth,
        right,
        precision,
        target: kernel::Target::new(&mut out, columns),
    };
    let task = |index: usize| {
        let (panel, first) = (index / shares, index % shares * share);
        work.column_panel(panel, first..(first + share).min(row_panels));
    };
    let least = (SERIAL / 2).div_ceil(share * height * COLUMNS * depth).max(1);
    if is_serial {
        (0..count * shares).for_each(task);
    } else {
        (0..count * shares).into_par_iter().with_min_len(least).for_each(task);
    }
    out
}

/// One product under way.
struct Work<'a> {
    /// The left operand, panel after panel.
    panels: &'a [u32],
    height: usize,
    depth: usize,
    right: Right<'a>,
    precision: Precision,
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
                Right::Plain(matrix) => {
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
                kernel::tile(left, right, self.precision, start > 0, at, &self.target);
            }
        }
    }
}

/// Floating-point operations a second that all threads reach together on operands in the first-level
/// cache: the limit of any product.
///
/// # Panics
/// Where the processor does not support the precision.
pub fn peak(precision: Precision) -> f64 {
    assert!(supports(precision), "this processor has no instructions for {precision:?} products");
    let (left, right) = (vec![0; DEPTH * MAX_ROWS], vec![0; DEPTH * COLUMNS]);
    let threads = rayon::current_num_threads();
    let pass = |tiles: usize| {
        let start = Instant::now();
        (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
            let mut out = vec![0f32; MAX_ROWS * COLUMNS];
            let target = kernel::Target::new(&mut out, COLUMNS);
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
    (2 * MAX_ROWS * COLUMNS * DEPTH * words * tiles * threads) as f64 / seconds
}
