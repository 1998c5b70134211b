//! Families of models: what each chooses that its `config.json` does not say; `config_keys.json` has the defaults of
//! keys.

use super::architecture::{Fusion, NormPlacement, QkNorm};

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

const USUAL: Factors = Factors {
    embeddings: Factor::One,
    residuals: Factor::One,
    attention: Factor::OverRootOfHeadDim,
    logits: Factor::One,
};
const GRANITE: Factors = Factors {
    embeddings: Factor::Key("embedding_multiplier"),
    residuals: Factor::Key("residual_multiplier"),
    attention: Factor::Key("attention_multiplier"),
    logits: Factor::Over("logits_scaling"),
};
const LLAMA: Family = Family {
    norms: NormPlacement::Before,
    norm_offset: 0.0,
    qk_norm: QkNorm::No,
    qkv_bias: false,
    has_output_bias: true,
    fusion: Fusion::No,
    width: "intermediate_size",
    factors: USUAL,
    asks_for_rope: false,
    window_rope: WindowRope::Shared,
    queries_grow: false,
    windows: Windows::No,
};
const QWEN2: Family =
    Family { qkv_bias: true, has_output_bias: false, windows: Windows::Chosen, ..LLAMA };
const QWEN3_5: Family =
    Family { qk_norm: QkNorm::Heads, norm_offset: 1.0, windows: Windows::Delta, ..LLAMA };
const OLMO2: Family = Family { norms: NormPlacement::After, qk_norm: QkNorm::Whole, ..LLAMA };

/// A `model_type`, examples for messages, and its choices.
const ROWS: [(&str, &str, Family); 13] = [
    ("llama", " (Llama 3.x, SmolLM2)", LLAMA),
    ("qwen2", " (Qwen2, Qwen2.5)", QWEN2),
    ("qwen3", "", Family { qk_norm: QkNorm::Heads, windows: Windows::Chosen, ..LLAMA }),
    (
        "gemma3_text",
        " (Gemma 3 270M and 1B)",
        Family {
            norms: NormPlacement::Around,
            qk_norm: QkNorm::Heads,
            norm_offset: 1.0,
            factors: Factors {
                embeddings: Factor::RootOf("hidden_size"),
                attention: Factor::OverRootOf("query_pre_attn_scalar"),
                ..USUAL
            },
            window_rope: WindowRope::Local,
            windows: Windows::Typed,
            ..LLAMA
        },
    ),
    ("qwen3_5_text", " (Qwen3.5)", QWEN3_5),
    ("smollm3", "", Family { windows: Windows::Typed, ..LLAMA }),
    ("olmo2", "", OLMO2),
    ("olmo3", "", Family { windows: Windows::Typed, window_rope: WindowRope::Unscaled, ..OLMO2 }),
    ("mistral", "", Family { windows: Windows::All, ..LLAMA }),
    ("ministral3", "", Family { windows: Windows::All, queries_grow: true, ..LLAMA }),
    (
        "phi3",
        " (Phi-3, Phi-4-mini)",
        Family { fusion: Fusion::All, windows: Windows::All, ..LLAMA },
    ),
    ("granite", " (Granite 3)", Family { factors: GRANITE, ..LLAMA }),
    (
        "granitemoehybrid",
        " (Granite 4, dense)",
        Family {
            fusion: Fusion::GateUp,
            factors: GRANITE,
            width: "shared_intermediate_size",
            asks_for_rope: true,
            ..LLAMA
        },
    ),
];

/// The choices of a `model_type`.
pub(super) fn family(name: &str) -> Option<Family> {
    ROWS.into_iter().find(|row| row.0 == name).map(|row| row.2)
}

/// The families, for messages.
pub(super) fn families() -> String {
    ROWS.map(|(name, examples, _)| format!("{name}{examples}")).join(", ")
}
