//! Copies of values: all or some columns, times a number.

use std::ops::Range;

use candle_core::{Result, Tensor, bail};

use super::{expect, launch, rows};
use crate::sizes::ELEMENTS;
use crate::workspace::{Array, Operand, new_empty};

/// A range of columns: the width of a row, and the index of the first column.
struct Columns<'a> {
    tensor: &'a Tensor,
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
    launch(
        "columns",
        Some(from.tensor),
        values.div_ceil(ELEMENTS),
        &[from.tensor, to.tensor],
        &numbers,
        &[by],
    )
}

/// `x` times a number, rounded to the type of `x`, in memory of its own.
///
/// # Errors
/// No memory, the device's.
pub fn scaled(x: &dyn Operand, by: f64) -> Result<Array> {
    let out = new_empty(x, x.tensor().shape(), x.tensor().dtype())?;
    let width = x.tensor().elem_count();
    let all = |tensor| Columns { tensor, width, first: 0 };
    copy(&all(x.tensor()), &all(out.tensor()), (1, width), by)?;
    Ok(out)
}

/// Copies these columns of every row of `x` `[N, ..]`, seen as rows of `width` values; the result is `[N, ..]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn columns(x: &dyn Operand, width: usize, columns: Range<usize>) -> Result<Array> {
    let tensor = x.tensor();
    let (rows, count) = (rows(tensor, width, "columns")?, columns.len());
    if columns.end > width {
        bail!("columns: {columns:?} of {width}");
    }
    let first = tensor.dim(0)?;
    let out = new_empty(x, (first, rows * count / first), tensor.dtype())?;
    let to = Columns { tensor: out.tensor(), width: count, first: 0 };
    copy(&Columns { tensor, width, first: columns.start }, &to, (rows, count), 1.0)?;
    Ok(out)
}

/// Puts the rows of several arrays `[N, ..]` side by side, each seen as rows of its width; the result is `[N, ..]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn joined(parts: &[&dyn Operand], widths: &[usize]) -> Result<Array> {
    let tensor = parts[0].tensor();
    let (rows, width) = (rows(tensor, widths[0], "joined")?, widths.iter().sum::<usize>());
    let first = tensor.dim(0)?;
    let out = new_empty(parts[0], (first, rows * width / first), tensor.dtype())?;
    let mut at = 0;
    for (part, count) in parts.iter().zip(widths) {
        expect(part.tensor(), tensor.dtype(), rows * count, "joined")?;
        let from = Columns { tensor: part.tensor(), width: *count, first: 0 };
        let to = Columns { tensor: out.tensor(), width, first: at };
        copy(&from, &to, (rows, *count), 1.0)?;
        at += count;
    }
    Ok(out)
}
