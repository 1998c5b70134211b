//! The memory of a training run, on the CPU or a GPU, by part, before it begins.

use candle_core::{DType, Device};
use serde::Serialize;

use super::AdamW;
use tealight_nn::backend::cpu::key_layout::{KeyLayout, retained_tokens};
use tealight_nn::backend::gpu::most_logits;
use tealight_nn::backend::int8;
use tealight_nn::device::{Precision, multiplies_bfloat16};
use tealight_nn::generate::PREFILL_TOKENS;
use tealight_nn::model::{
    Architecture, BackendKind, Fusion, LayerKind, NormPlacement, QkNorm, RolloutDtype,
    prefill_bytes, row_bytes, step_bytes,
};

/// The sizes that memory depends on.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Sequences that are sampled at a time.
    pub rows: usize,
    /// Prompts of a step.
    pub prompts: usize,
    /// Tokens of the longest sequence, prompt and completion.
    pub longest: usize,
    /// Most tokens of a completion.
    pub completion: usize,
    /// Tokens in one forward and backward pass.
    pub micro_batch: usize,
    /// Whether layers are computed again in the backward pass.
    pub recomputes: bool,
    /// Weights that are trained; `None` where all are.
    pub trained: Option<usize>,
    /// Whether the base is in blocks of 8 bits.
    pub is_int8: bool,
    /// The type that rollouts round the weights to, where it is another than theirs.
    pub rollout_dtype: Option<RolloutDtype>,
    /// Whether the base is held beside a policy of all weights; an adapter stands on it always.
    pub holds_base: bool,
    /// Completion tokens of a step whose whole distributions are compared with the base's.
    pub compared: usize,
}

/// The processor of a run: its memory depends on it.
#[derive(Debug, Clone)]
pub enum Hardware {
    /// The CPU, with weight matrices, keys and values of this type; the rest is in f32.
    Cpu(DType),
    /// A GPU, with weights and activations of this type.
    Gpu(DType, Device),
}

impl Hardware {
    /// That of a device and a precision.
    pub fn for_device(device: &Device, precision: Precision) -> Self {
        let dtype = precision.dtype.storage(device);
        match BackendKind::for_device(device) {
            BackendKind::Cpu => Self::Cpu(dtype),
            BackendKind::Gpu => Self::Gpu(dtype, device.clone()),
        }
    }
}

/// Bytes by part. What lasts is there all the time; of a rollout and a training step only one is.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryPlan {
    /// The base's weights, which are the reference; 0 where the policy took them over because nothing reads them.
    pub base: u64,
    /// The policy's weights, f32 and where needed a bf16 copy.
    pub policy: u64,
    /// The optimizer's two moments.
    pub optimizer: u64,
    /// Activations that layers keep for the backward pass, and their scratch; they stay for the next step.
    pub activations: u64,
    /// In a rollout: weights packed for decoding.
    pub packed: u64,
    /// In a rollout: keys and values, and the logits of a step; on a GPU also what else a step computes in, which is
    /// freed with the cache.
    pub cache: u64,
    /// In a rollout: memory of the last step's gradients that packed weights take no part of; it waits for the next
    /// step.
    pub idle_gradients: u64,
    /// In a training step: the gradients of all weights.
    pub gradients: u64,
    /// In a training step: a block of logits; where distributions are compared one more, and what is kept of the base.
    pub logits: u64,
    /// In a training step: memory of packed weights that gradients take no part of; it waits for the next rollout.
    pub idle_packed: u64,
}

impl MemoryPlan {
    /// Of a run at this place.
    pub fn at(architecture: &Architecture, sizes: Sizes, place: &Hardware) -> Self {
        match place {
            Hardware::Cpu(dtype) => Self::on_cpu(architecture, sizes, *dtype),
            Hardware::Gpu(dtype, device) => Self::on_gpu(architecture, sizes, (*dtype, device)),
        }
    }

    /// Of a run on the CPU with weight matrices of this type; `sizes` may be larger than what is met.
    pub fn on_cpu(a: &Architecture, sizes: Sizes, dtype: DType) -> Self {
        let is_half = dtype == DType::BF16;
        // Of the other weights there are few: they count as matrices.
        let width = dtype.size_in_bytes() as u64;
        let all = a.parameters();
        // An adapter stands on the base itself.
        let trained = sizes.trained.map_or(all, |count| count as u64);
        let bytes = |shape: &[usize]| {
            let count = shape.iter().product::<usize>() as u64;
            let is_int8 = sizes.is_int8 && int8::fits(shape);
            if is_int8 { count / int8::BLOCK * int8::BLOCK_BYTES } else { width * count }
        };
        let samples_in_half = is_half || sizes.rollout_dtype == Some(RolloutDtype::Bfloat16);
        let packed = packed_on_cpu(a, &sizes, samples_in_half);
        let gradients = 4 * trained;
        // Packed weights that are trained take the memory of their gradients in turn, and both outlast the step; those
        // of 8 bits are freed after the rollout.
        let is_freed = sizes.rollout_dtype == Some(RolloutDtype::Int8);
        let (idle_gradients, idle_packed) = match (is_freed, sizes.trained) {
            (true, _) => (gradients, 0),
            (false, None) => (gradients.saturating_sub(packed), packed.saturating_sub(gradients)),
            (false, Some(_)) => (gradients, packed),
        };
        let block = 2048;
        let columns = sizes.rows * a.vocab_size.max(a.intermediate_size);
        let in_block = sizes.micro_batch.min(block) * a.vocab_size.min(block);
        let blocks = if sizes.compared > 0 { 2 } else { 1 };
        Self {
            base: match sizes.holds_base || sizes.trained.is_some() {
                true => a.tensors().iter().map(|(_, shape)| bytes(shape)).sum(),
                false => 0,
            },
            // An adapter stays in f32.
            policy: 4 * trained + if is_half && sizes.trained.is_none() { width * all } else { 0 },
            optimizer: AdamW::BYTES_A_WEIGHT * trained,
            activations: 4 * activations(a, sizes),
            packed,
            cache: (cached(a, &sizes, samples_in_half) + 8 * columns) as u64,
            idle_gradients,
            gradients,
            logits: (4 * (blocks * in_block + sizes.compared * (a.hidden_size + 1))) as u64,
            idle_packed,
        }
    }

    /// Of a run on a GPU with weights and activations of this type; what is trained is in f32. The cache is that of
    /// rows which all grow to their end.
    fn on_gpu(a: &Architecture, sizes: Sizes, (dtype, device): (DType, &Device)) -> Self {
        let width = dtype.size_in_bytes() as u64;
        let all = a.parameters();
        let trained = sizes.trained.map_or(all, |count| count as u64);
        let is_half = dtype == DType::BF16;
        let head = (a.vocab_size * a.hidden_size) as u64;
        let prompt = sizes.longest - sizes.completion;
        let prompts = (sizes.prompts * prompt).min(PREFILL_TOKENS.max(prompt));
        let logits = (sizes.micro_batch * a.vocab_size).min(most_logits(device)) as u64;
        let compared = sizes.compared * (a.hidden_size * dtype.size_in_bytes() + 4);
        Self {
            base: if sizes.holds_base || sizes.trained.is_some() { width * all } else { 0 },
            // The copy that samples are drawn from.
            policy: 4 * trained + if is_half { width * trained } else { 0 },
            optimizer: AdamW::BYTES_A_WEIGHT * trained,
            activations: width * activations(a, sizes),
            packed: if is_half && !tealight_gpu::multiplies_halves(device) { 4 * head } else { 0 },
            cache: sizes.rows as u64
                * (row_bytes(a, sizes.longest, dtype)
                    + 8 * a.vocab_size as u64
                    + step_bytes(a, dtype))
                + prefill_bytes(a, prompts, dtype),
            // Counted on the CPU alone.
            idle_gradients: 0,
            gradients: 4 * trained,
            logits: 2 * 4 * logits + compared as u64,
            idle_packed: 0,
        }
    }

    /// Most bytes at one time.
    pub fn peak(&self) -> u64 {
        // A rollout's cache is freed before the step, the gradients after it: the larger of the two counts.
        let lasting = self.base + self.policy + self.optimizer + self.activations;
        let rollout = self.packed + self.cache + self.idle_gradients;
        lasting + rollout.max(self.gradients + self.logits + self.idle_packed)
    }

    /// Part after part, for the user to see.
    pub fn lines(&self) -> Vec<String> {
        let line = |name: &str, bytes: u64| format!("{name:34} {:9.1} MB", bytes as f64 / 1e6);
        vec![
            line("weights of the base", self.base),
            line("weights of the policy", self.policy),
            line("moments of the optimizer", self.optimizer),
            line("activations of a micro-batch", self.activations),
            line("rollout: packed weights", self.packed),
            line("rollout: keys, values, logits", self.cache),
            line("rollout: idle gradients", self.idle_gradients),
            line("step: gradients", self.gradients),
            line("step: blocks of logits", self.logits),
            line("step: idle packed weights", self.idle_packed),
            line("at most, at one time", self.peak()),
        ]
    }
}

/// Bytes of the copies of weights that a rollout on the CPU reads.
fn packed_on_cpu(a: &Architecture, sizes: &Sizes, is_half: bool) -> u64 {
    if sizes.rollout_dtype == Some(RolloutDtype::Int8) {
        let tensors = a.tensors();
        // The lookup is packed where it is the output layer too.
        let packed = tensors.iter().skip(usize::from(!a.tied_embeddings));
        return packed.map(|(_, shape)| int8::rollout_bytes(shape)).sum();
    }
    if sizes.is_int8 {
        // Products widen it as they read it.
        return 0;
    }
    // Packed weights that are trained have the size of their gradients; bfloat16 is packed as f32 where no instruction
    // multiplies it.
    let is_packed_in_half = is_half && sizes.trained.is_some() && multiplies_bfloat16();
    let width = if is_packed_in_half { 2 } else { 4 };
    let lookup = if a.tied_embeddings { 0 } else { (a.vocab_size * a.hidden_size) as u64 };
    width * (a.parameters() - lookup)
}

/// Values that layers keep of a micro-batch for its backward pass, and their scratch.
fn activations(a: &Architecture, sizes: Sizes) -> u64 {
    let (queries, keys) = (a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim);
    let qkv = queries + 2 * keys;
    let raw = if a.qk_norm == QkNorm::No { 0 } else { qkv };
    // The inputs of norms after blocks, and copies of fused projections.
    let results = if a.norms == NormPlacement::Before { 0 } else { 2 * a.hidden_size };
    let gates = 2 * a.intermediate_size;
    let fused = match a.fusion {
        Fusion::No => 0,
        Fusion::GateUp => gates,
        Fusion::All => qkv + gates,
    };
    let rest = results + a.hidden_size + 2 * a.intermediate_size;
    // Gates of attention's output, and the queries once more.
    let gated = if a.output_gate { 2 * queries } else { 0 };
    let attention = qkv + raw + queries + gated + rest;
    // The delta rule's: before and after the convolution, gates, `b` and `a`, results.
    let delta = a.delta.map_or(0, |d| 2 * d.mixed() + 2 * d.values() + 2 * d.value_heads + rest);
    let inner = |kind: &LayerKind| match kind {
        LayerKind::Attention { .. } => attention,
        LayerKind::Delta => delta,
    };
    let largest = a.layers.iter().map(inner).max().unwrap_or(0);
    // Of the layer in hand: its norms, what is projected down, gradients, keys and values; and once more
    // for the reference, which keeps nothing but its own scratch. The delta rule's gradients are by head at first.
    let of_delta = a.delta.map_or(0, |d| {
        let by_head = d.value_heads * (2 * d.key_dim + d.value_dim + 2);
        by_head + 4 * d.mixed() + 3 * d.values()
    });
    let mixing = (2 * qkv + 2 * keys + 2 * gated).max(of_delta);
    let scratch = 7 * a.hidden_size + fused + 2 * a.intermediate_size + mixing;
    let reference = largest + 3 * a.hidden_size + a.intermediate_size + 2 * keys;
    let scratch = scratch + reference;
    let saved_tensors = match sizes.recomputes {
        true => a.num_layers * a.hidden_size + largest,
        false => a.layers.iter().map(|kind| a.hidden_size + inner(kind)).sum(),
    };
    (sizes.micro_batch * (saved_tensors + scratch)) as u64
}

/// Bytes of the key-value cache of a rollout, whose keys and values are rounded where products with the matrices are:
/// not where the base is of 8 bits.
fn cached(a: &Architecture, sizes: &Sizes, is_half: bool) -> usize {
    let Sizes { longest, completion, .. } = *sizes;
    let is_int8 = sizes.is_int8 && int8::fits(&[a.vocab_size, a.hidden_size]);
    let width = if is_half && !is_int8 { 2 } else { 4 };
    let token = 2 * width * a.num_kv_heads * a.head_dim;
    let state = 4 * a.delta.map_or(0, |d| d.state().iter().sum());
    let of_row = |layer: &LayerKind| match layer {
        LayerKind::Attention { window: Some(window), .. } => {
            token * retained_tokens(*window, longest)
        }
        // Earlier positions are read where the prompt was computed.
        LayerKind::Attention { window: None, .. } => {
            token * KeyLayout::after_others(completion).min(longest)
        }
        LayerKind::Delta => state,
    };
    let of_prompt = |layer: &LayerKind| match layer {
        LayerKind::Attention { .. } => token * (longest - completion),
        LayerKind::Delta => state,
    };
    sizes.rows * a.layers.iter().map(of_row).sum::<usize>()
        + sizes.prompts * a.layers.iter().map(of_prompt).sum::<usize>()
}
