//! The inner loops: a panel of rows times a panel of columns, sums in registers.
//!
//! Every set of instructions adds the same fused products in the same order, so all come to the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod emulated;
#[cfg(target_family = "wasm")]
pub(super) mod imported;
pub(super) mod integers;
#[cfg(target_arch = "x86_64")]
pub(super) mod packing;
mod registers;

use std::marker::PhantomData;

use super::InstructionSet;
use super::bfloat16::Form;
use super::instructions::arch;

/// The result, written by several threads at places that do not overlap.
pub(super) struct Target<'a> {
    start: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
    life: PhantomData<&'a mut [f32]>,
}

// SAFETY: each tile of the result is written by one task alone.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    pub(super) fn new(out: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(out.len() >= (rows - 1) * stride + columns);
        Self { start: out.as_mut_ptr(), rows, columns, stride, life: PhantomData }
    }

    /// Writes, or with `adds` adds, what there is room for of a row's values from `column` on; no other task has them.
    /// Nothing is written for a row past the last.
    #[inline(always)]
    pub(super) fn put(&self, row: usize, column: usize, values: &[f32], adds: bool) {
        assert!(column < self.columns);
        if row >= self.rows {
            return;
        }
        let count = values.len().min(self.columns - column);
        // SAFETY: they are within the result, and no one else has them.
        let out = unsafe {
            std::slice::from_raw_parts_mut(self.start.add(row * self.stride + column), count)
        };
        if adds {
            for (out, x) in out.iter_mut().zip(values) {
                *out += x;
            }
        } else {
            out.copy_from_slice(&values[..count]);
        }
    }
}

/// Where a tile goes, and how many of its rows and columns lie within the result.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct OutputTile {
    start: *mut f32,
    stride: usize,
    rows: usize,
    columns: usize,
    adds: bool,
}

/// A panel of rows `[lines][height]` times one of columns `[lines][width]`.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a> {
    pub(super) left: &'a [f32],
    pub(super) right: &'a [f32],
    pub(super) height: usize,
    /// That of both.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no pairs but there"))]
    pub(super) form: Form,
}

/// Computes, or with `adds` adds to, the tile of the result at row and column `at`.
pub(super) fn tile(
    set: InstructionSet,
    panels: Panels<'_>,
    adds: bool,
    at: [usize; 2],
    target: &Target<'_>,
) {
    let shape = set.tile();
    let depth = panels.right.len() / shape.columns;
    assert!((1..=shape.rows).contains(&panels.height));
    assert_eq!(panels.left.len(), depth * panels.height, "panels of one depth");
    assert!(at[0] < target.rows && at[1] < target.columns);
    #[cfg(target_arch = "x86_64")]
    let place = OutputTile {
        // SAFETY: row and column are within the result.
        start: unsafe { target.start.add(at[0] * target.stride + at[1]) },
        stride: target.stride,
        rows: panels.height.min(target.rows - at[0]),
        columns: shape.columns.min(target.columns - at[1]),
        adds,
    };
    match set {
        // SAFETY: as below; panels are of this form where the processor has AVX512-BF16.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 if panels.form == Form::Pairs => unsafe {
            avx512::pairs::tile(panels.left, panels.right, panels.height, place);
        },
        // SAFETY: the processor has the instructions, or the set would not be in use; the place lies within the
        // result, and no other task has it.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe {
            avx512::singles::tile(panels.left, panels.right, panels.height, place);
        },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe {
            avx2::tile(panels.left, panels.right, panels.height, place);
        },
        #[cfg(target_family = "wasm")]
        InstructionSet::RelaxedSimd => imported::tile(panels, adds, at, target),
        InstructionSet::Portable => emulated::tile(panels, adds, at, target),
        _ => arch().dispatch(registers::Tile { panels, adds, at, target }),
    }
}
