//! The neural network: text to tokens, tokens to log-probabilities and their gradients, prompts to completions.
//!
//! Nothing here knows rewards, objectives or files of the Hub.

#![warn(missing_docs)]

pub mod backend;
pub mod device;
pub mod generate;
pub mod model;
pub mod policy;
pub mod tokenizer;
