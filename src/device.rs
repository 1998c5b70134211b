//! `--device` and `--dtype` to Candle's types; never a silent fallback.

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::model::Precision;

/// The floating-point type of weights and activations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Dtype {
    /// 32 bits.
    #[default]
    Float32,
    /// 16 bits with the range of float32. On the CPU operands of matrix products are rounded to it and
    /// everything else is float32; on a GPU activations are in it too, and the weights that are trained stay
    /// float32 with a rounded copy.
    Bfloat16,
    /// 16 bits; for evaluation.
    Float16,
}

impl Dtype {
    /// The type of weights and activations on `device`.
    pub fn storage(self, device: &Device) -> DType {
        match self {
            Dtype::Bfloat16 if !device.is_cpu() || tealight_gpu::runs_on(device) => DType::BF16,
            Dtype::Float16 => DType::F16,
            Dtype::Float32 | Dtype::Bfloat16 => DType::F32,
        }
    }

    /// How operands enter matrix products.
    pub fn precision(self) -> Precision {
        match self {
            Dtype::Bfloat16 => Precision::Bf16,
            Dtype::Float32 | Dtype::Float16 => Precision::F32,
        }
    }

    /// Refuses what cannot be trained in on `device`.
    ///
    /// # Errors
    /// float16.
    pub fn check_training(self, device: &Device) -> Result<()> {
        match self.storage(device) {
            DType::F32 => Ok(()),
            // The weights themselves stay float32.
            DType::BF16 if tealight_gpu::runs_on(device) => Ok(()),
            _ => bail!("weights are trained in float32 or bfloat16: leave --dtype out"),
        }
    }
}

/// Opens the device that `name` asks for and says which one it is, for the user to see.
///
/// `auto` is the first CUDA device, else Metal, else the CPU, of those this binary was built for.
///
/// # Errors
/// An unknown name; a device that this binary was not built for, or that is not there.
pub fn open(name: &str) -> Result<(Device, String)> {
    let cpu = || (Device::Cpu, format!("cpu, {} threads", rayon::current_num_threads()));
    let (kind, index) = name.split_once(':').unwrap_or((name, "0"));
    match kind {
        "cpu" => Ok(cpu()),
        "cuda" => {
            let index: usize = index
                .parse()
                .with_context(|| format!("device `{name}`: `{index}` is not a device number"))?;
            cuda(index)
        }
        "metal" => metal(),
        "auto" if cfg!(feature = "cuda") => match cuda(0) {
            Ok(found) => Ok(found),
            Err(error) => {
                let (device, described) = cpu();
                Ok((device, format!("{described} (no CUDA device: {error:#})")))
            }
        },
        "auto" if cfg!(feature = "metal") => metal(),
        "auto" => Ok(cpu()),
        _ => bail!("device `{name}` is not known; choose auto, cpu, cuda, cuda:N or metal"),
    }
}

fn cuda(index: usize) -> Result<(Device, String)> {
    if !cfg!(feature = "cuda") {
        bail!("this binary was built without CUDA; build it with `--features cuda`");
    }
    let device = Device::new_cuda(index).map_err(short)?;
    Ok((device, format!("cuda:{index}")))
}

fn metal() -> Result<(Device, String)> {
    if !cfg!(feature = "metal") {
        bail!("this binary was built without Metal; build it with `--features metal`");
    }
    let device = Device::new_metal(0).map_err(short)?;
    Ok((device, "metal".into()))
}

/// The first line of a driver's error, without its backtrace.
fn short(error: candle_core::Error) -> anyhow::Error {
    let text = error.to_string();
    anyhow::anyhow!("{}", text.lines().next().unwrap_or("unknown error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_refused_not_replaced() {
        assert!(open("tpu").unwrap_err().to_string().contains("tpu"));
        assert!(open("cuda:x").is_err());
        if !cfg!(feature = "cuda") {
            assert!(open("cuda").unwrap_err().to_string().contains("--features cuda"));
        }
        assert!(open("auto").is_ok());
    }
}
