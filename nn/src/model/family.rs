//! Families of models: what each chooses that its `config.json` does not say; `config_keys.json` has the defaults of
//! keys.

use super::architecture::{Fusion, NormPlacement, QkNorm};

/// Families that are supported, as `model_type` in `config.json` names them.
pub(super) const FAMILIES: &str = "llama (Llama 3.x, SmolLM2), qwen2 (Qwen2, Qwen2.5), qwen3, gemma3_text (Gemma 3 270M and 1B), \
                        qwen3_5_text (Qwen3.5), \
                        smollm3, olmo2, olmo3, mistral, ministral3, phi3 (Phi-3, Phi-4-mini), granite (Granite 3), granitemoehybrid (Granite 4, dense)";

/// A row of choices.
pub(super) struct Family {
    pub(super) norms: NormPlacement,
    pub(super) norm_offset: f64,
    pub(super) qk_norm: QkNorm,
    /// Biases of queries, keys and values where `attention_bias` says nothing.
    pub(super) qkv_bias: bool,
    /// Whether `attention_bias` is of the output projection too.
    pub(super) has_output_bias: bool,
    pub(super) fusion: Fusion,
    /// The key of the width of a feed-forward layer.
    pub(super) width: &'static str,
    pub(super) scales: Scales,
    /// Whether positions turn heads only where `position_embedding_type` says so.
    pub(super) asks_for_rope: bool,
    pub(super) window_rope: WindowRope,
    /// Whether queries grow with their position where `llama_4_scaling_beta` says so.
    pub(super) queries_grow: bool,
    pub(super) windows: Windows,
}

/// Which layers see a window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Windows {
    No,
    /// All, where there is a `sliding_window`.
    All,
    /// Those that `layer_types` says.
    Typed,
    /// The same, where `use_sliding_window` says so.
    Chosen,
    /// None, but `layer_types` may say that a layer has the delta rule.
    Delta,
}

/// The rotary embedding of layers with a window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowRope {
    /// The global RoPE.
    Shared,
    /// One of base `rope_local_base_freq`.
    Local,
    /// The global RoPE, without its scaling.
    Unscaled,
}

/// Where the factors of embeddings, residuals, attention and logits are from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scales {
    /// Attention's is the root of `head_dim`, and there is no other.
    Usual,
    /// Embeddings have the root of the hidden size, attention that of `query_pre_attn_scalar`.
    Gemma,
    /// Each has a key.
    Keys,
}

/// The row of a `model_type`.
pub(super) fn family(name: &str) -> Option<Family> {
    let llama = Family {
        norms: NormPlacement::Before,
        norm_offset: 0.0,
        qk_norm: QkNorm::No,
        qkv_bias: false,
        has_output_bias: true,
        fusion: Fusion::No,
        width: "intermediate_size",
        scales: Scales::Usual,
        asks_for_rope: false,
        window_rope: WindowRope::Shared,
        queries_grow: false,
        windows: Windows::No,
    };
    let olmo2 = Family { norms: NormPlacement::After, qk_norm: QkNorm::Whole, ..llama };
    Some(match name {
        "llama" => llama,
        "granite" => Family { scales: Scales::Keys, ..llama },
        "mistral" => Family { windows: Windows::All, ..llama },
        "ministral3" => Family { windows: Windows::All, queries_grow: true, ..llama },
        "qwen2" => {
            Family { qkv_bias: true, has_output_bias: false, windows: Windows::Chosen, ..llama }
        }
        "qwen3" => Family { qk_norm: QkNorm::Heads, windows: Windows::Chosen, ..llama },
        "smollm3" => Family { windows: Windows::Typed, ..llama },
        "phi3" => Family { fusion: Fusion::All, windows: Windows::All, ..llama },
        "granitemoehybrid" => Family {
            fusion: Fusion::GateUp,
            scales: Scales::Keys,
            width: "shared_intermediate_size",
            asks_for_rope: true,
            ..llama
        },
        "olmo2" => olmo2,
        "olmo3" => Family { windows: Windows::Typed, window_rope: WindowRope::Unscaled, ..olmo2 },
        "qwen3_5_text" => {
            Family { qk_norm: QkNorm::Heads, norm_offset: 1.0, windows: Windows::Delta, ..llama }
        }
        "gemma3_text" => Family {
            norms: NormPlacement::Around,
            qk_norm: QkNorm::Heads,
            norm_offset: 1.0,
            scales: Scales::Gemma,
            window_rope: WindowRope::Local,
            windows: Windows::Typed,
            ..llama
        },
        _ => return None,
    })
}
