//! The kernel of ARM: by `sdot`, four products of 8 bits to a sum.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function is called where the instructions are there"
)]

use std::arch::aarch64::{
    float32x4_t, int8x16_t, int32x4_t, vcvtq_f32_s32, vdupq_n_f32, vdupq_n_s8, vdupq_n_s32,
    veorq_s8, vfmaq_f32, vld1q_f32, vld1q_s8, vmulq_f32, vreinterpretq_s8_s32, vst1q_f32,
};

use super::tile::{Registers, rows, tile};
use super::{Target, Tile};

pub(super) struct Neon;

// SAFETY: the instructions are those that `tile` names.
unsafe impl Registers for Neon {
    type Left = i8;
    type Floats = float32x4_t;
    type Sums = int32x4_t;
    type Values = int8x16_t;
    const LANES: usize = 4;
    const STEP: usize = 4;

    /// The right operand is stored 128 too large; with the sign bit flipped it is the value itself, so that sums begin
    /// at zero: the same whole numbers as with what `begin` takes off.
    #[inline(always)]
    unsafe fn sums(_: i32) -> int32x4_t {
        vdupq_n_s32(0)
    }

    #[inline(always)]
    unsafe fn columns(right: *const u8) -> int8x16_t {
        veorq_s8(vld1q_s8(right.cast()), vdupq_n_s8(i8::MIN))
    }

    #[inline(always)]
    unsafe fn values(left: *const i8) -> int8x16_t {
        vreinterpretq_s8_s32(vdupq_n_s32(left.cast::<i32>().read_unaligned()))
    }

    /// The compiler's own function for the instruction is not stable yet.
    #[inline(always)]
    unsafe fn dot(sums: int32x4_t, columns: int8x16_t, values: int8x16_t) -> int32x4_t {
        let mut out = sums;
        // The instruction reads and writes these registers alone.
        std::arch::asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) out,
            in(vreg) columns,
            in(vreg) values,
            options(pure, nomem, nostack, preserves_flags)
        );
        out
    }

    #[inline(always)]
    unsafe fn floats(value: f32) -> float32x4_t {
        vdupq_n_f32(value)
    }

    #[inline(always)]
    unsafe fn load(at: *const f32) -> float32x4_t {
        vld1q_f32(at)
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, floats: float32x4_t) {
        vst1q_f32(at, floats)
    }

    #[inline(always)]
    unsafe fn add_scaled(
        floats: float32x4_t,
        whole: int32x4_t,
        left: float32x4_t,
        right: float32x4_t,
    ) -> float32x4_t {
        vfmaq_f32(floats, vcvtq_f32_s32(whole), vmulq_f32(left, right))
    }
}

tile!(Neon, "neon,dotprod", 4, 1 2 3 4 5);
