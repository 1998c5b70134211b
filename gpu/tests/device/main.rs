//! The kernels on a device, or as C in its place: one program, which is what a lent GPU has room for.
#![cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]

mod attention;
mod common;
mod delta;
mod kernels;
mod sampling;
mod self_check;
