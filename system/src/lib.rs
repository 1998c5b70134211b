//! The machine and the process: files, other processes, memory, progress. Nothing here knows models or text.

#![warn(missing_docs)]

#[cfg(not(target_family = "wasm"))]
mod address;
pub mod allocator;
#[doc(hidden)]
#[cfg_attr(target_family = "wasm", path = "budget_absent.rs")]
pub mod budget;
pub mod choices;
pub mod claim;
#[cfg_attr(target_family = "wasm", path = "clock_absent.rs")]
pub mod clock;
pub mod files;
pub mod hf_home;
#[cfg(not(target_family = "wasm"))]
pub mod http;
pub mod keys_once;
pub mod machine;
pub mod one_or_many;
#[cfg(not(target_family = "wasm"))]
pub mod process;
#[cfg(not(target_family = "wasm"))]
mod proxy;
pub mod range;
pub mod stop;
pub mod telemetry;
