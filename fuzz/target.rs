// The body of every target, which is called like its kind of input. Memory is counted, as in the binary.

use tealight::system::budget::Counting;

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

libfuzzer_sys::fuzz_target!(
    init: tealight_core::guard::quiet_panics(),
    |data: &[u8]| tealight::fuzzing::try_input(env!("CARGO_BIN_NAME"), data)
);
