//! The machine and the process: files, other processes, memory, progress. Nothing here knows models or text.

#![warn(missing_docs)]

mod address;
pub mod allocator;
#[doc(hidden)]
pub mod budget;
pub mod choices;
pub mod claim;
pub mod files;
pub mod hf_home;
pub mod http;
pub mod key_values;
pub mod keys_once;
pub mod machine;
pub mod one_or_many;
pub mod process;
mod proxy;
pub mod range;
pub mod stop;
pub mod telemetry;
