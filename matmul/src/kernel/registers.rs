//! Tiles of up to 6 rows and 16 columns in registers of 4 values (NEON), or of whatever `pulp` finds.

use pulp::{Simd, WithSimd};

use super::{Panels, Target};

/// Columns of a panel.
const COLUMNS: usize = 16;

/// A tile to compute, at row and column `at` of the result.
pub(super) struct Tile<'a> {
    pub(super) panels: Panels<'a>,
    pub(super) adds: bool,
    pub(super) at: [usize; 2],
    pub(super) target: &'a Target<'a>,
}

impl WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers that a row of the tile fills.
        match COLUMNS / S::F32_LANES {
            1 => self.by_height::<S, 1>(simd),
            2 => self.by_height::<S, 2>(simd),
            4 => self.by_height::<S, 4>(simd),
            _ => self.by_height::<S, 16>(simd),
        }
    }
}

impl Tile<'_> {
    #[inline(always)]
    fn by_height<S: Simd, const WIDE: usize>(self, simd: S) {
        match self.panels.height {
            1 => self.rows::<S, WIDE, 1>(simd),
            2 => self.rows::<S, WIDE, 2>(simd),
            3 => self.rows::<S, WIDE, 3>(simd),
            4 => self.rows::<S, WIDE, 4>(simd),
            5 => self.rows::<S, WIDE, 5>(simd),
            _ => self.rows::<S, WIDE, 6>(simd),
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const WIDE: usize, const ROWS: usize>(self, simd: S) {
        let Self { panels, adds, at: [row, column], target } = self;
        let mut sums = [[simd.splat_f32s(0.0); WIDE]; ROWS];
        let columns = S::as_simd_f32s(panels.right).0.as_chunks::<WIDE>().0;
        for (values, columns) in panels.left.as_chunks::<ROWS>().0.iter().zip(columns) {
            for (sums, value) in sums.iter_mut().zip(values) {
                let value = simd.splat_f32s(*value);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = simd.mul_add_f32s(value, *column, *sum);
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            let mut out = [0f32; COLUMNS];
            S::as_mut_simd_f32s(&mut out).0.copy_from_slice(sums);
            target.put(row + index, column, &out, adds);
        }
    }
}
