//! The least work of a rollout and a training step: floating-point operations, and bytes that must be read.

use candle_core::DType;

use crate::limits::Limits;
use crate::model::{Architecture, LayerKind};

/// The work of a rollout and of a training step: floating-point operations, and bytes that must be read.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    prefill_flops: f64,
    decode_flops: f64,
    decode_bytes: f64,
    decode_steps: f64,
    step_flops: f64,
}

impl Work {
    /// Of `prompts` prompts of `prompt_len` tokens with `group` completions each of `new_tokens`, with weights of one
    /// type and keys and values of another.
    pub fn new(
        architecture: &Architecture,
        (dtype, cache): (DType, DType),
        (prompts, group): (usize, usize),
        (prompt_len, new_tokens): (usize, usize),
    ) -> Self {
        let a = architecture;
        let (queries, keys) = (a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim);
        let head = (a.vocab_size * a.hidden_size) as f64;
        let lookup = if a.tied_embeddings { 0.0 } else { head };
        // Matrices of all layers; norms and biases are nothing beside them.
        let body = a.parameters() as f64 - head - lookup;
        let attending = a.layers.iter().filter(|kind| **kind != LayerKind::Delta).count();
        // A state is read and changed by about four operations a value.
        let states = a.delta.map_or(0, |d| 8 * d.state()[0]) * (a.num_layers - attending);
        let attention = (4 * attending * queries) as f64;
        let forward = |tokens: f64, predicted: f64, context: f64| {
            (2.0 * body + states as f64) * tokens
                + 2.0 * head * predicted
                + attention * tokens * context
        };
        let (prompt, new) = (prompt_len as f64, new_tokens as f64);
        let (prompts, rows) = (prompts as f64, (prompts * group) as f64);
        let bytes = dtype.size_in_bytes() as f64;
        let cached = rows
            * (2 * attending * keys * cache.size_in_bytes()) as f64
            * (prompt + new / 2.0)
            // A state is read and written, four bytes a value each.
            + rows * states as f64;
        Self {
            prefill_flops: forward(prompts * prompt, prompts, prompt / 2.0),
            decode_flops: forward(rows, rows, prompt + new / 2.0),
            decode_bytes: (body + head) * bytes + cached,
            decode_steps: new - 1.0,
            // The reference's forward pass, the policy's, and twice that for the gradients. A prompt is computed once
            // for its group.
            step_flops: 4.0
                * (forward(prompts * prompt, 0.0, prompt / 2.0)
                    + forward(rows * new, rows * new, prompt + new / 2.0)),
        }
    }

    /// Seconds of the rollout where every step is held up by arithmetic or by memory alone.
    pub fn rollout_at(&self, limits: &Limits) -> f64 {
        let step = (self.decode_flops / limits.peak).max(self.decode_bytes / limits.read);
        self.prefill_flops / limits.peak + self.decode_steps * step
    }

    /// Seconds of the training step's products at the peak.
    pub fn step_at(&self, limits: &Limits) -> f64 {
        self.step_flops / limits.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_halves_the_bytes_of_a_decoding_step() {
        let config = serde_json::json!({
            "model_type": "qwen2", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "tie_word_embeddings": true,
        });
        let architecture = Architecture::from_config(&config).expect("a config");
        let work = |dtype| Work::new(&architecture, (dtype, dtype), (2, 3), (10, 20));
        let (single, half) = (work(DType::F32), work(DType::BF16));
        assert_eq!(single.decode_bytes, 2.0 * half.decode_bytes);
        assert_eq!(single.decode_flops, half.decode_flops);
        // Where memory is the limit, seconds are bytes over their rate.
        let limits = Limits { peak: f64::INFINITY, product: f64::INFINITY, read: 1e9 };
        assert_eq!(single.rollout_at(&limits), 19.0 * single.decode_bytes / 1e9);
    }
}
