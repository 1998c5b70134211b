//! A model as others want it: its adapter merged, its weights in another type.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::DType;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::app::NO_OUTPUT;
use crate::app::directory::{self, Existing};
use crate::app::settings::ModelOptions;
use tealight_formats::gguf::GgufType;
use tealight_nn::device::Dtype;
use tealight_nn::model::averages;
use tealight_nn::model::weights::Weights;
use tealight_system::claim::Claim;
use tealight_system::files::{readable_folder, sync_directory};

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
    pub average: Vec<String>,
    /// Write one GGUF file for llama.cpp and Ollama, its matrices in this type, and a Modelfile.
    #[arg(long, value_enum, conflicts_with = "save_dtype")]
    pub gguf: Option<GgufType>,
    /// Type of the weights in the file.
    #[arg(long, value_enum, default_value_t = SaveDtype::Float32)]
    pub save_dtype: SaveDtype,
    /// Directory for the model.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Write over files in --output.
    #[arg(long)]
    pub overwrite: bool,
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

/// Refuses weights that float16 has no number for, as they are or as scales of 8 bits.
fn refuse_overflow(options: &ExportOptions, weights: &Weights) -> Result<()> {
    let (overflow, other) = match (options.gguf, options.save_dtype) {
        (Some(kind), _) if kind.overflow().is_finite() => (kind.overflow(), "--gguf bf16"),
        (None, SaveDtype::Float16) => (65_520.0, "--save-dtype bfloat16"),
        _ => return Ok(()),
    };
    for (name, tensor) in weights {
        // GGUF keeps vectors in 32 bits.
        if options.gguf.is_some() && tensor.rank() < 2 {
            continue;
        }
        let all = tensor.to_dtype(DType::F32)?.abs()?.flatten_all()?;
        let largest = all.max(0)?.to_scalar::<f32>()?;
        if f64::from(largest) >= overflow {
            bail!("`{name}` reaches {largest}, and float16 ends at 65504: choose {other}");
        }
    }
    Ok(())
}

/// Writes a model to its directory in Hub layout.
pub fn run(options: &ExportOptions) -> Result<()> {
    let output = options.output.as_deref().context(NO_OUTPUT)?;
    let is_rounded = options.model.precision.dtype == Dtype::Bfloat16;
    if is_rounded && options.gguf.is_none() && options.save_dtype == SaveDtype::Float32 {
        bail!(
            "--dtype bfloat16 rounds the weights, which would be saved in 32 bits all the same: give --save-dtype \
             bfloat16 in its place"
        );
    }
    let inputs = options.model.paths().chain(options.average.iter().map(Path::new));
    // A GGUF file lies beside the others.
    if options.gguf.is_none() && options.overwrite {
        directory::refuse_inside(output, Existing::Replace, inputs)?;
    }
    // Before the model is loaded, which takes long.
    let claim = match options.overwrite {
        true => Claim::take(output)?,
        false => directory::fresh(output, Existing::Keep)?,
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
        model.refuse_other(&other_model).context("--average")?;
        all.push(other_model.merged().with_context(|| other.clone())?);
    }
    let weights = match all.len() {
        1 => all.remove(0),
        _ => averages::mean(&all).context("--average")?,
    };
    refuse_overflow(options, &weights)?;
    claim.accept()?;
    // A killed export leaves a folder that the next one removes.
    let temporary = readable_folder().tempdir_in(output)?;
    let file = match options.gguf {
        Some(kind) => {
            let file = model.save_gguf(&weights, kind, temporary.path())?;
            file.file_name().map_or(output.to_owned(), |name| output.join(name))
        }
        None => {
            let weights: Weights = weights
                .into_iter()
                .map(|(name, tensor)| {
                    let tensor = tensor.to_dtype(dtype).context("no memory for the weights")?;
                    Ok((name, tensor))
                })
                .collect::<Result<_>>()?;
            model.save(&weights, temporary.path())?;
            output.to_owned()
        }
    };
    claim.check()?;
    move_into(temporary.path(), output)?;
    tracing::info!("model in {}", file.display());
    Ok(())
}

/// Moves all files of a folder into another one, the configuration last: a directory that has one is whole.
fn move_into(from: &Path, to: &Path) -> Result<()> {
    let entries: Result<Vec<_>, _> = std::fs::read_dir(from)?.collect();
    let mut names: Vec<_> = entries?.into_iter().map(|entry| entry.file_name()).collect();
    names.sort_by_key(|name| name == "config.json");
    for name in names {
        let (source, target) = (from.join(&name), to.join(&name));
        // What stands in the place of a folder, such as the one of chat templates, goes first.
        if source.is_dir() && target.is_dir() {
            std::fs::remove_dir_all(&target).with_context(|| target.display().to_string())?;
        }
        std::fs::rename(source, &target).with_context(|| target.display().to_string())?;
    }
    sync_directory(to)
}
