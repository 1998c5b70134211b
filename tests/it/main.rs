//! All integration tests in one binary: one link, and every test beside every other.

mod adapters;
mod cli;
mod closed_forms;
mod conformance;
mod docs;
mod engine;
mod evaluation;
mod faults;
mod formats;
mod fuzz;
#[cfg(feature = "emulated-gpu")]
mod gpu;
mod host;
mod hostile;
mod hub;
mod judges;
mod lab;
mod learns;
mod parity;
mod prompts;
mod push;
mod recipes;
mod refusals;
mod rollouts;
mod strangers;
mod support;
mod surprises;
mod survival;
mod tidy;
mod tools;
