//! A tile of a matrix product by WebAssembly's relaxed multiply-adds: a module of its own, which shares the memory of the
//! first. An engine without the instruction refuses this module alone, and the first one emulates the operation.
//! scripts/build-playground compiles this file. It has no stack and no data, which would lie where the first module's do.

#![no_std]

use core::arch::wasm32::{
    f32x4_extract_lane, f32x4_relaxed_madd, f32x4_splat, unreachable, v128, v128_load, v128_store,
};

/// Vectors in the 16 columns of a panel.
const WIDE: usize = 4;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unreachable()
}

/// `a * a + c`, by which the page knows whether a multiply-add is rounded once.
#[unsafe(no_mangle)]
pub extern "C" fn square_and(a: f32, c: f32) -> f32 {
    f32x4_extract_lane::<0>(f32x4_relaxed_madd(f32x4_splat(a), f32x4_splat(a), f32x4_splat(c)))
}

/// Writes `height` (1 to 3) rows of 16 sums to `out`: panels `[depth][height]` times `[depth][16]`.
///
/// # Safety
/// All three have room for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_of(
    left: *const f32,
    right: *const v128,
    height: usize,
    depth: usize,
    out: *mut v128,
) {
    // SAFETY: as this function's.
    unsafe {
        match height {
            1 => rows::<1>(left, right, depth, out),
            2 => rows::<2>(left, right, depth, out),
            _ => rows::<3>(left, right, depth, out),
        }
    }
}

#[inline(always)]
unsafe fn rows<const ROWS: usize>(
    left: *const f32,
    right: *const v128,
    depth: usize,
    out: *mut v128,
) {
    let mut sums = [[f32x4_splat(0.0); WIDE]; ROWS];
    for index in 0..depth {
        for column in 0..WIDE {
            // SAFETY: within the panels.
            let values = unsafe { v128_load(right.add(index * WIDE + column)) };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: within the panels.
                let value = unsafe { *left.add(index * ROWS + row) };
                sums[column] = f32x4_relaxed_madd(f32x4_splat(value), values, sums[column]);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (column, sum) in sums.iter().enumerate() {
            // SAFETY: `out` has a row of 16 for each.
            unsafe { v128_store(out.add(row * WIDE + column), *sum) };
        }
    }
}
