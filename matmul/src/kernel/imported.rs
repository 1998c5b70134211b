//! Tiles that WebAssembly's relaxed multiply-adds compute, in a module of their own (`playground/products.rs`): an
//! engine without the instruction refuses a module that names it, whether it runs or not.

use super::{Panels, Target};

/// Columns of a panel.
const COLUMNS: usize = 16;
/// Most rows of a tile: 12 of the 16 registers that an x86 processor has hold sums.
const ROWS: usize = 3;

#[link(wasm_import_module = "products")]
unsafe extern "C" {
    safe fn is_there() -> u32;
    fn tile_of(left: *const f32, right: *const f32, height: usize, depth: usize, out: *mut f32);
}

/// Whether the module is there, and its multiply-adds round once; the standard leaves that open.
pub(crate) fn is_available() -> bool {
    is_there() != 0
}

/// Computes, or with `adds` adds to, the tile of the result at row and column `at`.
pub(super) fn tile(panels: Panels<'_>, adds: bool, [row, column]: [usize; 2], target: &Target<'_>) {
    let Panels { left, right, height } = panels;
    let mut sums = [[0f32; COLUMNS]; ROWS];
    let depth = right.len() / COLUMNS;
    assert!(height <= ROWS && left.len() == depth * height);
    // SAFETY: the panels are `[depth][height]` and `[depth][COLUMNS]`, and `height` rows of the result are there.
    unsafe { tile_of(left.as_ptr(), right.as_ptr(), height, depth, sums.as_mut_ptr().cast()) };
    for (index, sums) in sums[..height].iter().enumerate() {
        target.put(row + index, column, sums, adds);
    }
}
