//! Fused operations with a backward pass on the CPU; those of GPUs are the package `tealight-gpu`.
//!
//! Candle's own fused `softmax_last_dim`, `rms_norm`, `rope` and `sdpa` return constants to
//! autograd; these do not. Only `model::ops` and `policy` call them, and fall back to compositions
//! of Candle's differentiable operations where there is no kernel for the device.

pub(crate) mod cpu;
pub(crate) mod given;
pub(crate) mod product;
