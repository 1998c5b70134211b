//! The inner loops: a panel of rows times a panel of columns, sums in registers.
//!
//! Every set of instructions adds the same fused products in the same order, so all come to the same bits; but for AMX,
//! see [`super::bfloat16`].

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod emulated;
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

#[cfg(target_arch = "x86_64")]
impl OutputTile {
    /// A tile of `[rows, columns]` at the row and column `at`, which are within the result.
    fn new(
        [rows, columns]: [usize; 2],
        adds: bool,
        [row, column]: [usize; 2],
        target: &Target<'_>,
    ) -> Self {
        assert!(row < target.rows && column < target.columns);
        Self {
            // SAFETY: row and column are within the result.
            start: unsafe { target.start.add(row * target.stride + column) },
            stride: target.stride,
            rows: rows.min(target.rows - row),
            columns: columns.min(target.columns - column),
            adds,
        }
    }
}

/// What products of a form need of this thread's registers, while it lives.
pub(super) struct Registers {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    tiles: Option<amx::TileRegisters>,
}

impl Registers {
    pub(super) fn for_form(form: Form) -> Self {
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        {
            let _ = form;
            Self {}
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Self { tiles: (form == Form::Tiles).then(amx::TileRegisters::new) }
    }
}

/// Computes, or with `adds` adds to, `height` rows of the result, at most 32, and the columns of a panel, at row and
/// column `at`: of tiles of AMX of each 16 rows, in whose registers they are multiplied.
pub(super) fn tiles<'a>(
    registers: &Registers,
    left: impl Iterator<Item = &'a [f32]>,
    right: &[f32],
    height: usize,
    adds: bool,
    at: [usize; 2],
    target: &Target<'_>,
) {
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    {
        let _ = (registers, left, right, height, adds, at, target);
        unreachable!("no processor has tiles here");
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        assert!(registers.tiles.is_some());
        let mut left = left;
        let first = left.next().expect("rows");
        let place = OutputTile::new([height, amx::COLUMNS], adds, at, target);
        // SAFETY: the registers are configured; the place lies within the result, and no other task has it.
        unsafe { amx::tile(first, left.next(), right, place) };
    }
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
    #[cfg(target_arch = "x86_64")]
    let place = OutputTile::new([panels.height, shape.columns], adds, at, target);
    match set {
        // SAFETY: as below; panels are of this form where the processor has AVX512-BF16.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 if panels.form == Form::Pairs => unsafe {
            avx512::pairs::tile(panels.left, panels.right, panels.height, place);
        },
        // SAFETY: the processor has the instructions, or the set would not be in use; the place lies within the
        // result, and no other task has it.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Amx | InstructionSet::Avx512 => unsafe {
            avx512::singles::tile(panels.left, panels.right, panels.height, place);
        },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe {
            avx2::tile(panels.left, panels.right, panels.height, place);
        },
        InstructionSet::Portable => emulated::tile(panels, adds, at, target),
        _ => arch().dispatch(registers::Tile { panels, adds, at, target }),
    }
}
