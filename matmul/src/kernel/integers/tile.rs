//! A tile of rows times columns of 8-bit integers, written once for every kind of registers.

use super::{GROUP, Target, Tile};

/// Registers of one row of a tile at most, and columns.
const MOST_COLUMNS: usize = 32;

/// The registers and instructions of a kernel. A panel's columns are whole registers of [`Self::LANES`] columns.
///
/// # Safety
/// Every function is to be called where the instructions are there.
pub(super) unsafe trait Registers {
    /// A left value.
    type Left: Copy;
    /// f32, a column in each lane.
    type Floats: Copy;
    /// Whole sums of 32 bits, a column in each lane.
    type Sums: Copy;
    /// Right values of some columns, [`Self::STEP`] of each, or so many left values in each lane.
    type Values: Copy;
    /// Columns of a register.
    const LANES: usize;
    /// Values along k that one instruction adds up.
    const STEP: usize;

    /// The same number in every lane.
    unsafe fn sums(value: i32) -> Self::Sums;
    /// The right values of the register of columns that begins here, and a hint of what will be read.
    unsafe fn columns(right: *const u8) -> Self::Values;
    /// The left values that begin here, in every lane.
    unsafe fn values(left: *const Self::Left) -> Self::Values;
    /// Sums with the products of a step added.
    unsafe fn dot(sums: Self::Sums, columns: Self::Values, values: Self::Values) -> Self::Sums;
    /// The same number in every lane.
    unsafe fn floats(value: f32) -> Self::Floats;
    unsafe fn load(at: *const f32) -> Self::Floats;
    unsafe fn store(at: *mut f32, floats: Self::Floats);
    /// `floats + whole * (left * right)`, the product of the scales rounded first.
    unsafe fn add_scaled(
        floats: Self::Floats,
        whole: Self::Sums,
        left: Self::Floats,
        right: Self::Floats,
    ) -> Self::Floats;
}

/// Computes, or with `adds` adds to, the part of the result at row and column `at`.
///
/// # Safety
/// The parts of the tile are of the sizes that its rows, ROWS, and a layout of `WIDE` registers of columns make. It is
/// inlined where the instructions of the registers are there.
#[inline(always)]
pub(super) unsafe fn rows<R: Registers, const ROWS: usize, const WIDE: usize>(
    tile: &Tile<'_, R::Left>,
    adds: bool,
    [row, column]: [usize; 2],
    target: &Target<'_>,
) {
    let (columns, width) = (WIDE * R::LANES, tile.left.len() / ROWS);
    let groups = width.div_ceil(GROUP);
    // SAFETY: every row has `width` values and as many groups, the panel `columns` for each value and each group.
    unsafe {
        let mut sums = [[R::floats(0.0); WIDE]; ROWS];
        for group in 0..groups {
            let left = tile.left.as_ptr().add(group * GROUP);
            let right = tile.right.as_ptr().add(group * GROUP * columns);
            let mut begin = [0; ROWS];
            for (index, begin) in begin.iter_mut().enumerate() {
                *begin = *tile.begin.get_unchecked(index * groups + group);
            }
            // All of a group is there but for the last.
            let whole = match width - group * GROUP {
                GROUP.. => group_sums::<R, ROWS, WIDE>(begin, (left, width), right, GROUP),
                rest => group_sums::<R, ROWS, WIDE>(begin, (left, width), right, rest),
            };
            let scales = tile.right_scales.as_ptr().add(group * columns);
            for (index, (sums, whole)) in sums.iter_mut().zip(whole).enumerate() {
                let left_scale = *tile.left_scales.get_unchecked(index * groups + group);
                let left_scale = R::floats(left_scale);
                for (part, (sums, whole)) in sums.iter_mut().zip(whole).enumerate() {
                    let right_scales = R::load(scales.add(part * R::LANES));
                    *sums = R::add_scaled(*sums, whole, left_scale, right_scales);
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            let mut out = [0f32; MOST_COLUMNS];
            for (part, sums) in sums.iter().enumerate() {
                R::store(out.as_mut_ptr().add(part * R::LANES), *sums);
            }
            target.put(row + index, column, &out[..columns], adds);
        }
    }
}

/// Adds `count` products a row and column to where the rows begin.
///
/// # Safety
/// Rows are `width` values apart, `right` has all columns for each of the `count`; inlined as [`rows`].
#[inline(always)]
unsafe fn group_sums<R: Registers, const ROWS: usize, const WIDE: usize>(
    begin: [i32; ROWS],
    (left, width): (*const R::Left, usize),
    right: *const u8,
    count: usize,
) -> [[R::Sums; WIDE]; ROWS] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[R::sums(0); WIDE]; ROWS];
        for (sums, begin) in sums.iter_mut().zip(begin) {
            *sums = [R::sums(begin); WIDE];
        }
        for place in (0..count).step_by(R::STEP) {
            let right = right.add(place * WIDE * R::LANES);
            let mut columns = [R::columns(right); WIDE];
            for (part, columns) in columns.iter_mut().enumerate().skip(1) {
                *columns = R::columns(right.add(part * R::LANES * R::STEP));
            }
            for (index, sums) in sums.iter_mut().enumerate() {
                let values = R::values(left.add(index * width + place));
                for (sums, columns) in sums.iter_mut().zip(columns) {
                    *sums = R::dot(*sums, columns, values);
                }
            }
        }
        sums
    }
}

/// The function `tile` of a kernel: [`rows`] for up to so many rows, compiled for these instructions.
macro_rules! tile {
    ($registers:ty, $features:literal, $wide:literal, $($rows:literal)*) => {
        /// # Safety
        /// The instructions are there, and all parts of the tile are of the sizes that its rows and layout make.
        #[target_feature(enable = $features)]
        pub(in crate::kernel::integers) unsafe fn tile(
            tile: &Tile<'_, <$registers as Registers>::Left>,
            adds: bool,
            at: [usize; 2],
            target: &Target<'_>,
        ) {
            // SAFETY: as the caller promises.
            unsafe {
                match tile.rows {
                    $($rows => rows::<$registers, $rows, $wide>(tile, adds, at, target),)*
                    rows => unreachable!("a tile of {rows} rows"),
                }
            }
        }
    };
}
pub(super) use tile;
