//! How a decoder is put together: sizes and choices, so that nothing beyond `config` asks for a brand.

pub use crate::backend::{Activation, DeltaSizes};

/// How the decoder is put together. Letters in shapes: B sequences, T tokens, D hidden size.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Rows of the output layer that are used, from the first on: those of ids that have a token. Embeddings are often
    /// padded to more rows, which stand for nothing: such ids are not sampled and have no probability.
    pub output_size: usize,
    /// D, values of a token's hidden state.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_layers: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key-value heads; divides the query heads.
    pub num_kv_heads: usize,
    /// Values a head; times the heads it need not be D.
    pub head_dim: usize,
    /// Values of a head that positions turn, from its first on.
    pub rotary_dim: usize,
    /// Longest sequence in tokens.
    pub max_positions: usize,
    /// Added to the mean square inside every norm.
    pub rms_norm_eps: f64,
    /// Added to the weight of every norm: Gemma's weights are what they differ from 1.
    pub norm_offset: f64,
    /// Placement of norms around the blocks of a layer.
    pub norms: NormPlacement,
    /// Whether queries and keys are normalised.
    pub qk_norm: QkNorm,
    /// The activation of gates.
    pub activation: Activation,
    /// The rotary embeddings that layers choose from.
    pub ropes: Vec<Rope>,
    /// Which of them turns queries, where they have one of their own.
    pub query_rope: Option<usize>,
    /// The kind of each layer.
    pub layers: Vec<LayerKind>,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub output_bias: bool,
    /// Whether queries come with a gate each, whose sigmoid multiplies what their head gathers: Qwen3.5.
    pub output_gate: bool,
    /// The sizes of layers of [`LayerKind::Delta`], where there are any.
    pub delta: Option<DeltaSizes>,
    /// Which projections are one matrix.
    pub fusion: Fusion,
    /// Whether the output layer is the embedding.
    pub tied_embeddings: bool,
    /// The factor of embeddings.
    pub embedding_scale: f64,
    /// The factor of a block's result, before the result is added to the stream.
    pub residual_scale: f64,
    /// The factor of products of queries and keys.
    pub attention_scale: f64,
    /// The factor of logits.
    pub logits_scale: f64,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
}

/// Where the norms of a block stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlacement {
    /// On what goes into a block: Llama, Qwen and most others.
    Before,
    /// On what comes out: OLMo 2.
    After,
    /// On both: Gemma 3.
    Around,
}

/// Projections that are one matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fusion {
    /// Every projection has a matrix of its own.
    No,
    /// Gate and up: Granite 4.
    GateUp,
    /// Queries, keys and values, and gate and up: Phi-3.
    All,
}

/// Norms of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// Neither queries nor keys are normed.
    No,
    /// Of every head: Qwen3, Gemma 3.
    Heads,
    /// Of all heads together: OLMo 2.
    Whole,
}

/// What mixes the tokens of a layer: softmax attention or the gated delta rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Softmax attention.
    Attention {
        /// Tokens that a token sees, itself included; none where it sees all before it.
        window: Option<usize>,
        /// Which of [`Architecture::ropes`] it turns by; none where it knows no positions.
        rope: Option<usize>,
    },
    /// The gated delta rule (arXiv 2412.06464), a state in place of keys and values; [`Architecture::delta`] has its
    /// sizes.
    Delta,
}

impl LayerKind {
    /// Whether it knows positions by turning queries and keys.
    pub(crate) fn turns(self) -> bool {
        matches!(self, Self::Attention { rope: Some(_), .. })
    }

    /// Tokens that a token sees, where they are fewer than all.
    pub fn window(self) -> Option<usize> {
        match self {
            Self::Attention { window, .. } => window,
            Self::Delta => None,
        }
    }
}

/// A rotary embedding: its base frequency and the scaling of positions.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// How frequencies are changed for long sequences.
    pub scaling: Option<RopeScaling>,
    /// How what is turned grows with its position.
    pub growth: Option<Growth>,
}

/// A factor of `1 + beta ln(1 + floor(position / period))`: Llama 4's and Ministral 3's, of queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// How fast it grows.
    pub beta: f64,
    /// Positions over which it stays the same.
    pub period: usize,
}

impl Growth {
    /// The factor at a position.
    pub(crate) fn at(self, position: usize) -> f64 {
        1.0 + self.beta * ((1 + position / self.period) as f64).ln()
    }
}

/// How the frequencies of a rotary embedding are changed for sequences beyond those of pre-training.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// All are divided by a factor.
    Linear {
        /// The divisor of the frequencies.
        factor: f64,
    },
    /// Llama 3's: low frequencies are divided by `factor`, high ones kept, those between blended.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// Below this many turns over the original context a frequency is low.
        low_freq_factor: f64,
        /// Above this many turns it is high.
        high_freq_factor: f64,
        /// The original context in tokens.
        original_max_positions: f64,
    },
    /// YaRN (arXiv 2309.00071): the same along a ramp over the dimensions, and queries and keys are scaled.
    Yarn {
        /// The divisor of low frequencies.
        factor: f64,
        /// Turns over the original context above which a frequency is kept.
        beta_fast: f64,
        /// Turns below which it is divided.
        beta_slow: f64,
        /// The original context in tokens.
        original_max_positions: f64,
        /// The factor of cosines and sines.
        attention_factor: f64,
    },
    /// LongRoPE (arXiv 2402.13753) within the original context.
    LongRope {
        /// The divisor of each frequency.
        short_factor: Vec<f64>,
        /// The factor of cosines and sines.
        attention_factor: f64,
    },
}

impl Architecture {
    /// The projections of a layer, which adapters can stand on, by their names in the Hub's layout.
    pub fn modules(&self, layer: usize) -> Vec<&'static str> {
        self.roles(layer).concat()
    }

    /// [`Architecture::modules`] by what they are for: what mixes tokens reads (queries, keys and values, and for the
    /// delta rule gates, `beta` and decay), its output, gate and up, the output of the feed-forward block.
    pub fn roles(&self, layer: usize) -> [&'static [&'static str]; 4] {
        let (inputs, output): (&[_], &[_]) = match (self.layers[layer], self.fusion) {
            (LayerKind::Delta, _) => (
                &[
                    "linear_attn.in_proj_qkv",
                    "linear_attn.in_proj_z",
                    "linear_attn.in_proj_b",
                    "linear_attn.in_proj_a",
                ],
                &["linear_attn.out_proj"],
            ),
            (_, Fusion::All) => (&["self_attn.qkv_proj"], &["self_attn.o_proj"]),
            _ => (
                &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
                &["self_attn.o_proj"],
            ),
        };
        let (gates, down): (&[_], &[_]) = match self.fusion {
            Fusion::All => (&["mlp.gate_up_proj"], &["mlp.down_proj"]),
            Fusion::GateUp => (&["shared_mlp.input_linear"], &["shared_mlp.output_linear"]),
            Fusion::No => (&["mlp.gate_proj", "mlp.up_proj"], &["mlp.down_proj"]),
        };
        [inputs, output, gates, down]
    }

    /// The names of a layer's norms: before and after attention, before and after the feed-forward block.
    pub(crate) fn norm_names(&self) -> [Option<&'static str>; 4] {
        let [first, second] = ["input_layernorm.weight", "post_attention_layernorm.weight"];
        let [third, last] =
            ["pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"];
        match self.norms {
            NormPlacement::Before => [Some(first), None, Some(second), None],
            NormPlacement::After => [None, Some(second), None, Some(last)],
            NormPlacement::Around => [Some(first), Some(second), Some(third), Some(last)],
        }
    }

    /// Values of a token's queries, and of its keys or its values.
    pub fn widths(&self) -> [usize; 2] {
        [self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim]
    }

    /// `[out, in]` of one of [`Architecture::modules`].
    fn module_shape(&self, module: &str) -> [usize; 2] {
        let (hidden, ff, [q, kv]) = (self.hidden_size, self.intermediate_size, self.widths());
        let delta = |size: fn(&DeltaSizes) -> usize| self.delta.as_ref().map_or(0, size);
        match module {
            "linear_attn.in_proj_qkv" => [delta(DeltaSizes::mixed), hidden],
            "linear_attn.in_proj_z" => [delta(DeltaSizes::values), hidden],
            "linear_attn.in_proj_b" | "linear_attn.in_proj_a" => {
                [delta(|sizes| sizes.value_heads), hidden]
            }
            "linear_attn.out_proj" => [hidden, delta(DeltaSizes::values)],
            "self_attn.qkv_proj" => [q + 2 * kv, hidden],
            "self_attn.q_proj" if self.output_gate => [2 * q, hidden],
            "self_attn.q_proj" => [q, hidden],
            "self_attn.k_proj" | "self_attn.v_proj" => [kv, hidden],
            "self_attn.o_proj" => [hidden, q],
            "mlp.gate_up_proj" | "shared_mlp.input_linear" => [2 * ff, hidden],
            "mlp.down_proj" | "shared_mlp.output_linear" => [hidden, ff],
            _ => [ff, hidden],
        }
    }

    pub(crate) fn has_bias(&self, module: &str) -> bool {
        match module {
            "self_attn.o_proj" => self.output_bias,
            module => self.qkv_bias && module.starts_with("self_attn"),
        }
    }

    /// The name and shape of every weight, as safetensors files hold them.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let hidden = self.hidden_size;
        let mut tensors = vec![("model.embed_tokens.weight".into(), vec![self.vocab_size, hidden])];
        for layer in 0..self.num_layers {
            let mut add = |name: &str, shape: &[usize]| {
                tensors.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            self.norm_names().into_iter().flatten().for_each(|name| add(name, &[hidden]));
            for module in self.modules(layer) {
                let shape = self.module_shape(module);
                add(&format!("{module}.weight"), &shape);
                if self.has_bias(module) {
                    add(&format!("{module}.bias"), &shape[..1]);
                }
            }
            if let (LayerKind::Delta, Some(sizes)) = (self.layers[layer], &self.delta) {
                add("linear_attn.conv1d.weight", &[sizes.mixed(), 1, sizes.kernel]);
                add("linear_attn.dt_bias", &[sizes.value_heads]);
                add("linear_attn.A_log", &[sizes.value_heads]);
                add("linear_attn.norm.weight", &[sizes.value_dim]);
                continue;
            }
            let [queries, keys] = match self.qk_norm {
                QkNorm::No => continue,
                QkNorm::Heads => [self.head_dim; 2],
                QkNorm::Whole => self.widths(),
            };
            add("self_attn.q_norm.weight", &[queries]);
            add("self_attn.k_norm.weight", &[keys]);
        }
        tensors.push(("model.norm.weight".into(), vec![hidden]));
        if !self.tied_embeddings {
            tensors.push(("lm_head.weight".into(), vec![self.vocab_size, hidden]));
        }
        tensors
    }

    /// How many numbers the weights hold.
    pub fn parameters(&self) -> u64 {
        let count =
            |shape: &[usize]| shape.iter().fold(1u64, |all, dim| all.saturating_mul(*dim as u64));
        self.tensors().iter().fold(0u64, |all, (_, shape)| all.saturating_add(count(shape)))
    }
}
