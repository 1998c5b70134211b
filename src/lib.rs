//! Tealight fine-tunes small language models with verifiable rewards (RLVR) under a selectable
//! divergence, and measures what that does to the diversity of their answers.
//!
//! [`app`] is the program as a library: settings in, results out. [`app::training::run`] fine-tunes,
//! [`app::evaluate::run`] evaluates, [`app::study::run`] does both for several objectives, and
//! [`app::settings::defaults`] gives the settings to begin with. Below it, [`solvers::local::LocalSolver`] and
//! [`eval::evaluate::EvalJob`] evaluate with a verifier of your own, and [`learn::objective::Objective`] is the
//! language of objectives. `examples/` has a short program for each.
//!
//! The command line in [`cli`] composes what the other modules do; `ARCHITECTURE.md` draws the map.

#![warn(missing_docs)]

pub mod app;
pub mod cli;
#[doc(hidden)]
pub mod fuzzing;
pub mod solvers;

pub use tealight_datasets as datasets;
pub use tealight_eval as eval;
pub use tealight_formats as formats;
pub use tealight_lab as lab;
pub use tealight_learn as learn;
pub use tealight_nn as nn;
pub use tealight_system as system;
