//! A decoder-only transformer: one implementation for every supported family.
//!
//! [`Architecture`] is read from `config.json`; [`weights`] reads and writes safetensors;
//! [`Decoder`] maps token ids to hidden states and logits; [`KvCache`] is an argument of its forward pass, never a
//! field. A layer is written once, over `backend::Backend`. To add a family, add a row of choices in `family.rs` and
//! reference values; what no family chose before, in `architecture.rs` and `layer.rs`.

mod architecture;
mod attention;
pub mod averages;
mod batch_memory;
mod config;
pub(crate) mod config_keys;
mod decoder;
mod delta;
mod family;
mod forward;
mod keys;
mod kind;
mod kv_cache;
mod layer;
mod layer_kinds;
mod layer_parts;
mod linear;
pub mod lora;
mod rope;
mod rope_config;
mod run;
pub mod stored_head;
mod text_part;
pub mod unread;
pub mod weights;

pub use crate::backend::{PackedSequences, RolloutDtype, Segment};
pub use architecture::{
    Activation, Architecture, DeltaSizes, Fusion, LayerKind, NormPlacement, QkNorm, Rope,
    RopeScaling,
};
pub use batch_memory::{prefill_bytes, row_bytes, step_bytes};
pub use decoder::Decoder;
pub(crate) use forward::{LastTokens, LogpTrace, Trace};
pub use kind::BackendKind;
pub use kv_cache::KvCache;
pub use rope::inverse_frequencies;
