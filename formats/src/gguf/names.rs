//! The names of tensors in GGUF files and on the Hub, and the order of rows that llama.cpp gives queries and keys.

use candle_core::{Result, Tensor};

use super::GEMMA_FILE;

/// Tensors outside the layers: in a file, on the Hub.
const WHOLE: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];
/// Parts of a layer.
const PARTS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Parts of a layer of Gemma 3 that are called otherwise.
const GEMMA_PARTS: [(&str, &str); 3] = [
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// Whether a tensor of this name on the Hub is the weight of a norm.
pub(super) fn is_norm(name: &str) -> bool {
    name.ends_with("norm.weight")
}

/// The name in a file of the family `file_family` of a tensor that is called `name` on the Hub.
pub(super) fn in_file(name: &str, file_family: &str) -> Option<String> {
    if let Some((file, _)) = WHOLE.iter().find(|(_, hub)| *hub == name) {
        return Some((*file).to_owned());
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let gemma = if file_family == GEMMA_FILE { &GEMMA_PARTS[..] } else { &[] };
    let (file, _) = gemma.iter().chain(&PARTS).find(|(_, hub)| *hub == part)?;
    Some(format!("blk.{layer}.{file}.{kind}"))
}

/// Which way rows are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    ToFile,
    ToHub,
}

/// The rows of a weight or bias of queries or keys in the other order: on the Hub a head is its two rotated halves one
/// after the other, in files of the llama family their values alternate.
pub(super) fn permuted(x: &Tensor, heads: usize, order: Order) -> Result<Tensor> {
    let rows = x.dim(0)?;
    let (dim, half) = (rows / heads, rows / heads / 2);
    let source = |row: usize| {
        let (head, at) = (row / dim, row % dim);
        let within = match order {
            Order::ToHub => 2 * (at % half) + at / half,
            Order::ToFile => at % 2 * half + at / 2,
        };
        (head * dim + within) as u32
    };
    let sources: Vec<u32> = (0..rows).map(source).collect();
    x.index_select(&Tensor::from_vec(sources, rows, x.device())?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn orders_are_each_others_inverse_and_alternate_the_halves_of_heads() {
        let x = Tensor::arange(0f32, 12.0, &Device::Cpu).unwrap();
        let file = permuted(&x, 2, Order::ToFile).unwrap();
        let expected = [0., 3., 1., 4., 2., 5., 6., 9., 7., 10., 8., 11.];
        assert_eq!(file.to_vec1::<f32>().unwrap(), expected);
        let back = permuted(&file, 2, Order::ToHub).unwrap();
        assert_eq!(back.to_vec1::<f32>().unwrap(), x.to_vec1::<f32>().unwrap());
    }

    #[test]
    fn tensor_names_map_to_llama_cpps() {
        assert_eq!(
            in_file("model.layers.7.mlp.up_proj.weight", "qwen2").unwrap(),
            "blk.7.ffn_up.weight"
        );
        assert_eq!(
            in_file("model.layers.0.self_attn.q_proj.bias", "qwen2").unwrap(),
            "blk.0.attn_q.bias"
        );
        let norm = "model.layers.3.post_attention_layernorm.weight";
        assert_eq!(in_file(norm, "llama").unwrap(), "blk.3.ffn_norm.weight");
        assert_eq!(in_file(norm, "gemma3").unwrap(), "blk.3.post_attention_norm.weight");
        assert_eq!(in_file("lm_head.weight", "llama").unwrap(), "output.weight");
        assert_eq!(in_file("model.layers.0.mystery.weight", "llama"), None);
    }
}
