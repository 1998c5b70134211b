//! Strangers' bytes of the kind `readme`: see `tealight::fuzzing`.

#![no_main]

use tealight::system::budget::Counting;

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

libfuzzer_sys::fuzz_target!(
    init: tealight::system::budget::quiet_panics(),
    |data: &[u8]| tealight::fuzzing::try_input("readme", data)
);
