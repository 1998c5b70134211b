//! A decoder-only transformer: one implementation for every supported family.
//!
//! [`Architecture`] is read from `config.json`; [`weights`] reads and writes safetensors;
//! [`Decoder`] maps token ids to hidden states and logits; [`KvCache`] is an argument of its
//! forward pass, never a field. To add a family, add an arm in `architecture.rs` and a parity
//! fixture.

mod architecture;
mod decoder;
mod gpu;
mod host;
mod kv_cache;
pub mod lora;
mod ops;
mod path;
mod pool;
mod rope;
mod spans;
pub mod weights;

pub use crate::kernels::product::Precision;
pub use architecture::{Architecture, RopeScaling};
pub use decoder::Decoder;
pub use kv_cache::KvCache;
pub(crate) use path::Path;
pub(crate) use pool::Pool;
pub use spans::Spans;

/// Refuses tokens that have no row in a vocabulary of this size: a kernel would not.
pub(crate) fn check_tokens(tokens: &[u32], vocabulary: usize) -> candle_core::Result<()> {
    match tokens.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => candle_core::bail!("token {id} is beyond the vocabulary of {vocabulary}"),
        None => Ok(()),
    }
}
