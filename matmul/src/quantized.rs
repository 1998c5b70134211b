//! Products of 8-bit integers: a right operand that was rounded before, and a left one that is rounded row by row.
//!
//! Values along k share a scale in groups of [`GROUP`]: `x ~ scale * q` with `q` from -127 to 127 and the largest of a
//! group at an end. Sums of products within a group are whole numbers, and so exact; groups are added in f32 in their
//! order. A result is the same bits on every processor and in every batch.

use std::ops::Range;

use rayon::prelude::*;

use super::bfloat16::Form;
use super::kernel::integers::{GROUP, IntegerKernel, Layout, Level, Tile};
use super::pack::{self, RowPanels};
use super::{Matrix, Part, Right, SERIAL, vectorized};

/// A right operand `[k, n]` in 8 bits.
#[derive(Debug)]
pub struct Quantized {
    k: usize,
    columns: usize,
    kernel: IntegerKernel,
    /// Panel after panel, each `[k / step][columns][step]` of the kernel's layout, 128 more than the rounded values;
    /// what is past k or the columns is zero.
    values: Vec<u8>,
    /// Panel after panel, each `[groups][columns]`.
    scales: Vec<f32>,
}

/// A left operand `[m, k]` in 8 bits.
struct Rows<T> {
    /// Row after row, each whole steps.
    values: Vec<T>,
    /// `[m][groups]`.
    scales: Vec<f32>,
    /// `[m][groups]`: what a group's sum begins with, for the 128 too many of the right operand.
    begin: Vec<i32>,
}

impl Quantized {
    /// Rounds a matrix: its values as they are stored.
    pub fn new(right: Right<'_>) -> Self {
        let (k, columns) = right.sizes();
        let kernel = IntegerKernel::in_use();
        let Layout { columns: width, step, .. } = kernel.layout();
        let (depth, groups) = (k.next_multiple_of(step), k.div_ceil(GROUP));
        let (num_values, num_scales) = lengths(kernel, (k, columns));
        let mut values = vec![128u8; num_values];
        let mut scales = vec![0f32; num_scales];
        let each = values.par_chunks_mut((depth * width).max(1));
        let each = each.zip(scales.par_chunks_mut((groups * width).max(1))).enumerate();
        each.for_each_init(Vec::new, |wide, (panel, (values, scales))| {
            wide.resize(k * width, 0f32);
            pack::right(right, (panel * width, width), 0..k, Form::Single, wide);
            vectorized(
                #[inline(always)]
                || panel_to(wide, kernel.layout(), values, scales),
            );
        });
        Self { k, columns, kernel, values, scales }
    }

    /// Whether this processor multiplies 8-bit integers faster than f32 with the instruction set in use; else such
    /// products are slower.
    pub fn is_accelerated() -> bool {
        IntegerKernel::in_use() != IntegerKernel::Written
    }

    /// `(k, n)`.
    pub fn sizes(&self) -> (usize, usize) {
        (self.k, self.columns)
    }

    /// Columns of a panel.
    pub(super) fn panel(&self) -> usize {
        self.kernel.layout().columns
    }

    /// Bytes of the rounded values and their scales.
    pub fn bytes(&self) -> usize {
        self.values.len() + self.scales.len() * 4
    }

    /// Bytes that a matrix `[k, n]` takes in 8 bits.
    pub fn bytes_for(sizes: (usize, usize)) -> usize {
        let (values, scales) = lengths(IntegerKernel::in_use(), sizes);
        values + scales * 4
    }
}

/// Numbers of values and of scales of a matrix `[k, n]`, whole panels each.
fn lengths(kernel: IntegerKernel, (k, columns): (usize, usize)) -> (usize, usize) {
    let Layout { columns: width, step, .. } = kernel.layout();
    let all_columns = columns.next_multiple_of(width);
    (all_columns * k.next_multiple_of(step), all_columns * k.div_ceil(GROUP))
}

/// The bits of a value's size: they are in the order of sizes, with what is not a number as the largest.
#[inline(always)]
fn size(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

/// The factor of a group's values before they are rounded.
#[inline(always)]
fn inverse_of(most: f32) -> f32 {
    if most > 0.0 { 127.0 / most } else { 0.0 }
}

/// The nearest whole number, the even one of two, of a value from -127 to 127. Of what is not a number it is any of
/// those: the scale is not a number then.
#[inline(always)]
fn rounded(x: f32) -> i32 {
    /// Values near it are whole numbers apart.
    const ROUND: f32 = 12_582_912.0;
    ((x + ROUND).to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32).clamp(-127, 127)
}

/// A panel `[k][columns]` in 8 bits, with its groups' scales.
#[inline(always)]
fn panel_to(wide: &[f32], layout: Layout, values: &mut [u8], scales: &mut [f32]) {
    let Layout { columns, step, .. } = layout;
    let groups = wide.chunks(GROUP * columns).zip(scales.chunks_exact_mut(columns));
    let mut inverses = vec![0f32; columns];
    for (group, (wide, scales)) in groups.enumerate() {
        for line in wide.chunks_exact(columns) {
            for (scale, x) in scales.iter_mut().zip(line) {
                // The largest |x| by its bits: a maximum of floats would lose a NaN.
                *scale = f32::from_bits(scale.to_bits().max(size(*x)));
            }
        }
        for (inverse, scale) in inverses.iter_mut().zip(scales) {
            *inverse = inverse_of(*scale);
            *scale /= 127.0;
        }
        for (place, line) in wide.chunks_exact(columns).enumerate() {
            let k = group * GROUP + place;
            let out = &mut values[k / step * columns * step..][..columns * step];
            let out = out[k % step..].iter_mut().step_by(step);
            for (out, (x, inverse)) in out.zip(line.iter().zip(&inverses)) {
                // x ~ q scale, scale = largest / 127: the largest is exact and no value is clipped.
                *out = (rounded(x * inverse) + 128) as u8;
            }
        }
    }
}

impl<T: Level> Rows<T> {
    fn new(left: Matrix<'_>, step: usize, parallel: bool) -> Self {
        let (rows, k) = (left.rows, left.columns);
        let (width, groups) = (k.next_multiple_of(step), k.div_ceil(GROUP));
        let mut all = Self {
            values: vec![T::default(); rows * width],
            scales: vec![0.0; rows * groups],
            begin: vec![0; rows * groups],
        };
        let Self { values, scales, begin } = &mut all;
        let fill = |(row, ((values, scales), begin)): (usize, ((&mut [T], _), _))| {
            let line = &left.data[row * left.row_stride..];
            if left.column_stride == 1 {
                return row_to(&line[..k], values, scales, begin);
            }
            let line: Vec<f32> = line.iter().step_by(left.column_stride).take(k).copied().collect();
            row_to(&line, values, scales, begin);
        };
        if parallel {
            let scales = scales.par_chunks_mut(groups).zip(begin.par_chunks_mut(groups));
            let each = values.par_chunks_mut(width).zip(scales).enumerate();
            each.with_min_len(8).for_each(|(row, (values, (s, e)))| fill((row, ((values, s), e))));
        } else {
            let scales = scales.chunks_mut(groups).zip(begin.chunks_mut(groups));
            let each = values.chunks_mut(width).zip(scales).enumerate();
            each.for_each(|(row, (values, (s, e)))| fill((row, ((values, s), e))));
        }
        all
    }
}

/// A row in 8 bits, with its groups' scales and beginnings.
fn row_to<T: Level>(line: &[f32], values: &mut [T], scales: &mut [f32], begin: &mut [i32]) {
    vectorized(
        #[inline(always)]
        || {
            let groups = line.chunks(GROUP).zip(values.chunks_mut(GROUP));
            for ((line, values), (scale, begin)) in groups.zip(scales.iter_mut().zip(begin)) {
                let mut most = 0;
                for x in line {
                    most = size(*x).max(most);
                }
                let most = f32::from_bits(most);
                let inverse = inverse_of(most);
                let mut sum = 0;
                for (value, x) in values.iter_mut().zip(line) {
                    let rounded = rounded(x * inverse);
                    *value = T::from(rounded as i8);
                    sum += rounded;
                }
                // sum (q_y + 128) q_x - 128 sum q_x = sum q_y q_x.
                (*scale, *begin) = (most / 127.0, -128 * sum);
            }
        },
    );
}

/// Writes or adds the products of `left`, which is rounded once for all; sizes are checked.
pub(super) fn multiply(left: Matrix<'_>, parts: &[Part<'_, &Quantized>], parallel: bool) {
    match IntegerKernel::in_use() {
        IntegerKernel::Vnni | IntegerKernel::AvxVnni => {
            multiply_levels::<i8>(left, parts, parallel)
        }
        IntegerKernel::Pairs | IntegerKernel::Written => {
            multiply_levels::<i16>(left, parts, parallel);
        }
    }
}

fn multiply_levels<T: Level>(left: Matrix<'_>, parts: &[Part<'_, &Quantized>], parallel: bool) {
    let kernel = IntegerKernel::in_use();
    let layout = kernel.layout();
    let (k, count, panels) = (left.columns, left.rows, Part::count(parts));
    let is_serial = !parallel || count * panels * layout.columns * k <= 4 * SERIAL;
    let rows = Rows::<T>::new(left, layout.step, !is_serial);
    let tiles = RowPanels::new(count, layout.rows, 1);
    let (width, groups) = (k.next_multiple_of(layout.step), k.div_ceil(GROUP));
    let panel = |panel: usize| {
        let (part, panel) = Part::find(parts, panel);
        let (size, scales) = (width * layout.columns, groups * layout.columns);
        for tile in 0..tiles.count {
            let Range { start: first, end } = tiles.rows(tile);
            let height = end - first;
            let tile = Tile {
                left: &rows.values[first * width..][..height * width],
                left_scales: &rows.scales[first * groups..][..height * groups],
                begin: &rows.begin[first * groups..][..height * groups],
                right: &part.right.values[panel * size..][..size],
                right_scales: &part.right.scales[panel * scales..][..scales],
                rows: height,
                layout,
            };
            T::tile(kernel, &tile, part.adds, [first, panel * layout.columns], &part.target);
        }
    };
    if is_serial {
        (0..panels).for_each(panel);
    } else {
        let least = (2 * SERIAL).div_ceil(count * layout.columns * k).max(1);
        (0..panels).into_par_iter().with_min_len(least).for_each(panel);
    }
}
