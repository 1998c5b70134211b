//! Whole tasks: each module has its settings and a function that does the task and returns its results.
//!
//! The command line in `cli` parses settings and prints results; another program may call these directly. Settings
//! are clap's `Args` and serde's, so that an option, its default and its text are written once. Messages on the way are
//! events of `tracing`.

pub mod audit;
pub mod bench;
pub mod compare;
pub(crate) mod data_file;
pub mod directory;
pub mod doctor;
pub mod evaluate;
pub mod export;
pub mod filter_options;
pub(crate) mod folder_settings;
pub mod gap;
pub mod grade;
pub mod grading;
pub mod lab;
pub(crate) mod lengths;
pub(crate) mod own_settings;
pub mod prompts;
mod recorded_settings;
pub mod rewards;
pub(crate) mod session;
pub mod settings;
pub mod study;
pub mod templates;
pub mod training;
pub mod verdicts;

/// The message where a command has no directory to write to.
pub(crate) const NO_OUTPUT: &str = "--output DIR is needed";
