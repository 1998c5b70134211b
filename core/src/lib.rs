//! What every part of Tealight stands on: names, files that others wrote, prompts, the ranks of a run. Nothing here
//! knows tensors or problems.

#![warn(missing_docs)]

pub mod changes;
pub mod choices;
pub mod display;
mod filters;
pub mod guard;
pub mod interpreter;
pub mod json_file;
pub mod lines;
pub mod names;
pub mod output;
pub mod prompt;
pub mod ranks;
pub mod regular;
pub mod run_folder;
pub mod similar;
pub mod turns;

pub use filters::Filters;
pub use prompt::{Chat, Message, Prompt};

/// FNV-1a: a hash that is the same on every machine and for ever, unlike the standard library's.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
