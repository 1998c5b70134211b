//! Copies of values: all or some columns, times a number.

use std::ops::Range;

use candle_core::{Result, Tensor, bail};

use super::{expect, launch, rows};
use crate::sizes::ELEMENTS;
use crate::workspace::{Array, Operand, beside};

/// A range of columns: the width of a row, and the index of the first column.
struct Columns<'a> {
    of: &'a Tensor,
    width: usize,
    first: usize,
}

/// Copies `count` columns of every row, times a number.
fn copy(
    from: &Columns<'_>,
    to: &Columns<'_>,
    (rows, count): (usize, usize),
    by: f64,
) -> Result<()> {
    let values = rows * count;
    let numbers = [values, count, from.width, from.first, to.width, to.first];
    launch("columns", Some(from.of), values.div_ceil(ELEMENTS), &[from.of, to.of], &numbers, &[by])
}

/// `x` times a number, rounded to the type of `x`, in memory of its own.
///
/// # Errors
/// No memory, the device's.
pub fn scaled(x: &dyn Operand, by: f64) -> Result<Array> {
    let out = beside(x, x.tensor().shape(), x.tensor().dtype())?;
    let width = x.tensor().elem_count();
    let all = |of| Columns { of, width, first: 0 };
    copy(&all(x.tensor()), &all(out.tensor()), (1, width), by)?;
    Ok(out)
}

/// Copies these columns of every row of `x` `[N, ..]`, seen as rows of `width` values; the result is `[N, ..]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn columns(x: &dyn Operand, width: usize, columns: Range<usize>) -> Result<Array> {
    let of = x.tensor();
    let (rows, count) = (rows(of, width, "columns")?, columns.len());
    if columns.end > width {
        bail!("columns: {columns:?} of {width}");
    }
    let first = of.dim(0)?;
    let out = beside(x, (first, rows * count / first), of.dtype())?;
    let to = Columns { of: out.tensor(), width: count, first: 0 };
    copy(&Columns { of, width, first: columns.start }, &to, (rows, count), 1.0)?;
    Ok(out)
}

/// Puts the rows of several arrays `[N, ..]` side by side, each seen as rows of its width; the result is `[N, ..]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn joined(parts: &[&dyn Operand], widths: &[usize]) -> Result<Array> {
    let of = parts[0].tensor();
    let (rows, width) = (rows(of, widths[0], "joined")?, widths.iter().sum::<usize>());
    let first = of.dim(0)?;
    let out = beside(parts[0], (first, rows * width / first), of.dtype())?;
    let mut at = 0;
    for (part, count) in parts.iter().zip(widths) {
        expect(part.tensor(), of.dtype(), rows * count, "joined")?;
        let from = Columns { of: part.tensor(), width: *count, first: 0 };
        let to = Columns { of: out.tensor(), width, first: at };
        copy(&from, &to, (rows, *count), 1.0)?;
        at += count;
    }
    Ok(out)
}
