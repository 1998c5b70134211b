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
    let network: Box<dyn Network> = match kind.as_str() {
        "llama" => {
            if content.tensor_infos.contains_key("rope_freqs.weight") {
                bail!(
                    "{}: its positions are stretched, which candle-transformers' quantised decoder ignores; leave \
                     --quantized out",
                    shown()
                );
            }
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
