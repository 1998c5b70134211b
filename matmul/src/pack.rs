//! Operands into panels: for every place along k, the values of a panel's rows or columns side by side; of bfloat16
//! for every two places. What a panel has too much is zero.

use std::ops::Range;

use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::InstructionSet;
use super::bfloat16::{Form, Value, rounded};
#[cfg(target_arch = "x86_64")]
use super::kernel::packing::{InputLines, PanelPart};
use super::{Blocks, Matrix, Right, vectorized};

/// Places along k, and columns, that are transposed or rounded at a time.
const BLOCK: usize = 16;

/// Rows in panels of nearly one height: the first ones may have a row more than the others, and none is padded, since a
/// row that is not there takes as long as one that is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowPanels {
    all: usize,
    pub(super) count: usize,
}

impl RowPanels {
    /// As few panels of at most `most` rows as hold `rows`, which are not none.
    pub(super) fn new(rows: usize, most: usize) -> Self {
        Self { all: rows, count: rows.div_ceil(most) }
    }

    /// Rows of the highest panel.
    pub(super) fn most(self) -> usize {
        self.all.div_ceil(self.count)
    }

    /// How many panels are of that height; the others have a row less.
    fn highest(self) -> usize {
        self.all - (self.most() - 1) * self.count
    }

    /// The rows of a panel.
    pub(super) fn rows(self, panel: usize) -> Range<usize> {
        let start = |panel: usize| panel * (self.most() - 1) + panel.min(self.highest());
        start(panel)..start(panel + 1)
    }
}

/// Panels of the rows of `left` `[m, k]`, each `[lines of the form][rows]`, to the beginning of `out`.
pub(super) fn left(
    left: Matrix<'_>,
    panels: RowPanels,
    form: Form,
    serial: bool,
    out: &mut Vec<f32>,
) {
    let depth = left.columns;
    let lines = form.lines(depth);
    let needed = left.rows * lines;
    if out.len() < needed {
        out.resize(needed, 0.0);
    }
    let matrix = left.transposed();
    let fill = |(panel, out): (usize, &mut [f32])| {
        let rows = panels.rows(panel);
        let panel = Panel { first: rows.start, width: rows.len(), range: 0..depth, form };
        panel.of_singles(matrix, out);
    };
    let high = panels.most() * lines;
    let (highest, others) = out[..needed].split_at_mut(panels.highest() * high);
    // Where all are of one height, which may be one row, no others are there.
    let low = (high - lines).max(1);
    if serial {
        highest.chunks_mut(high).chain(others.chunks_mut(low)).enumerate().for_each(fill);
    } else {
        let each = highest.par_chunks_mut(high).chain(others.par_chunks_mut(low));
        each.enumerate().for_each(fill);
    }
}

/// The places `range` along k of a panel of `right` `[k, n]`, which is not packed: `width` columns from `first` on. In
/// pairs the range begins with a first place, and ends with a second one or with k.
pub(super) fn right(
    right: Right<'_>,
    (first, width): (usize, usize),
    range: Range<usize>,
    form: Form,
    out: &mut [f32],
) {
    let panel = Panel { first, width, range, form };
    match right {
        Right::Plain(matrix) | Right::Rounded(matrix) => panel.of_singles(matrix, out),
        Right::Half(matrix) => panel.of_matrix(matrix, out),
        Right::Blocks(blocks) => panel.fill(blocks, out),
        Right::Packed(_) | Right::Quantized(_) => unreachable!("it is in panels"),
    }
}

/// An operand `[k, n]` that stands in lines, along k or along n.
trait Lines: Copy {
    fn columns(&self) -> usize;
    /// Whether a line holds a column's values along k, else a row's.
    fn are_along_k(&self) -> bool;
    /// Values of a line from `start` on.
    fn read(&self, line: usize, start: usize, out: &mut [f32]);
}

impl<T: Value> Lines for Matrix<'_, T> {
    fn columns(&self) -> usize {
        self.columns
    }

    fn are_along_k(&self) -> bool {
        self.column_stride != 1
    }

    #[inline(always)]
    fn read(&self, line: usize, start: usize, out: &mut [f32]) {
        // One of the strides is 1.
        let values = &self.data[line * self.row_stride.max(self.column_stride) + start..];
        match (<&mut [f32; BLOCK]>::try_from(&mut *out), values.first_chunk::<BLOCK>()) {
            (Ok(out), Some(values)) => {
                for (out, x) in out.iter_mut().zip(values) {
                    *out = x.wide();
                }
            }
            _ => {
                for (out, x) in out.iter_mut().zip(values) {
                    *out = x.wide();
                }
            }
        }
    }
}

impl Lines for Blocks<'_> {
    fn columns(&self) -> usize {
        self.sizes().1
    }

    fn are_along_k(&self) -> bool {
        self.is_transposed()
    }

    #[inline(always)]
    fn read(&self, line: usize, start: usize, out: &mut [f32]) {
        self.widen(line, start, out);
    }
}

/// For each place of `range` along k, the `width` columns of an operand from `first` on.
struct Panel {
    first: usize,
    width: usize,
    range: Range<usize>,
    form: Form,
}

impl Panel {
    fn of_singles(&self, matrix: Matrix<'_>, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if self.form == Form::Single && InstructionSet::in_use() == InstructionSet::Avx512 {
            let (part, lines) = self.in_registers(matrix);
            // SAFETY: the processor has the instructions of the set in use.
            return unsafe { part.singles(matrix.data, lines, out) };
        }
        self.of_matrix(matrix, out);
    }

    fn of_matrix<T: Value>(&self, matrix: Matrix<'_, T>, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if self.form == Form::Pairs {
            let (part, lines) = self.in_registers(matrix);
            // SAFETY: panels are of this form where the processor has the instructions.
            return unsafe { part.pairs(matrix.data, lines, out) };
        }
        self.fill(matrix, out);
    }

    fn fill(&self, lines: impl Lines, out: &mut [f32]) {
        vectorized(
            #[inline(always)]
            || {
                let there = self.width.min(lines.columns() - self.first);
                if self.form != Form::Single {
                    self.exchanged(lines, there, out);
                } else if lines.are_along_k() {
                    self.along_k(lines, there, out);
                } else {
                    self.along_columns(lines, there, out);
                }
            },
        );
    }

    /// Where the columns, of which so many are `there`, stand side by side.
    #[inline(always)]
    fn along_columns(&self, lines: impl Lines, there: usize, out: &mut [f32]) {
        for (out, k) in out.chunks_exact_mut(self.width).zip(self.range.clone()) {
            let (out, rest) = out.split_at_mut(there);
            rest.fill(0.0);
            lines.read(k, self.first, out);
        }
    }

    /// Where the values along k stand side by side: blocks are transposed.
    #[inline(always)]
    fn along_k(&self, lines: impl Lines, there: usize, out: &mut [f32]) {
        let Self { first, width, range, .. } = self;
        for start in range.clone().step_by(BLOCK) {
            let places = (range.end - start).min(BLOCK);
            let out = &mut out[(start - range.start) * width..][..places * width];
            for from in (0..*width).step_by(BLOCK) {
                // Missing values are zero. In a block lines are read and columns written within 1 KiB, not with a
                // stride of a line.
                let mut block = [[0f32; BLOCK]; BLOCK];
                let columns = there.saturating_sub(from).min(BLOCK);
                for (column, line) in block.iter_mut().enumerate().take(columns) {
                    lines.read(first + from + column, start, &mut line[..places]);
                }
                let block = transposed(block);
                for (line, out) in block.iter().zip(out.chunks_exact_mut(*width)) {
                    put(line, &mut out[from..]);
                }
            }
        }
    }

    /// Rounded, the places of each pair exchanged.
    #[inline(always)]
    fn exchanged(&self, lines: impl Lines, there: usize, out: &mut [f32]) {
        let width = self.width;
        if lines.are_along_k() {
            self.along_k(lines, there, out);
        } else {
            self.along_columns(lines, there, out);
        }
        let places = self.range.len() * width;
        for x in &mut out[..places] {
            *x = f32::from_bits(rounded(*x));
        }
        // What a last pair lacks.
        out[places..].fill(0.0);
        for pair in out.chunks_exact_mut(2 * width) {
            let (first, second) = pair.split_at_mut(width);
            first.swap_with_slice(second);
        }
    }

    /// The part of the panel that is filled in registers, and how the matrix stands.
    #[cfg(target_arch = "x86_64")]
    fn in_registers<T>(&self, matrix: Matrix<'_, T>) -> (PanelPart, InputLines) {
        let there = self.width.min(matrix.columns - self.first);
        let range = self.range.clone();
        let lines = match matrix.column_stride {
            1 => InputLines::AlongColumns(matrix.row_stride),
            stride => InputLines::AlongK(stride),
        };
        (PanelPart { first: self.first, width: self.width, there, range }, lines)
    }
}

/// Copies a line, or as much of it as fits.
#[inline(always)]
fn put(line: &[f32; BLOCK], out: &mut [f32]) {
    match out.first_chunk_mut() {
        Some(out) => *out = *line,
        None => out.copy_from_slice(&line[..out.len()]),
    }
}

/// Rows and columns exchanged. An element's place is four bits of its row and four of its column; each of four rounds
/// moves the first bit of the row behind the column, and the first of the column behind the row.
#[inline(always)]
fn transposed(block: [[f32; BLOCK]; BLOCK]) -> [[f32; BLOCK]; BLOCK] {
    const { assert!(BLOCK == 16) };
    interleaved(interleaved(interleaved(interleaved(block))))
}

/// Row `r` and row `r + 8` value by value, which become rows `2 r` and `2 r + 1`.
#[inline(always)]
fn interleaved(block: [[f32; BLOCK]; BLOCK]) -> [[f32; BLOCK]; BLOCK] {
    const HALF: usize = BLOCK / 2;
    let mut out = block;
    for row in 0..HALF {
        for column in 0..HALF {
            out[2 * row][2 * column] = block[row][column];
            out[2 * row][2 * column + 1] = block[row + HALF][column];
            out[2 * row + 1][2 * column] = block[row][column + HALF];
            out[2 * row + 1][2 * column + 1] = block[row + HALF][column + HALF];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::RowPanels;

    #[test]
    fn row_panels_cover_each_row_once_with_near_equal_heights() {
        for rows in 1..200 {
            for most in [4, 5, 6, 14] {
                let panels = RowPanels::new(rows, most);
                let each: Vec<_> = (0..panels.count).map(|panel| panels.rows(panel)).collect();
                assert!(each[0].start == 0 && each[panels.count - 1].end == rows);
                assert!(each.windows(2).all(|two| two[0].end == two[1].start));
                let heights: Vec<usize> = each.iter().map(|rows| rows.len()).collect();
                assert!(panels.most() <= most && heights[0] == panels.most(), "{heights:?}");
                assert!(heights.is_sorted_by(|a, b| a == b || *a == b + 1), "{heights:?}");
                let highest = heights.iter().filter(|x| **x == panels.most()).count();
                assert_eq!(highest, panels.highest());
            }
        }
    }
}
