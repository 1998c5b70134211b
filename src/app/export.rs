//! A model as others want it: its adapter merged, its weights in another type.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Tensor};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::app::directory::{self, Existing};
use crate::app::settings::ModelOptions;
use crate::formats::gguf::GgufType;
use crate::nn::model::averages;
use crate::nn::model::weights::Weights;
use crate::system::files::Claim;

/// Options of `tealight export`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct ExportOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Add an adapter to the weights of its base.
    #[arg(long)]
    pub merge: bool,
    /// Average the model's weights with those of these models of the same architecture. The average with the base
    /// retains more of the base's answers than the model.
    #[arg(long, value_delimiter = ',', value_name = "MODEL")]
    #[serde(default)]
    pub average: Vec<String>,
    /// Write one GGUF file for llama.cpp and Ollama, its matrices in this type, and a Modelfile.
    #[arg(long, value_enum, conflicts_with = "save_dtype")]
    #[serde(default)]
    pub gguf: Option<GgufType>,
    /// Type of the weights in the file.
    #[arg(long, value_enum, default_value_t = SaveDtype::Float32)]
    pub save_dtype: SaveDtype,
}

/// A type of weights in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveDtype {
    /// 32 bits, as trained.
    Float32,
    /// 16 bits, rounded to 8 bits of mantissa.
    Bfloat16,
    /// 16 bits, rounded to 11 bits of mantissa; a model with a weight above 65504 is refused.
    Float16,
}

/// Refuses a weight that float16 has no number for.
fn refuse_overflow(name: &str, tensor: &Tensor) -> Result<()> {
    let largest = tensor.to_dtype(DType::F32)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
    // Numbers from here on round to infinity.
    if f64::from(largest) >= 65_520.0 {
        bail!(
            "`{name}` reaches {largest}, and float16 ends at 65504: choose --save-dtype bfloat16"
        );
    }
    Ok(())
}

/// Writes a model to the directory `output` in Hub layout.
pub fn run(options: &ExportOptions, output: &Path, existing: Existing) -> Result<()> {
    // Before the model is loaded, which takes long.
    let _claim = match existing {
        Existing::Replace => Claim::take(output)?,
        Existing::Keep => directory::fresh(output, existing)?,
    };
    let (model, _) = options.model.load()?;
    model.check_copyable()?;
    let name = &model.name;
    match (&model.adapter, options.merge) {
        (Some(_), false) => bail!("{name} is an adapter: add --merge to write it with its base"),
        (None, true) => bail!("{name} is no adapter: leave --merge out"),
        _ => {}
    }
    let dtype = match options.save_dtype {
        SaveDtype::Float32 => DType::F32,
        SaveDtype::Bfloat16 => DType::BF16,
        SaveDtype::Float16 => DType::F16,
    };
    let mut all = vec![model.merged()?];
    for other in &options.average {
        let options = ModelOptions { model: other.clone(), adapter: None, ..options.model.clone() };
        let (other_model, _) = options.load()?;
        other_model.check_copyable()?;
        all.push(other_model.merged().with_context(|| other.clone())?);
    }
    let weights = match all.len() {
        1 => all.remove(0),
        _ => averages::mean(&all).context("--average")?,
    };
    if let Some(kind) = options.gguf {
        let file = model.save_gguf(&weights, kind, output)?;
        tracing::info!("model in {}", file.display());
        return Ok(());
    }
    let weights: Weights = weights
        .into_iter()
        .map(|(name, tensor)| {
            if dtype == DType::F16 {
                refuse_overflow(&name, &tensor)?;
            }
            let tensor = tensor.to_dtype(dtype).context("no memory for the weights")?;
            Ok((name, tensor))
        })
        .collect::<Result<_>>()?;
    model.save(&weights, output)?;
    tracing::info!("model in {}", output.display());
    Ok(())
}
