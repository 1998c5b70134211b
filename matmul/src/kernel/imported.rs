//! WebAssembly's relaxed multiply-adds, in a module of their own (`playground/products.rs`): an engine without the
//! instruction refuses a module that names it, whether it runs or not.
//!
//! The page puts that module's functions into this module's table, and calls [`multiply_adds`] with their places, if
//! the engine has the instruction and rounds once; the standard leaves that open.

use std::sync::OnceLock;

use super::{Panels, Target};
use crate::vectors::LANES;

/// Columns of a panel.
const COLUMNS: usize = 16;
/// Most rows of a tile: 12 of the 16 registers that an x86 processor has hold sums.
const ROWS: usize = 3;

/// Panels `[depth][height]` and `[depth][COLUMNS]`, `height`, `depth`, and room for `[height][COLUMNS]`.
type Tile = unsafe extern "C" fn(*const f32, *const f32, usize, usize, *mut f32);
/// Values to add to, the factor, values, their number.
type AddScaled = unsafe extern "C" fn(*mut f32, f32, *const f32, usize);
/// A vector, its block, its length, room for [`LANES`] products.
type BlockProducts = unsafe extern "C" fn(*const f32, *const f32, usize, *mut f32);

struct Functions {
    tile: Tile,
    add_scaled: AddScaled,
    block_products: BlockProducts,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Takes the places of the functions in the table. Called by the page, before anything else.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn multiply_adds(tile: usize, add_scaled: usize, block_products: usize) {
    // SAFETY: a pointer to a function is its place in the table, and a call of another type is refused by the engine.
    let functions = unsafe {
        Functions {
            tile: std::mem::transmute::<usize, Tile>(tile),
            add_scaled: std::mem::transmute::<usize, AddScaled>(add_scaled),
            block_products: std::mem::transmute::<usize, BlockProducts>(block_products),
        }
    };
    let _ = FUNCTIONS.set(functions);
}

/// Whether the module is there.
pub(crate) fn is_available() -> bool {
    FUNCTIONS.get().is_some()
}

/// See [`crate::vectors::add_scaled`]. Whether the module is there, and has done so.
#[inline]
pub(crate) fn add_scaled(out: &mut [f32], scale: f32, x: &[f32]) -> bool {
    let Some(functions) = FUNCTIONS.get() else { return false };
    // SAFETY: as many values are in both.
    unsafe { (functions.add_scaled)(out.as_mut_ptr(), scale, x.as_ptr(), out.len().min(x.len())) };
    true
}

/// See [`crate::vectors::block_products`], which has compared the sizes; none without the module.
#[inline]
pub(crate) fn block_products(vector: &[f32], block: &[f32]) -> Option<[f32; LANES]> {
    let mut out = [0f32; LANES];
    // SAFETY: the block is `[length of the vector][LANES]`.
    unsafe {
        let function = FUNCTIONS.get()?.block_products;
        function(vector.as_ptr(), block.as_ptr(), vector.len(), out.as_mut_ptr());
    }
    Some(out)
}

/// Computes, or with `adds` adds to, the tile of the result at row and column `at`.
pub(super) fn tile(panels: Panels<'_>, adds: bool, [row, column]: [usize; 2], target: &Target<'_>) {
    let Panels { left, right, height, .. } = panels;
    let mut sums = [[0f32; COLUMNS]; ROWS];
    let depth = right.len() / COLUMNS;
    assert!(height <= ROWS && left.len() == depth * height);
    let functions = FUNCTIONS.get().expect("the set is in use");
    // SAFETY: the panels are `[depth][height]` and `[depth][COLUMNS]`, and `height` rows of the result are there.
    unsafe {
        (functions.tile)(left.as_ptr(), right.as_ptr(), height, depth, sums.as_mut_ptr().cast());
    }
    for (index, sums) in sums[..height].iter().enumerate() {
        target.put(row + index, column, sums, adds);
    }
}
