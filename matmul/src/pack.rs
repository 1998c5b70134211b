//! Operands into panels: for every place along k, the values of a panel's rows or columns side by side; of bfloat16
//! for every two places. What a panel has too much is zero. AMX takes the left operand's values row by row instead.

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

/// Values of a line of the cache.
const LINE: usize = 16;

/// Rows in panels of nearly one height: the first ones may have a row more than the others, and none is padded, since a
/// row that is not there takes as long as one that is. Where rows are packed `together`, such units take their place.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowPanels {
    all: usize,
    together: usize,
    pub(super) count: usize,
}

impl RowPanels {
    /// As few panels of at most `most` rows, some units, as hold `rows`, which are not none.
    pub(super) fn new(rows: usize, most: usize, together: usize) -> Self {
        let most = (most / together).max(1);
        Self { all: rows, together, count: rows.div_ceil(together).div_ceil(most) }
    }

    fn units(self) -> usize {
        self.all.div_ceil(self.together)
    }

    /// Rows of the highest panel, whole units.
    pub(super) fn most(self) -> usize {
        self.units().div_ceil(self.count) * self.together
    }

    /// How many panels are of that height; the others have a unit less.
    fn highest(self) -> usize {
        self.units() - (self.most() / self.together - 1) * self.count
    }

    pub(super) fn rows(self, panel: usize) -> Range<usize> {
        let low = self.most() - self.together;
        let start = |panel: usize| panel * low + panel.min(self.highest()) * self.together;
        start(panel)..start(panel + 1).min(self.all)
    }
}

/// Panels of the rows of `left` `[m, k]`, each `[lines of the form][rows]`, in the memory of `out`. In tiles of AMX
/// they are of 16 rows each, whatever the panels.
pub(super) fn left<'a>(
    left: Matrix<'_>,
    panels: RowPanels,
    form: Form,
    serial: bool,
    out: &'a mut Vec<f32>,
) -> &'a [f32] {
    let depth = left.columns;
    let lines = form.lines(depth);
    let together = form.rows_together();
    let panels = if together > 1 { RowPanels::new(left.rows, together, together) } else { panels };
    let needed = left.rows.next_multiple_of(together) * lines;
    if out.len() < needed + LINE {
        out.resize(needed + LINE, 0.0);
    }
    // A tile of AMX loads half as fast from rows that lie in two lines.
    let start = out.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
    let out = &mut out[start..][..needed];
    let matrix = left.transposed();
    let fill = |(panel, out): (usize, &mut [f32])| {
        let rows = panels.rows(panel);
        let width = rows.len().next_multiple_of(together);
        let panel = Panel { first: rows.start, width, range: 0..depth, form };
        match form {
            Form::Tiles => panel.tiles(matrix, out),
            _ => panel.of_singles(matrix, out),
        }
    };
    let high = panels.most() * lines;
    let (highest, others) = out.split_at_mut(panels.highest() * high);
    // Where all are of one height, which may be one row, no others are there.
    let low = (high - together * lines).max(1);
    if serial {
        highest.chunks_mut(high).chain(others.chunks_mut(low)).enumerate().for_each(fill);
    } else {
        let each = highest.par_chunks_mut(high).chain(others.par_chunks_mut(low));
        each.enumerate().for_each(fill);
    }
    out
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
        if self.form == Form::Single && InstructionSet::in_use().has_avx512() {
            let (part, lines) = self.in_registers(matrix);
            // SAFETY: the processor has the instructions of the set in use.
            return unsafe { part.singles(matrix.data, lines, out) };
        }
        self.of_matrix(matrix, out);
    }

    fn of_matrix<T: Value>(&self, matrix: Matrix<'_, T>, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if matches!(self.form, Form::Pairs | Form::Tiles) {
            let (part, lines) = self.in_registers(matrix);
            // SAFETY: panels are of these forms where the processor has the instructions.
            unsafe { part.pairs(matrix.data, lines, out) };
            // What a last tile lacks.
            return out[self.range.len().div_ceil(2) * self.width..].fill(0.0);
        }
        self.fill(matrix, out);
    }

    /// A panel of 16 rows of a left operand, which stand as columns here, in tiles of AMX.
    fn tiles(&self, matrix: Matrix<'_>, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        {
            let (part, lines) = self.in_registers(matrix);
            // SAFETY: panels are of this form where the processor has the instructions.
            unsafe { part.tiles(matrix.data, lines, out) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("no tiles of {} columns to {}", matrix.columns, out.len());
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
            for (most, together) in [(4, 1), (5, 1), (6, 1), (14, 1), (16, 16), (32, 16), (80, 16)]
            {
                let panels = RowPanels::new(rows, most, together);
                let each: Vec<_> = (0..panels.count).map(|panel| panels.rows(panel)).collect();
                assert!(each[0].start == 0 && each[panels.count - 1].end == rows);
                assert!(each.windows(2).all(|two| two[0].end == two[1].start));
                let heights: Vec<usize> = each.iter().map(|rows| rows.len()).collect();
                let units: Vec<usize> = heights.iter().map(|x| x.div_ceil(together)).collect();
                let highest = panels.most() / together;
                assert!(panels.most() <= most && units[0] == highest, "{heights:?}");
                assert!(units.is_sorted_by(|a, b| a == b || *a == b + 1), "{heights:?}");
                // None is padded but the last.
                assert!(each.iter().all(|rows| rows.start.is_multiple_of(together)));
                let count = units.iter().filter(|x| **x == highest).count();
                assert_eq!(count, panels.highest());
            }
        }
    }
}
