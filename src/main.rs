//! The `tealight` binary.

use tealight::system::budget::Counting;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

#[cfg(not(target_env = "musl"))]
#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

fn main() -> std::process::ExitCode {
    tealight::system::budget::quiet_panics();
    tealight::cli::main()
}
