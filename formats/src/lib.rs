//! Models on disk and on the Hub: a name becomes files, files become a model, and back.

#![warn(missing_docs)]

pub mod adapter;
pub mod gguf;
pub mod hub;
pub mod pretrained;
