//! Weights in forms that are not read: quantised ones and pickles, named with what makes readable ones of them.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

/// Says of an error in reading weights that they are quantised, where their configuration says so.
///
/// # Errors
/// Always, with what was known before or with more.
pub fn explain_quantized<T>(directory: &Path, config: &Value, error: anyhow::Error) -> Result<T> {
    let Some(quantization) = config["quantization_config"].as_object() else { return Err(error) };
    let method = quantization.get("quant_method").and_then(Value::as_str).unwrap_or("none named");
    bail!(
        "{}/config.json: quantization_config.quant_method {method}: quantised weights are not read ({error:#}); name the \
         model that it was made from, or dequantise it: in transformers by dequantize(), in MLX by mlx_lm.convert \
         --dequantize",
        directory.display()
    )
}

/// Refuses a folder whose weights are pickles.
pub(super) fn refuse_pickles(directory: &Path) -> Result<()> {
    let pickles = ["pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"];
    match pickles.iter().find(|name| directory.join(name).exists()) {
        None => Ok(()),
        Some(name) => bail!(
            "{0}: its weights are in {name}, which may run code and is not read; convert it: python -c \"from \
             transformers import AutoModelForCausalLM as M; M.from_pretrained('{0}').save_pretrained('{0}')\"",
            directory.display()
        ),
    }
}

/// Parts of the names of weights that a wrapper left there: torch.compile, DistributedDataParallel, PEFT.
const WRAPPED: [&str; 4] = ["_orig_mod.", "module.", "base_model.", ".lora_"];

/// Why a model has a weight that its configuration does not name, or names elsewhere.
pub(super) fn why_unexpected(stored: &str, is_known: bool) -> &'static str {
    match WRAPPED.iter().any(|part| stored.contains(part)) {
        true => {
            "; torch.compile, DistributedDataParallel or PEFT wrapped the model: save the model inside, one with an \
             adapter after merge_and_unload()"
        }
        false if is_known => "; it is in another file too: download the model again",
        false => "",
    }
}
