//! Candle's operations compute what the kernels do as C. A process of its own: the choice is the process's.
#![cfg(feature = "emulated")]

use candle_core::{DType, Device};
use tealight_gpu::self_check::{DeltaShapes, Outcome, Shapes, judged, run};

#[test]
fn candles_operations_equal_the_kernels() {
    tealight_gpu::use_candle();
    for dtype in [DType::F32, DType::BF16] {
        // The second has several query vectors a block, no window, and heads that take two tiles.
        let more = Shapes {
            heads: [8, 2, 160],
            pairs: 80,
            window: None,
            delta: Some(DeltaShapes { heads: [2, 4], dims: [8, 6], taps: 3 }),
            ..Shapes::small(dtype)
        };
        for shapes in [Shapes::small(dtype), more] {
            let outcomes = run(&Device::Cpu, &shapes).expect("every kernel is known");
            for Outcome { kernel, error, most } in judged(outcomes).expect("nothing differs") {
                println!("{kernel:28} {error:.1e} of {most:.0e}");
            }
        }
    }
}
