//! Untrusted bytes of the kind `TEALIGHT_FUZZ_KIND`, a name of `TARGETS` in `src/fuzzing/mod.rs`. Memory is counted, as
//! in the binary.

#![no_main]

use std::sync::LazyLock;

use tealight::system::budget::Counting;

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

static KIND: LazyLock<String> = LazyLock::new(|| {
    std::env::var("TEALIGHT_FUZZ_KIND").expect("TEALIGHT_FUZZ_KIND: the kind of input")
});

libfuzzer_sys::fuzz_target!(
    init: tealight_core::guard::quiet_panics(),
    |data: &[u8]| tealight::fuzzing::try_input(&KIND, data)
);
