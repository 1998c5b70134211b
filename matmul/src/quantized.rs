//! Products of 8-bit integers: a right operand that was rounded before, and a left one that is rounded row by row.
//!
//! Values along k share a scale in groups of [`GROUP`]: `x ~ scale * q` with `q` from -127 to 127 and the largest of a
//! group at an end. Sums of products within a group are whole numbers, and so exact; groups are added in f32 in their
//! order. A result is the same bits on every processor and in every batch.

use rayon::prelude::*;

use super::{COLUMNS, Matrix, Part, Right, SERIAL, kernel, pack, vnni};

/// Values along k that share a scale.
pub(super) const GROUP: usize = 32;
/// Places along k that one instruction takes.
pub(super) const QUAD: usize = 4;
/// Most rows of a tile: half of the registers hold whole sums, half those of a group.
pub(super) const MAX_ROWS: usize = 6;

/// A right operand `[k, n]` in 8 bits.
#[derive(Debug)]
pub struct Quantized {
    k: usize,
    columns: usize,
    /// Panel after panel, each `[k / QUAD][COLUMNS][QUAD]`, 128 more than the rounded values; what is past k or the
    /// columns is zero.
    values: Vec<u8>,
    /// Panel after panel, each `[groups][COLUMNS]`.
    scales: Vec<f32>,
}

/// A left operand `[m, k]` in 8 bits.
struct Rows {
    /// Row after row, each whole quads.
    values: Vec<i8>,
    /// `[m][groups]`.
    scales: Vec<f32>,
    /// `[m][groups]`: what a group's sum begins with, for the 128 too many of the right operand.
    begin: Vec<i32>,
}

/// A tile of rows times a panel of columns.
pub(super) struct Tile<'a> {
    /// Its rows, and values of each.
    pub(super) left: &'a [i8],
    /// Of its rows, groups each.
    pub(super) left_scales: &'a [f32],
    pub(super) begin: &'a [i32],
    pub(super) right: &'a [u8],
    pub(super) right_scales: &'a [f32],
    pub(super) rows: usize,
}

impl Quantized {
    /// Rounds a matrix.
    pub fn new(right: Right<'_>) -> Self {
        let (k, columns) = right.sizes();
        let (panels, quads, groups) =
            (columns.div_ceil(COLUMNS), k.div_ceil(QUAD), k.div_ceil(GROUP));
        let mut values = vec![128u8; panels * quads * COLUMNS * QUAD];
        let mut scales = vec![0f32; panels * groups * COLUMNS];
        let each = values.par_chunks_mut((quads * COLUMNS * QUAD).max(1));
        let each = each.zip(scales.par_chunks_mut((groups * COLUMNS).max(1))).enumerate();
        each.for_each_init(Vec::new, |wide, (panel, (values, scales))| {
            wide.resize(k * COLUMNS, 0f32);
            pack::right(right, panel * COLUMNS, 0..k, wide);
            let groups = wide.chunks(GROUP * COLUMNS).zip(scales.chunks_exact_mut(COLUMNS));
            for (group, (wide, scales)) in groups.enumerate() {
                let mut most = [0u32; COLUMNS];
                for line in wide.as_chunks::<COLUMNS>().0 {
                    most.iter_mut().zip(line).for_each(|(most, x)| *most = (*most).max(size(*x)));
                }
                let inverse = most.map(|most| inverse(f32::from_bits(most)));
                scales.iter_mut().zip(most).for_each(|(s, most)| *s = f32::from_bits(most) / 127.0);
                for (place, line) in wide.as_chunks::<COLUMNS>().0.iter().enumerate() {
                    let k = group * GROUP + place;
                    let out = &mut values[k / QUAD * COLUMNS * QUAD..][..COLUMNS * QUAD];
                    for (column, (x, inverse)) in line.iter().zip(inverse).enumerate() {
                        out[column * QUAD + k % QUAD] = (rounded(x * inverse) + 128) as u8;
                    }
                }
            }
        });
        Self { k, columns, values, scales }
    }

    /// `(k, n)`.
    pub fn sizes(&self) -> (usize, usize) {
        (self.k, self.columns)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.values.len() + self.scales.len() * 4
    }
}

/// The bits of a value's size: they are in the order of sizes, with what is not a number as the largest.
#[inline(always)]
fn size(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

/// What values of a group are multiplied by before they are rounded.
#[inline(always)]
fn inverse(most: f32) -> f32 {
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

impl Rows {
    fn new(left: Matrix<'_>, parallel: bool) -> Self {
        let (rows, k) = (left.rows, left.columns);
        let (width, groups) = (k.next_multiple_of(QUAD), k.div_ceil(GROUP));
        let mut all = Self {
            values: vec![0; rows * width],
            scales: vec![0.0; rows * groups],
            begin: vec![0; rows * groups],
        };
        let Self { values, scales, begin } = &mut all;
        let fill = |(row, ((values, scales), begin)): (usize, ((&mut [i8], _), _))| {
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
fn row_to(line: &[f32], values: &mut [i8], scales: &mut [f32], begin: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if kernel::is_supported() {
        // SAFETY: the processor has AVX-512.
        return unsafe { row_to_wide(line, values, scales, begin) };
    }
    row_to_as_compiled(line, values, scales, begin);
}

/// The same, compiled for AVX-512.
///
/// # Safety
/// The processor has it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,fma")]
unsafe fn row_to_wide(line: &[f32], values: &mut [i8], scales: &mut [f32], begin: &mut [i32]) {
    row_to_as_compiled(line, values, scales, begin);
}

#[inline(always)]
fn row_to_as_compiled(line: &[f32], values: &mut [i8], scales: &mut [f32], begin: &mut [i32]) {
    let groups = line.chunks(GROUP).zip(values.chunks_mut(GROUP));
    for ((line, values), (scale, begin)) in groups.zip(scales.iter_mut().zip(begin)) {
        let mut most = 0;
        for x in line {
            most = size(*x).max(most);
        }
        let most = f32::from_bits(most);
        let inverse = inverse(most);
        let mut sum = 0;
        for (value, x) in values.iter_mut().zip(line) {
            let rounded = rounded(x * inverse);
            *value = rounded as i8;
            sum += rounded;
        }
        (*scale, *begin) = (most / 127.0, -128 * sum);
    }
}

/// Writes or adds the products of `left`, which is rounded once for all; sizes are checked.
pub(super) fn multiply(left: Matrix<'_>, parts: &[Part<'_, &Quantized>], parallel: bool) {
    let (k, count, panels) = (left.columns, left.rows, Part::count(parts));
    let is_serial = !parallel || count * panels * COLUMNS * k <= 4 * SERIAL;
    let rows = Rows::new(left, !is_serial);
    let height = count.div_ceil(count.div_ceil(MAX_ROWS));
    let (width, groups) = (k.next_multiple_of(QUAD), k.div_ceil(GROUP));
    let panel = |panel: usize| {
        let (part, panel) = Part::find(parts, panel);
        let own = &part.right.values[panel * width * COLUMNS..][..width * COLUMNS];
        let scales = &part.right.scales[panel * groups * COLUMNS..][..groups * COLUMNS];
        for first in (0..count).step_by(height) {
            let height = height.min(count - first);
            let tile = Tile {
                left: &rows.values[first * width..][..height * width],
                left_scales: &rows.scales[first * groups..][..height * groups],
                begin: &rows.begin[first * groups..][..height * groups],
                right: own,
                right_scales: scales,
                rows: height,
            };
            vnni::tile(&tile, part.adds, [first, panel * COLUMNS], &part.target);
        }
    };
    if is_serial {
        (0..panels).for_each(panel);
    } else {
        let least = (2 * SERIAL).div_ceil(count * COLUMNS * k).max(1);
        (0..panels).into_par_iter().with_min_len(least).for_each(panel);
    }
}
