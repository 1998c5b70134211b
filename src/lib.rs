//! Tealight fine-tunes small language models with verifiable rewards (RLVR) under a selectable
//! divergence, and measures what that does to the diversity of their answers.
//!
//! [`app`] is the program as a library: settings in, results out. [`app::training::run`] fine-tunes,
//! [`app::evaluate::run`] evaluates, [`app::study::run`] does both for several objectives, and
//! [`app::settings::defaults`] gives the settings to begin with. Below it, [`solvers::local::LocalSolver`] and
//! `tealight_eval::evaluate::EvalJob` evaluate with a verifier of your own, and [`learn::objective::Objective`] is the
//! language of objectives. `examples/` has a short program for each.
//!
//! The command line in [`cli`] composes what the other modules do; `ARCHITECTURE.md` draws the map.

#![warn(missing_docs)]

pub mod app;
pub mod cli;
mod divergence;
pub mod formats;
#[doc(hidden)]
pub mod fuzzing;
pub mod lab;
pub mod learn;
pub mod nn;
pub mod solvers;
pub mod system;
