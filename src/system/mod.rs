//! The machine and the process: files, other processes, memory, progress. Nothing here knows models or text.

#[doc(hidden)]
pub mod budget;
pub(crate) mod choices;
pub mod files;
pub mod hf_home;
pub(crate) mod http;
pub(crate) mod keys_once;
pub mod machine;
pub mod one_or_many;
pub mod process;
pub mod ranks;
pub mod stop;
pub mod telemetry;
