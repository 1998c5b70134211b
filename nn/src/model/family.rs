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
    pub(super) factors: Factors,
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

/// A factor of what a layer computes: from which key of config.json.
#[derive(Clone, Copy)]
pub(super) enum Factor {
    /// 1.
    One,
    /// `head_dim^-0.5`, whether the key is there or not.
    OverRootOfHeadDim,
    /// The number under this key.
    Key(&'static str),
    /// 1 over that number.
    Over(&'static str),
    /// Its root.
    RootOf(&'static str),
    /// 1 over its root.
    OverRootOf(&'static str),
}

/// The factors of a family.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) embeddings: Factor,
    pub(super) residuals: Factor,
    pub(super) attention: Factor,
    pub(super) logits: Factor,
}

/// The row of a `model_type`.
pub(super) fn family(name: &str) -> Option<Family> {
    let usual = Factors {
        embeddings: Factor::One,
        residuals: Factor::One,
        attention: Factor::OverRootOfHeadDim,
        logits: Factor::One,
    };
    let granite = Factors {
        embeddings: Factor::Key("embedding_multiplier"),
        residuals: Factor::Key("residual_multiplier"),
        attention: Factor::Key("attention_multiplier"),
        logits: Factor::Over("logits_scaling"),
    };
    let llama = Family {
        norms: NormPlacement::Before,
        norm_offset: 0.0,
        qk_norm: QkNorm::No,
        qkv_bias: false,
        has_output_bias: true,
        fusion: Fusion::No,
        width: "intermediate_size",
        factors: usual,
        asks_for_rope: false,
        window_rope: WindowRope::Shared,
        queries_grow: false,
        windows: Windows::No,
    };
    let olmo2 = Family { norms: NormPlacement::After, qk_norm: QkNorm::Whole, ..llama };
    Some(match name {
        "llama" => llama,
        "granite" => Family { factors: granite, ..llama },
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
            factors: granite,
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
            factors: Factors {
                embeddings: Factor::RootOf("hidden_size"),
                attention: Factor::OverRootOf("query_pre_attn_scalar"),
                ..usual
            },
            window_rope: WindowRope::Local,
            windows: Windows::Typed,
            ..llama
        },
        _ => return None,
    })
}
