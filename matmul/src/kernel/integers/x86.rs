//! The kernels of x86: by the dot products of AVX-512 VNNI and AVX-VNNI, or by AVX2's products of 16 bits. A tile is
//! written once for all.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function is called where the instructions are there"
)]

use std::arch::x86_64::*;

use super::{GROUP, Target, Tile};

/// Registers of columns of a panel.
const WIDE: usize = 2;
/// Most columns of a panel.
const MOST_COLUMNS: usize = 32;

/// The registers and instructions of a kernel.
///
/// # Safety
/// Every function is to be called where the instructions are there.
unsafe trait Registers {
    /// A left value.
    type Left: Copy;
    /// f32, a column in each lane.
    type Floats: Copy;
    /// Whole sums of 32 bits, a column in each lane; right values of some columns, [`Self::STEP`] of each; or so many
    /// left values in each lane.
    type Integers: Copy;
    /// Columns of a register.
    const LANES: usize;
    /// Values along k that one instruction adds up.
    const STEP: usize;

    /// The same number in every lane.
    unsafe fn integers(value: i32) -> Self::Integers;
    /// The right values of the register of columns that begins here, and a hint of what will be read.
    unsafe fn columns(right: *const u8) -> Self::Integers;
    /// Sums with the products of a step added.
    unsafe fn dot(
        sums: Self::Integers,
        columns: Self::Integers,
        values: Self::Integers,
    ) -> Self::Integers;
    /// The same number in every lane.
    unsafe fn floats(value: f32) -> Self::Floats;
    unsafe fn load(at: *const f32) -> Self::Floats;
    unsafe fn store(at: *mut f32, floats: Self::Floats);
    /// `floats + whole * (left * right)`, the product of the scales rounded first.
    unsafe fn add_scaled(
        floats: Self::Floats,
        whole: Self::Integers,
        left: Self::Floats,
        right: Self::Floats,
    ) -> Self::Floats;
}

/// A module of a kernel: its left values and their steps, its registers, how far ahead of the columns in hand memory is
/// asked for, the intrinsics, how columns are read and multiplied, and the rows that a tile may have.
macro_rules! kernel {
    (
        $(#[$attribute:meta])* $name:ident, $features:literal, $left:ty, $step:literal,
        [$floats:ty, $integers:ty, $lanes:literal], $ahead:expr,
        $set_integers:ident $set_floats:ident $load:ident $store:ident $convert:ident $multiply:ident
        $multiply_add:ident, $columns:expr, $dot:expr, $($rows:literal)*
    ) => {
        $(#[$attribute])*
        #[allow(non_snake_case, reason = "the name of the kernel")]
        pub(super) mod $name {
            use super::*;

            struct Kernel;

            // SAFETY: the instructions are those that `tile` names.
            unsafe impl Registers for Kernel {
                type Left = $left;
                type Floats = $floats;
                type Integers = $integers;
                const LANES: usize = $lanes;
                const STEP: usize = $step;

                #[inline(always)]
                unsafe fn integers(value: i32) -> $integers {
                    $set_integers(value)
                }

                #[inline(always)]
                unsafe fn columns(right: *const u8) -> $integers {
                    _mm_prefetch::<{ $ahead.0 }>(right.wrapping_add($ahead.1).cast());
                    $columns(right)
                }

                #[inline(always)]
                unsafe fn dot(
                    sums: $integers,
                    columns: $integers,
                    values: $integers,
                ) -> $integers {
                    $dot(sums, columns, values)
                }

                #[inline(always)]
                unsafe fn floats(value: f32) -> $floats {
                    $set_floats(value)
                }

                #[inline(always)]
                unsafe fn load(at: *const f32) -> $floats {
                    $load(at)
                }

                #[inline(always)]
                unsafe fn store(at: *mut f32, floats: $floats) {
                    $store(at, floats);
                }

                #[inline(always)]
                unsafe fn add_scaled(
                    floats: $floats,
                    whole: $integers,
                    left: $floats,
                    right: $floats,
                ) -> $floats {
                    $multiply_add($convert(whole), $multiply(left, right), floats)
                }
            }

            /// # Safety
            /// The instructions are there, and all parts of the tile are of the sizes that its rows and layout make.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn tile(
                tile: &Tile<'_, $left>,
                adds: bool,
                at: [usize; 2],
                target: &Target<'_>,
            ) {
                match tile.rows {
                    $($rows => rows::<Kernel, $rows>(tile, adds, at, target),)*
                    rows => unreachable!("a tile of {rows} rows"),
                }
            }
        }
    };
}

// `dpbusd` takes an unsigned and a signed operand: columns are stored 128 too large, which a tile's `begin` takes off.
kernel!(
    /// By AVX-512's VNNI: four products to a sum.
    Vnni, "avx512f,avx512bw,avx512vl,avx512vnni,fma", i8, 4, [__m512, __m512i, 16], (_MM_HINT_T1, 8192),
    _mm512_set1_epi32 _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_cvtepi32_ps _mm512_mul_ps
    _mm512_fmadd_ps, bytes, _mm512_dpbusd_epi32, 1 2 3 4 5 6
);
kernel!(
    /// By AVX-VNNI: the same in registers half as wide.
    AvxVnni, "avx2,fma,avxvnni", i8, 4, [__m256, __m256i, 8], (_MM_HINT_T0, 2048),
    _mm256_set1_epi32 _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_cvtepi32_ps _mm256_mul_ps
    _mm256_fmadd_ps, half_bytes, _mm256_dpbusd_avx_epi32, 1 2 3 4 5 6
);
kernel!(
    /// By AVX2: two products of 16 bits to a sum.
    Pairs, "avx2,fma", i16, 2, [__m256, __m256i, 8], (_MM_HINT_T0, 1024),
    _mm256_set1_epi32 _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_cvtepi32_ps _mm256_mul_ps
    _mm256_fmadd_ps, widened, add_pairs, 1 2 3 4 5
);

#[inline(always)]
unsafe fn bytes(right: *const u8) -> __m512i {
    _mm512_loadu_si512(right.cast())
}

#[inline(always)]
unsafe fn half_bytes(right: *const u8) -> __m256i {
    _mm256_loadu_si256(right.cast())
}

/// Bytes as 16 bits.
#[inline(always)]
unsafe fn widened(right: *const u8) -> __m256i {
    _mm256_cvtepu8_epi16(_mm_loadu_si128(right.cast()))
}

/// 255 * 127 * 2 fits 32 bits; the instruction for bytes would saturate its sums at 16.
#[inline(always)]
unsafe fn add_pairs(sums: __m256i, columns: __m256i, values: __m256i) -> __m256i {
    _mm256_add_epi32(sums, _mm256_madd_epi16(columns, values))
}

/// Computes, or with `adds` adds to, the part of the result at row and column `at`.
///
/// # Safety
/// The parts of the tile are of the sizes that its rows, ROWS, and the layout make. It is inlined where the
/// instructions of the registers are there.
#[inline(always)]
unsafe fn rows<R: Registers, const ROWS: usize>(
    tile: &Tile<'_, R::Left>,
    adds: bool,
    [row, column]: [usize; 2],
    target: &Target<'_>,
) {
    let (columns, width) = (WIDE * R::LANES, tile.left.len() / ROWS);
    let groups = width.div_ceil(GROUP);
    // Every row has `width` values and as many groups, the panel `columns` for each value and each group.
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
            GROUP.. => group_sums::<R, ROWS>(begin, (left, width), right, GROUP),
            rest => group_sums::<R, ROWS>(begin, (left, width), right, rest),
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

/// Adds `count` products a row and column to where the rows begin.
///
/// # Safety
/// Rows are `width` values apart, `right` has all columns for each of the `count`; inlined as [`rows`].
#[inline(always)]
unsafe fn group_sums<R: Registers, const ROWS: usize>(
    begin: [i32; ROWS],
    (left, width): (*const R::Left, usize),
    right: *const u8,
    count: usize,
) -> [[R::Integers; WIDE]; ROWS] {
    let mut sums = [[R::integers(0); WIDE]; ROWS];
    for (sums, begin) in sums.iter_mut().zip(begin) {
        *sums = [R::integers(begin); WIDE];
    }
    for place in (0..count).step_by(R::STEP) {
        let right = right.add(place * WIDE * R::LANES);
        let mut columns = [R::columns(right); WIDE];
        for (part, columns) in columns.iter_mut().enumerate().skip(1) {
            *columns = R::columns(right.add(part * R::LANES * R::STEP));
        }
        for (index, sums) in sums.iter_mut().enumerate() {
            let values =
                R::integers(left.add(index * width + place).cast::<i32>().read_unaligned());
            for (sums, columns) in sums.iter_mut().zip(columns) {
                *sums = R::dot(*sums, columns, values);
            }
        }
    }
    sums
}
