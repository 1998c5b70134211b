//! The `tealight` binary.

use tealight::system::budget::Counting;

/// mimalloc: the system's allocator takes a quarter of the time of `grade`, and far more where it is musl's.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> std::process::ExitCode {
    tealight::system::budget::quiet_panics();
    tealight::cli::main()
}
