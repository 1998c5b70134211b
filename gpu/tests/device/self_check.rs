//! The self-check of a device reaches every kernel, finds nothing wrong where nothing is, and names what is.

use std::collections::BTreeSet;

use candle_core::DType;
use tealight_gpu::self_check::{Outcome, Shapes, by_kernel, judged, run};

use crate::common::device;

/// The kernels of `names.h`: those of one type, those of two, and where tensor cores are known those for heads of a
/// size.
fn names() -> BTreeSet<String> {
    let text = include_str!("../../kernels/names.h");
    let mut names = BTreeSet::new();
    for word in text.split_whitespace() {
        let (kind, name) = word.trim_end_matches(')').split_once('(').expect("ONE(name)");
        if kind == "TENSOR_CORES" {
            if tealight_gpu::has_tensor_cores(&device()) {
                names.insert(format!("attention_mma_{name}_bf16"));
            }
            continue;
        }
        names.insert(format!("{name}_f32"));
        if kind == "TWO" {
            names.insert(format!("{name}_bf16"));
        }
    }
    names
}

#[test]
fn every_kernel_is_launched_and_is_what_it_is_on_the_cpu() {
    let mut seen = BTreeSet::new();
    for dtype in [DType::F32, DType::BF16] {
        let outcomes = run(&device(), &Shapes::small(dtype)).expect("launches");
        for Outcome { kernel, error, most } in judged(outcomes).expect("nothing wrong") {
            println!("{kernel:28} {error:.1e} of {most:.0e}");
            seen.insert(kernel);
        }
    }
    let missing: Vec<String> = names().difference(&seen).cloned().collect();
    assert!(missing.is_empty(), "launched nowhere: {missing:?}");
}

#[test]
fn wrong_kernels_are_named_with_their_error() {
    let outcome = |kernel: &str, error| Outcome { kernel: kernel.to_owned(), error, most: 1e-4 };
    let seen =
        vec![outcome("logp_f32", 1e-6), outcome("rope_f32", 2e-5), outcome("logp_f32", 0.03)];
    assert_eq!(by_kernel(seen.clone()).len(), 2);
    let error = judged(seen).expect_err("wrong").to_string();
    assert!(error.contains("kernel logp_f32 is off by 3.0e-2"), "{error}");
    assert!(!error.contains("rope"), "{error}");
    assert!(
        judged(vec![outcome("add_f32", f64::NAN)]).is_err(),
        "what is not a number is no result"
    );
}

/// In a process of its own: what the environment asks for is read once.
#[test]
fn a_kernel_that_is_wrong_on_purpose_is_found() {
    if !device().is_cpu() {
        return;
    }
    for kernel in ["attention_keys_bf16", "sample_f32", "delta_back_f32"] {
        let tests = std::env::current_exe().expect("these tests");
        let done = std::process::Command::new(tests)
            .args(["--exact", "self_check::every_kernel_is_launched_and_is_what_it_is_on_the_cpu"])
            .env("TEALIGHT_EMULATED_FAULT", kernel)
            .output()
            .expect("runs");
        let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(!done.status.success(), "{kernel}: {stdout}");
        assert!(stdout.contains(&format!("kernel {kernel} is off by")), "{stdout}");
    }
}
