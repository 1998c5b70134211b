//! The `tealight` binary.

use tealight::system::allocator::BySize;
use tealight::system::budget::Counting;

#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as Large;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Large;

/// mimalloc for small values: the system's allocator takes a quarter of the time of `grade`. musl's takes far more, and
/// mimalloc is there for all.
#[global_allocator]
static ALLOCATOR: Counting<BySize<mimalloc::MiMalloc, Large>> =
    Counting(BySize { small: mimalloc::MiMalloc, large: Large });

fn main() -> std::process::ExitCode {
    tealight::system::allocator::return_large_values();
    tealight_core::guard::quiet_panics();
    tealight::cli::main()
}
