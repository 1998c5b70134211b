//! The kernels of x86: by the dot products of AVX-512 VNNI and AVX-VNNI, or by AVX2's products of 16 bits.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function is called where the instructions are there"
)]

use std::arch::x86_64::*;

use super::tile::{Registers, rows, tile};
use super::{Target, Tile};

/// A module of a kernel: its left values and their steps, its registers and how far ahead of the columns in hand memory
/// is asked for, the intrinsics for them, and the rows that a tile may have.
macro_rules! kernel {
    (
        $(#[$attribute:meta])* $name:ident, $features:literal, $left:ty, $step:literal,
        [$floats:ty, $integers:ty, $lanes:literal], $ahead:expr,
        $set_integers:ident $set_floats:ident $load:ident $store:ident $convert:ident $multiply:ident
        $multiply_add:ident, $columns:expr, $dot:expr, $($rows:literal)*
    ) => {
        $(#[$attribute])*
        pub(super) mod $name {
            use super::*;

            pub(in super::super) struct Kernel;

            // SAFETY: the instructions are those that `tile` names.
            unsafe impl Registers for Kernel {
                type Left = $left;
                type Floats = $floats;
                type Sums = $integers;
                type Values = $integers;
                const LANES: usize = $lanes;
                const STEP: usize = $step;

                #[inline(always)]
                unsafe fn sums(value: i32) -> $integers {
                    $set_integers(value)
                }

                #[inline(always)]
                unsafe fn columns(right: *const u8) -> $integers {
                    _mm_prefetch::<{ $ahead.0 }>(right.wrapping_add($ahead.1).cast());
                    $columns(right)
                }

                #[inline(always)]
                unsafe fn values(left: *const $left) -> $integers {
                    $set_integers(left.cast::<i32>().read_unaligned())
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

            tile!(Kernel, $features, 2, $($rows)*);
        }
    };
}

/// A kernel on registers of 256 bits.
macro_rules! kernel_of_256_bits {
    ($(#[$attribute:meta])* $name:ident, $features:literal, $left:ty, $step:literal, $($rest:tt)*) => {
        kernel!(
            $(#[$attribute])* $name, $features, $left, $step, [__m256, __m256i, 8],
            (_MM_HINT_T0, 512 * $step),
            _mm256_set1_epi32 _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_cvtepi32_ps _mm256_mul_ps
            _mm256_fmadd_ps, $($rest)*
        );
    };
}

#[inline(always)]
unsafe fn bytes(right: *const u8) -> __m256i {
    _mm256_loadu_si256(right.cast())
}

/// Bytes as 16 bits.
#[inline(always)]
unsafe fn widened(right: *const u8) -> __m256i {
    _mm256_cvtepu8_epi16(_mm_loadu_si128(right.cast()))
}

#[inline(always)]
unsafe fn wide_bytes(right: *const u8) -> __m512i {
    _mm512_loadu_si512(right.cast())
}

/// 255 * 127 * 2 fits 32 bits; the instruction for bytes would saturate its sums at 16.
#[inline(always)]
unsafe fn add_pairs(sums: __m256i, columns: __m256i, values: __m256i) -> __m256i {
    _mm256_add_epi32(sums, _mm256_madd_epi16(columns, values))
}

// `dpbusd` takes an unsigned and a signed operand: columns are stored 128 too large, which a tile's `begin` takes off.
kernel!(
    /// By AVX-512's VNNI: four products to a sum.
    vnni, "avx512f,avx512bw,avx512vl,avx512vnni,fma", i8, 4, [__m512, __m512i, 16], (_MM_HINT_T1, 8192),
    _mm512_set1_epi32 _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_cvtepi32_ps _mm512_mul_ps
    _mm512_fmadd_ps, wide_bytes, _mm512_dpbusd_epi32, 1 2 3 4 5 6
);
kernel_of_256_bits!(
    /// By AVX-VNNI: the same in registers half as wide.
    avx_vnni, "avx2,fma,avxvnni", i8, 4, bytes, _mm256_dpbusd_avx_epi32, 1 2 3 4 5 6
);
kernel_of_256_bits!(
    /// The same instruction in AVX-512's encoding, for processors that lack AVX-VNNI.
    #[cfg(test)]
    avx_vnni_512, "avx2,fma,avx512vl,avx512vnni", i8, 4, bytes, _mm256_dpbusd_epi32, 1 2 3 4 5 6
);
kernel_of_256_bits!(
    /// By AVX2: two products of 16 bits to a sum.
    pairs, "avx2,fma", i16, 2, widened, add_pairs, 1 2 3 4 5
);
