//! The limit of products: the rate of multiply-adds on operands in the first-level cache.

use std::time::Instant;

use rayon::prelude::*;

use super::bfloat16::Form;
use super::floats::STRETCH;
use super::instructions::TileShape;
use super::{InstructionSet, kernel};

/// Floating-point operations a second that all threads reach together on operands in the first-level
/// cache with the instruction set in use: the limit of any product of f32.
pub fn peak() -> f64 {
    peak_of(Form::Single)
}

/// The same of products of bfloat16.
pub fn bfloat16_peak() -> f64 {
    peak_of(Form::half())
}

fn peak_of(form: Form) -> f64 {
    let set = InstructionSet::in_use();
    let TileShape { rows, columns } = form.tile();
    let lines = form.lines(STRETCH);
    let (left, right) = (vec![0f32; lines * rows], vec![0f32; lines * columns]);
    let block = lines * form.rows_together();
    let threads = rayon::current_num_threads();
    let pass = |tiles: usize| {
        let start = Instant::now();
        (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
            let mut out = vec![0f32; rows * columns];
            let target = kernel::Target::new(&mut out, rows, columns, columns);
            let panels = kernel::Panels { left: &left, right: &right, height: rows, form };
            let registers = kernel::Registers::for_form(form);
            for _ in 0..tiles {
                match form {
                    Form::Tiles => {
                        kernel::tiles(
                            &registers,
                            left.chunks(block),
                            &right,
                            rows,
                            true,
                            [0, 0],
                            &target,
                        );
                    }
                    _ => kernel::tile(set, panels, true, [0, 0], &target),
                }
            }
        });
        start.elapsed().as_secs_f64()
    };
    // About a tenth of a second.
    let tiles = (20.0 / pass(100)).clamp(1.0, 40_000.0) as usize;
    let seconds = (0..5).map(|_| pass(tiles)).fold(f64::INFINITY, f64::min);
    (2 * form.products() * rows * columns * lines * tiles * threads) as f64 / seconds
}
