//! GGUF weights as they are: products read 4 to 8 bits a weight.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use candle_transformers::models as m;

use super::{Network, clearing};

clearing!(
    m::quantized_llama::ModelWeights,
    m::quantized_qwen2::ModelWeights,
    m::quantized_qwen3::ModelWeights
);

/// Architectures that can be read.
pub fn names() -> impl Iterator<Item = &'static str> {
    ["llama", "qwen2", "qwen3"].into_iter()
}

/// Whether the decoder of an architecture reads a tensor.
fn is_read(kind: &str, name: &str) -> bool {
    const WHOLE: [&str; 3] = ["token_embd.weight", "output_norm.weight", "output.weight"];
    const BLOCK: [&str; 9] = [
        "attn_q.weight",
        "attn_k.weight",
        "attn_v.weight",
        "attn_output.weight",
        "attn_norm.weight",
        "ffn_norm.weight",
        "ffn_gate.weight",
        "ffn_up.weight",
        "ffn_down.weight",
    ];
    let more: &[&str] = match kind {
        "qwen2" => &["attn_q.bias", "attn_k.bias", "attn_v.bias"],
        "qwen3" => &["attn_q_norm.weight", "attn_k_norm.weight"],
        _ => &[],
    };
    let part =
        name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map(|(_, part)| part);
    WHOLE.contains(&name) || part.is_some_and(|part| BLOCK.contains(&part) || more.contains(&part))
}

/// Reads a file; its architecture and its decoder.
pub(super) fn open(path: &Path, device: &Device) -> Result<(String, Box<dyn Network>)> {
    let shown = || path.display().to_string();
    let mut file = tealight_system::files::open_regular(path)?;
    let content = Content::read(&mut file).with_context(shown)?;
    let kind = content.metadata.get("general.architecture").and_then(|kind| kind.to_string().ok());
    let kind = kind.with_context(|| format!("{}: names no architecture", shown()))?.clone();
    // Tables of positions are made from it.
    let dimensions = content.metadata.get(&format!("{kind}.rope.dimension_count"));
    if let Some(dimensions) = dimensions.and_then(|value| value.to_u64().ok()).filter(|d| *d > 1024)
    {
        bail!(
            "{}: {kind}.rope.dimension_count = {dimensions} is more than 1024, the limit",
            shown()
        );
    }
    let is_ignored = |name: &&String| names().any(|known| known == kind) && !is_read(&kind, name);
    if let Some(ignored) = content.tensor_infos.keys().filter(is_ignored).min() {
        bail!(
            "{}: candle-transformers' quantised decoder ignores its tensor `{ignored}`; leave --quantized out",
            shown()
        );
    }
    let scaling = content.metadata.get(&format!("{kind}.rope.scaling.type"));
    if let Some(scaling) =
        scaling.and_then(|scaling| scaling.to_string().ok()).filter(|s| *s != "none")
    {
        bail!(
            "{}: candle-transformers' quantised decoder ignores {kind}.rope.scaling.type = {scaling}; leave --quantized \
             out",
            shown()
        );
    }
    let network: Box<dyn Network> = match kind.as_str() {
        "llama" => {
            Box::new(m::quantized_llama::ModelWeights::from_gguf(content, &mut file, device)?)
        }
        "qwen2" => {
            Box::new(m::quantized_qwen2::ModelWeights::from_gguf(content, &mut file, device)?)
        }
        "qwen3" => {
            Box::new(m::quantized_qwen3::ModelWeights::from_gguf(content, &mut file, device)?)
        }
        other => {
            let known: Vec<_> = names().collect();
            bail!("{}: --quantized knows {}, not `{other}`", shown(), known.join(", "));
        }
    };
    Ok((format!("quantized_{kind}"), network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_a_decoder_ignores_are_told_from_those_that_it_reads() {
        for (kind, name, read) in [
            ("llama", "blk.0.attn_q.weight", true),
            ("llama", "blk.0.attn_q.bias", false),
            ("llama", "rope_freqs.weight", false),
            ("qwen2", "blk.11.attn_q.bias", true),
            ("qwen3", "blk.11.attn_q.bias", false),
            ("qwen3", "blk.11.attn_q_norm.weight", true),
            ("qwen2", "output.weight", true),
        ] {
            assert_eq!(is_read(kind, name), read, "{kind} {name}");
        }
    }
}
