//! What the gated delta rule refuses; its values and gradients are compared with f64 in `tests/it/layers.rs`.

use candle_core::{DType, Tensor};
use tealight_gpu::kernels::{self, Delta, DeltaRun, Taps};

use crate::common::{device, values};

#[test]
fn wrong_sizes_are_refused() {
    let weight = values(&[2], 0.3, DType::F32).0;
    let rule = |key_dim| Delta {
        key_heads: 1,
        value_heads: 2,
        key_dim,
        value_dim: 3,
        weights: [&weight, &weight],
    };
    let x = |width| values(&[4, width], 0.1, DType::F32).0;
    let run = [DeltaRun { tokens: 0..4, after: None, goes_on: false }];
    let refused = |rule, mixed: &Tensor, runs: &[DeltaRun]| {
        let gates = x(2);
        kernels::delta_rule(rule, [mixed, &gates, &gates], runs, None).expect_err("no").to_string()
    };
    assert!(refused(rule(300), &x(606), &run).contains("use --device cpu"));
    assert!(refused(rule(2), &x(11), &run).contains("rows of 10"));
    let beyond = [DeltaRun { tokens: 0..9, after: None, goes_on: false }];
    assert!(refused(rule(2), &x(10), &beyond).contains("other tokens"));
    let from_cache = [DeltaRun { goes_on: true, ..run[0].clone() }];
    assert!(refused(rule(2), &x(10), &from_cache).contains("there is no cache"));
    assert!(Taps::new(&run, 4, 99, false, &device()).is_err());
}
