//! Tiles of products of 8-bit integers: by the dot products of AVX-512 VNNI or AVX-VNNI, by AVX2's products of 16 bits,
//! or by loops. All come to the same bits.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::Target;
use crate::InstructionSet;

/// Values along k that share a scale.
pub(crate) const GROUP: usize = 32;

/// A tile of rows times a panel of columns. A left value is an i8, or that as an i16.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a, T> {
    /// Its rows, and values of each, whole steps.
    pub(crate) left: &'a [T],
    /// Of its rows, groups each.
    pub(crate) left_scales: &'a [f32],
    /// The initial value of a group's sum.
    pub(crate) begin: &'a [i32],
    /// `[k / step][columns][step]`.
    pub(crate) right: &'a [u8],
    /// `[groups][columns]`.
    pub(crate) right_scales: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) layout: Layout,
}

/// How a panel of the right operand stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Columns of a panel.
    pub(crate) columns: usize,
    /// Values along k that stand side by side: as many as one instruction adds up.
    pub(crate) step: usize,
    /// Most rows of a tile.
    pub(crate) rows: usize,
}

/// A kernel for products of integers.
#[allow(dead_code, reason = "every architecture constructs its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntegerKernel {
    /// AVX-512's VNNI: four products of 8 bits to a sum.
    Vnni,
    /// AVX-VNNI: the same in registers half as wide.
    AvxVnni,
    /// AVX2: two products of 16 bits to a sum.
    Pairs,
    /// Loops.
    Written,
}

impl IntegerKernel {
    /// The fastest that goes with the instruction set in use.
    pub(crate) fn in_use() -> Self {
        match InstructionSet::in_use() {
            #[cfg(target_arch = "x86_64")]
            set if set.has_avx512() && is_x86_feature_detected!("avx512vnni") => Self::Vnni,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Amx | InstructionSet::Avx512 | InstructionSet::Avx2
                if is_x86_feature_detected!("avxvnni") =>
            {
                Self::AvxVnni
            }
            InstructionSet::Amx | InstructionSet::Avx512 | InstructionSet::Avx2 => Self::Pairs,
            InstructionSet::Neon | InstructionSet::Portable => Self::Written,
        }
    }

    pub(crate) fn layout(self) -> Layout {
        match self {
            // Half of the registers hold the sums of all groups, half those of one.
            Self::Vnni => Layout { columns: 32, step: 4, rows: 6 },
            Self::AvxVnni => Layout { columns: 16, step: 4, rows: 6 },
            Self::Pairs | Self::Written => Layout { columns: 16, step: 2, rows: 5 },
        }
    }
}

impl<T: Copy + Into<i32>> Tile<'_, T> {
    /// Panics where the parts are not of the sizes that rows and layout make.
    fn check(&self) {
        let Layout { columns, step, rows } = self.layout;
        let width = self.right.len() / columns;
        let groups = width.div_ceil(GROUP);
        assert!((1..=rows).contains(&self.rows) && width.is_multiple_of(step));
        assert_eq!(self.left.len(), self.rows * width, "rows of one depth");
        assert_eq!(self.right_scales.len(), groups * columns, "scales of every group");
        let groups = self.rows * groups;
        assert!(self.left_scales.len() == groups && self.begin.len() == groups);
    }

    /// Computes, or with `adds` adds to, the part of the result at row and column `at`, by loops.
    #[inline(always)]
    pub(crate) fn written_out(&self, adds: bool, [row, column]: [usize; 2], target: &Target<'_>) {
        self.check();
        let Layout { columns, step, .. } = self.layout;
        let width = self.left.len() / self.rows;
        let groups = width.div_ceil(GROUP);
        let (mut sums, mut group_sums) = ([0f32; 32], [0i32; 32]);
        let (sums, group_sums) = (&mut sums[..columns], &mut group_sums[..columns]);
        for index in 0..self.rows {
            let left = self.left[index * width..][..width].chunks(GROUP);
            let right = self.right.chunks(GROUP * columns);
            let scales = self.right_scales.chunks_exact(columns);
            sums.fill(0.0);
            for (group, ((left, right), scales)) in left.zip(right).zip(scales).enumerate() {
                group_sums.fill(self.begin[index * groups + group]);
                for (left, right) in left.chunks_exact(step).zip(right.chunks_exact(columns * step))
                {
                    for (sum, right) in group_sums.iter_mut().zip(right.chunks_exact(step)) {
                        for (x, y) in left.iter().zip(right) {
                            *sum += (*x).into() * i32::from(*y);
                        }
                    }
                }
                let left_scale = self.left_scales[index * groups + group];
                for ((sum, whole), scale) in sums.iter_mut().zip(&*group_sums).zip(scales) {
                    // sum_k x y = sum over groups of s_x s_y sum q_x q_y: whole numbers below 2^24, exact in f32.
                    *sum = (*whole as f32).mul_add(left_scale * scale, *sum);
                }
            }
            target.put(row + index, column, sums, adds);
        }
    }
}

/// A left value of a tile, and the kernels that take such.
pub(crate) trait Level: Copy + Default + Send + Sync + From<i8> + Into<i32> {
    /// Computes, or with `adds` adds to, the part of the result at row and column `at`.
    fn tile(
        kernel: IntegerKernel,
        tile: &Tile<'_, Self>,
        adds: bool,
        at: [usize; 2],
        target: &Target<'_>,
    );
}

/// Values of a type are for some kernels, or for the loops.
macro_rules! level {
    ($value:ty, $($kernel:ident)*) => {
        impl Level for $value {
            fn tile(
                kernel: IntegerKernel,
                tile: &Tile<'_, Self>,
                adds: bool,
                at: [usize; 2],
                target: &Target<'_>,
            ) {
                $(
                    #[cfg(target_arch = "x86_64")]
                    if kernel == IntegerKernel::$kernel {
                        tile.check();
                        // SAFETY: the processor has the instructions, and the sizes of the tile were checked.
                        return unsafe { x86::$kernel::tile(tile, adds, at, target) };
                    }
                )*
                debug_assert_eq!(kernel, IntegerKernel::Written);
                crate::vectorized(
                    #[inline(always)]
                    || tile.written_out(adds, at, target),
                );
            }
        }
    };
}
level!(i8, Vnni AvxVnni);
level!(i16, Pairs);

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(i: usize) -> i32 {
        (i * 7919 % 255) as i32 - 127
    }

    /// Holds a kernel against the loops of its layout and against f64.
    fn check<T: Level>(kernel: IntegerKernel, layout: Layout) {
        let Layout { columns: wide, step, .. } = layout;
        for (rows, steps) in [(1, 1), (3, 32), (layout.rows, 74), (4, 51)] {
            let (width, groups) = (steps * step, (steps * step).div_ceil(GROUP));
            let bytes: Vec<i8> = (0..rows * width).map(|i| byte(i) as i8).collect();
            let left: Vec<T> = bytes.iter().map(|x| T::from(*x)).collect();
            let right: Vec<u8> = (0..width * wide).map(|i| (byte(3 * i + 1) + 128) as u8).collect();
            let begin = bytes.chunks(width).flat_map(|row| row.chunks(GROUP));
            let begin: Vec<i32> = begin
                .map(|group| -128 * group.iter().map(|x| i32::from(*x)).sum::<i32>())
                .collect();
            let scale = |i: usize| 0.01 + (i as f32 * 0.37).sin().abs() / 50.0;
            let left_scales: Vec<f32> = (0..rows * groups).map(scale).collect();
            let right_scales: Vec<f32> = (0..groups * wide).map(|i| scale(i + 9)).collect();
            let tile = Tile {
                left: &left,
                left_scales: &left_scales,
                begin: &begin,
                right: &right,
                right_scales: &right_scales,
                rows,
                layout,
            };
            // The last columns of the panel are past the result.
            let (columns, stride) = (wide - 5, wide - 2);
            let run = |work: &dyn Fn(bool, &Target<'_>)| {
                let mut out = vec![1f32; rows * stride];
                for adds in [false, true] {
                    work(adds, &Target::new(&mut out, rows, columns, stride));
                }
                out
            };
            let out = run(&|adds, target| T::tile(kernel, &tile, adds, [0, 0], target));
            assert_eq!(out, run(&|adds, target| tile.written_out(adds, [0, 0], target)));
            for (row, out) in out.chunks(stride).enumerate() {
                assert!(out[columns..].iter().all(|x| *x == 1.0), "past the result");
                for (column, out) in out[..columns].iter().enumerate() {
                    let term = |k: usize| {
                        let y = i32::from(right[(k / step * wide + column) * step + k % step]);
                        let scale = left_scales[row * groups + k / GROUP]
                            * right_scales[k / GROUP * wide + column];
                        f64::from(i32::from(bytes[row * width + k]) * (y - 128)) * f64::from(scale)
                    };
                    let exact = 2.0 * (0..width).map(term).sum::<f64>();
                    assert!((f64::from(*out) - exact).abs() < 1e-3, "{out} is not {exact}");
                }
            }
        }
    }

    #[test]
    fn instructions_and_loops_come_to_the_same_bits() {
        use IntegerKernel::{AvxVnni, Pairs, Vnni, Written};

        let kernel = IntegerKernel::in_use();
        match kernel {
            Vnni | AvxVnni => check::<i8>(kernel, kernel.layout()),
            Pairs | Written => check::<i16>(kernel, kernel.layout()),
        }
        // Every layout by loops, whatever the processor has.
        check::<i8>(Written, Vnni.layout());
        check::<i8>(Written, AvxVnni.layout());
        check::<i16>(Written, Pairs.layout());
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            check::<i16>(Pairs, Pairs.layout());
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avxvnni") {
            check::<i8>(AvxVnni, AvxVnni.layout());
        }
    }
}
