//! Tealight fine-tunes small language models with verifiable rewards (RLVR) under a selectable
//! divergence, and measures what that does to the diversity of their answers.
//!
//! [`app`] is the program as a library: settings in, results out. [`app::training::run`] fine-tunes,
//! [`app::evaluate::run`] evaluates, [`app::study::run`] does both for several objectives, and
//! [`app::settings::defaults`] gives the settings to begin with. Below it, [`solver::LocalSolver`] and
//! `tealight_eval::evaluate::EvalJob` evaluate with a verifier of your own, and [`objective::Objective`] is the
//! language of objectives. `examples/` has a short program for each.
//!
//! The command line in [`cli`] composes what the other modules do; `ARCHITECTURE.md` draws the map.

#![warn(missing_docs)]

pub mod adapter;
pub mod app;
mod backend;
pub mod base_validity;
pub mod budget;
pub mod cli;
pub mod device;
mod divergence;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod gguf;
mod http;
pub mod hub;
mod keys_once;
pub mod lab;
pub mod limits;
pub mod model;
pub mod objective;
pub mod policy;
pub mod presample;
pub mod pretrained;
pub mod process;
pub mod ranks;
pub mod remote;
pub mod rollout;
pub mod sampled;
pub mod solver;
pub mod telemetry;
pub mod tokenizer;
pub mod train;
