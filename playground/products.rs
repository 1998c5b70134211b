//! What is made of WebAssembly's relaxed multiply-adds: a module of its own, which shares the memory of the first. An
//! engine without the instruction refuses this module alone, and the first one emulates the operation.
//! scripts/build-playground compiles this file. It has no stack and no data, which would lie where the first module's
//! do.

#![no_std]

use core::arch::wasm32::{
    f32x4_add, f32x4_extract_lane, f32x4_relaxed_madd, f32x4_splat, unreachable, v128, v128_load, v128_store,
};

/// Vectors in 16 columns, and values in a vector.
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

/// Adds `scale` times the `count` values of `x` to those of `out`.
///
/// # Safety
/// Both have `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn add_scaled(out: *mut f32, scale: f32, x: *const f32, count: usize) {
    let scale = f32x4_splat(scale);
    let mut at = 0;
    // SAFETY: below `count`.
    unsafe {
        while at + WIDE <= count {
            let sums = v128_load(out.add(at).cast());
            let sums = f32x4_relaxed_madd(scale, v128_load(x.add(at).cast()), sums);
            v128_store(out.add(at).cast(), sums);
            at += WIDE;
        }
        while at < count {
            let (x, sum) = (f32x4_splat(*x.add(at)), f32x4_splat(*out.add(at)));
            *out.add(at) = f32x4_extract_lane::<0>(f32x4_relaxed_madd(scale, x, sum));
            at += 1;
        }
    }
}

/// Writes the products of a vector `[length]` with the 16 columns of a block `[length][16]`: the sum over even places
/// plus that over odd ones.
///
/// # Safety
/// All three have room for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn block_products(
    vector: *const f32,
    block: *const v128,
    length: usize,
    out: *mut v128,
) {
    let mut even = [f32x4_splat(0.0); WIDE];
    let mut odd = even;
    // SAFETY: below `length`, and 16 products.
    unsafe {
        let mut place = 0;
        while place + 1 < length {
            add_line(&mut even, vector, block, place);
            add_line(&mut odd, vector, block, place + 1);
            place += 2;
        }
        if place < length {
            add_line(&mut even, vector, block, place);
        }
        for column in 0..WIDE {
            v128_store(out.add(column), f32x4_add(even[column], odd[column]));
        }
    }
}

/// Adds the product of the value at `place` and its line of the block.
#[inline(always)]
unsafe fn add_line(sums: &mut [v128; WIDE], vector: *const f32, block: *const v128, place: usize) {
    // SAFETY: the caller's.
    let value = f32x4_splat(unsafe { *vector.add(place) });
    for (column, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's.
        let line = unsafe { v128_load(block.add(place * WIDE + column)) };
        *sum = f32x4_relaxed_madd(value, line, *sum);
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
