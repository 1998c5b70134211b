//! A small random model that several tests share.

pub(crate) mod binary;
pub(crate) mod metrics;
pub(crate) mod roomy;
pub(crate) mod runs;
pub(crate) mod server;

use candle_core::Device;
use tealight::model::{Architecture, weights};
use tealight::policy::Policy;

/// A random Qwen2 of two layers with `vocab_size` tokens.
pub(crate) fn policy(vocab_size: usize, seed: u64) -> Policy {
    let config = serde_json::json!({
        "model_type": "qwen2", "vocab_size": vocab_size, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": true,
        "initializer_range": 0.3,
    });
    let architecture = Architecture::from_config(&config).expect("a fitting config");
    let weights = weights::random(&architecture, seed, &Device::Cpu).expect("memory");
    Policy::new(&architecture, &weights).expect("all weights")
}
