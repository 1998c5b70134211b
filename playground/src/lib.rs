//! Tealight's training in a browser: the packages that `tealight train` is made of, compiled to WebAssembly.
//!
//! The page writes a call as JSON into the memory of the module and reads the answer there ([`calls`]). Three functions
//! are exported for it: `input` makes room for a call, `call` answers it, `output` is where the answer begins. Nothing
//! that is called is imported: no clock, no random numbers, no files.

mod base;
pub mod calls;
mod failure;
pub mod measure;
#[cfg(target_family = "wasm")]
mod random;
pub mod settings;
pub mod toy;
pub mod training;

use std::cell::RefCell;

use calls::Playground;

/// What the page and the module share.
#[derive(Default)]
struct Exchange {
    input: Vec<u8>,
    output: Vec<u8>,
    playground: Playground,
}

thread_local! {
    static EXCHANGE: RefCell<Exchange> = RefCell::default();
}

/// Makes room for a call of `length` bytes; where it begins.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    failure::record();
    EXCHANGE.with_borrow_mut(|exchange| {
        exchange.input.clear();
        exchange.input.resize(length, 0);
        exchange.input.as_mut_ptr()
    })
}

/// Answers the call; how many bytes the answer has.
#[unsafe(no_mangle)]
pub extern "C" fn call() -> usize {
    EXCHANGE.with_borrow_mut(|exchange| {
        let text = String::from_utf8_lossy(&exchange.input);
        exchange.output = exchange.playground.answer(&text).into_bytes();
        exchange.output.len()
    })
}

/// Where the answer begins.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    EXCHANGE.with_borrow(|exchange| exchange.output.as_ptr())
}
