//! `--device`, `--dtype`, `--base-dtype` and `--rollout-dtype` to Candle's types; never a silent fallback.

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
pub use tealight_matmul::multiplies_bfloat16;
use tealight_matmul::{InstructionSet, Quantized};

use crate::backend::{RolloutDtype, int8};

/// The floating-point type of weights and activations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Dtype {
    /// bfloat16 on a CUDA GPU, float32 elsewhere.
    #[default]
    Auto,
    /// 32 bits.
    Float32,
    /// 16 bits with the range of float32. On a GPU weights and activations are bfloat16, on a CPU weight matrices, the
    /// operands of products with them, and keys and values; sums are float32. Weights are rounded as they are loaded;
    /// trained ones are float32 from then on, with a rounded copy.
    Bfloat16,
}

impl Dtype {
    /// Resolves [`Dtype::Auto`] for `device`; another type stays.
    pub fn on(self, device: &Device) -> Self {
        match self {
            Dtype::Auto if device.is_cuda() => Dtype::Bfloat16,
            Dtype::Auto => Dtype::Float32,
            chosen => chosen,
        }
    }

    /// The type of weight matrices on `device`.
    pub fn storage(self, device: &Device) -> DType {
        match self.on(device) {
            Dtype::Auto | Dtype::Float32 => DType::F32,
            Dtype::Bfloat16 => DType::BF16,
        }
    }
}

/// The type of weights that are not trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum BaseDtype {
    /// 8-bit integers with a float16 scale for every 32 values of a row, as GGUF's Q8_0. Matrix products convert them
    /// to float32 while reading.
    Int8,
}

/// The type that a model is computed in, and the type that its weights are stored as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Precision {
    /// Type of weights, matrix products, keys and values: float32, bfloat16, or auto: bfloat16 on CUDA, float32
    /// elsewhere. In bfloat16 weights are rounded as they are loaded; trained weights are float32 from then on.
    #[arg(long, value_enum, default_value_t = Dtype::Auto, alias = "torch-dtype", help_heading = "Model")]
    #[serde(default)]
    pub dtype: Dtype,
    /// Type of the base's weights if the base is not trained (with an adapter, or in evaluations), on the CPU only.
    /// Default: --dtype.
    #[arg(long, value_enum, help_heading = "Model")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_dtype: Option<BaseDtype>,
    /// Quantise the rollout model to this type, on the CPU only. Sampling is faster, but from another model than the
    /// policy; training corrects for this with --importance-correction.
    #[arg(long, value_enum, help_heading = "Model")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_dtype: Option<RolloutDtype>,
}

impl Precision {
    /// The same with a `dtype` that is resolved for `device`.
    pub fn on(self, device: &Device) -> Self {
        Self { dtype: self.dtype.on(device), ..self }
    }

    /// The form of weights on `device`.
    ///
    /// # Errors
    /// A type of the base or of rollouts elsewhere than on the CPU; bfloat16 rollouts of a model in bfloat16, or of a
    /// base in 8 bits.
    pub fn placement(self, device: &Device) -> Result<Placement<'_>> {
        let is_int8 = self.base_dtype.is_some();
        let is_by_cpu = is_by_cpu(device);
        let base = is_int8.then_some("int8");
        let rollout = self.rollout_dtype.map(RolloutDtype::name);
        for (option, dtype) in [("--base-dtype", base), ("--rollout-dtype", rollout)] {
            if let Some(dtype) = dtype.filter(|_| !is_by_cpu) {
                bail!(
                    "{option} {dtype} is for the CPU's own kernels: use --device cpu without --kernels candle, or \
                       leave {option} out"
                );
            }
        }
        let is_half = self.dtype.on(device) == Dtype::Bfloat16;
        if is_half && self.rollout_dtype == Some(RolloutDtype::Bfloat16) {
            bail!(
                "--rollout-dtype bfloat16 is the model's own type with --dtype bfloat16: leave one out"
            );
        }
        if is_int8 && self.rollout_dtype == Some(RolloutDtype::Bfloat16) {
            bail!(
                "--rollout-dtype bfloat16 does not go with --base-dtype int8, whose weights are 8 bits already: leave one \
                   out"
            );
        }
        let dtype = self.dtype.storage(device);
        Ok(Placement { dtype, rounds_matrices_alone: is_by_cpu, is_int8, device })
    }

    /// A sentence for each of its types that is not faster than float32 on this processor, which computes on `device`.
    pub fn slower_types(self, device: &Device) -> Vec<String> {
        let set = InstructionSet::in_use().name();
        let rounds = self.rollout_dtype == Some(RolloutDtype::Bfloat16)
            || self.dtype.storage(device) == DType::BF16;
        let mut slower = Vec::new();
        if self.rollout_dtype == Some(RolloutDtype::Int8) && !Quantized::is_accelerated() {
            slower.push(format!(
                "--rollout-dtype int8 is slower than float32 on this processor: no instructions for products of 8-bit \
                 integers with TEALIGHT_SIMD={set}"
            ));
        }
        if rounds && is_by_cpu(device) && !multiplies_bfloat16() {
            slower.push(format!(
                "bfloat16 is not faster than float32 on this processor: no AVX512-BF16 with TEALIGHT_SIMD={set}"
            ));
        }
        slower
    }

    /// That of the model itself, whatever is sampled from.
    pub fn of_model(self) -> Self {
        Self { rollout_dtype: None, ..self }
    }

    /// Refuses to train weights of 8 bits.
    ///
    /// # Errors
    /// No adapter is to be trained in their place.
    pub fn check(self, trains_adapter: bool) -> Result<()> {
        if self.base_dtype.is_some() && !trains_adapter {
            bail!(
                "--base-dtype int8 is for weights that are not trained: train an adapter with --use-peft"
            );
        }
        Ok(())
    }
}

/// Whether the CPU's own kernels compute on `device`: not where the CPU takes a GPU's place.
pub fn is_by_cpu(device: &Device) -> bool {
    device.is_cpu() && !tealight_gpu::is_emulating()
}

/// How weights are stored, and where.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    dtype: DType,
    /// Norms, biases and kernels of convolutions, which no product of matrices reads, are f32 in any case.
    rounds_matrices_alone: bool,
    is_int8: bool,
    device: &'a Device,
}

impl Placement<'_> {
    /// In f32 on the CPU.
    pub const F32: Placement<'static> = Placement {
        dtype: DType::F32,
        rounds_matrices_alone: true,
        is_int8: false,
        device: &Device::Cpu,
    };

    /// Whether weights of this shape are to be in blocks of 8 bits.
    pub fn is_int8(&self, shape: &[usize]) -> bool {
        self.is_int8 && int8::fits(shape)
    }

    /// A weight as it is to be stored.
    pub fn place(&self, weight: &Tensor) -> candle_core::Result<Tensor> {
        if self.is_int8(weight.dims()) {
            return int8::narrowed(weight);
        }
        let is_rounded = !self.rounds_matrices_alone || weight.rank() == 2;
        let dtype = if is_rounded { self.dtype } else { DType::F32 };
        weight.to_dtype(dtype)?.to_device(self.device)
    }
}

/// The device of one of several processes on a machine: `cuda`, and `auto` where there are GPUs, are one each, in turn;
/// a device that is named by its number stays.
///
/// # Errors
/// `cuda` for several processes, and the driver does not say how many devices there are.
pub fn of_rank(name: &str, ranks: (usize, usize)) -> Result<String> {
    of_rank_among(name, ranks, cuda_devices)
}

/// The same with a driver's count, which is asked for only where a device is to be chosen: a binary for CUDA also runs
/// on machines without a driver.
fn of_rank_among(
    name: &str,
    (rank, processes): (usize, usize),
    count: impl FnOnce() -> Result<usize>,
) -> Result<String> {
    let count = match name {
        _ if processes < 2 => 0,
        "cuda" => count()?,
        // Where there is no driver, `auto` is another device.
        "auto" => count().unwrap_or(0),
        _ => 0,
    };
    Ok(if count > 0 { format!("cuda:{}", rank % count) } else { name.to_owned() })
}

#[cfg(feature = "cuda")]
fn cuda_devices() -> Result<usize> {
    let count = candle_core::cuda::cudarc::driver::CudaContext::device_count();
    Ok(count.context("CUDA devices cannot be counted")? as usize)
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> Result<usize> {
    Ok(0)
}

/// The threads and the instruction set that the CPU computes with.
pub fn processor() -> String {
    let (threads, set) = (rayon::current_num_threads(), InstructionSet::in_use().name());
    format!("{threads} threads, {set}")
}

/// The kernels that compute a model on a GPU, or on the CPU in its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Kernels {
    /// Tealight's kernels.
    #[default]
    Tealight,
    /// Tealight's kernels, each launched by itself: without CUDA graphs.
    Eager,
    /// Candle's own operations: slower, and independent of Tealight's kernels.
    Candle,
}

/// The same as [`open`] for a process that computes with `kernels`: the choice holds for all of its devices.
pub fn open_with(name: &str, kernels: Kernels) -> Result<(Device, String)> {
    let (device, described) = open(name)?;
    Ok(match kernels {
        Kernels::Tealight => (device, described),
        Kernels::Eager => {
            tealight_gpu::graph::turn_off();
            (device, format!("{described}, without CUDA graphs"))
        }
        Kernels::Candle => {
            tealight_gpu::use_candle();
            (device, format!("{described}, by Candle's operations"))
        }
    })
}

/// Opens the device that `name` asks for and says which one it is, for the user to see.
///
/// `auto` is the first CUDA device, else Metal, else the CPU, of those this binary was built for.
///
/// # Errors
/// An unknown name; a device that this binary was not built for, or that is not there.
pub fn open(name: &str) -> Result<(Device, String)> {
    let cpu = || (Device::Cpu, format!("cpu, {}", processor()));
    let (kind, index) = name.split_once(':').unwrap_or((name, "0"));
    match kind {
        "cpu" if index != "0" => bail!("device `{name}`: there is one CPU device, `cpu`"),
        "cpu" => Ok(cpu()),
        "cuda" => {
            let index: usize = index
                .parse()
                .with_context(|| format!("device `{name}`: `{index}` is not a device number"))?;
            cuda(index)
        }
        "metal" => metal(),
        // For rehearsals: the kernels of a GPU as C, on the CPU.
        "emulated" if tealight_gpu::has_emulation() => {
            tealight_gpu::emulate();
            keep_kernels();
            Ok((Device::Cpu, format!("emulated GPU, {}", processor())))
        }
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

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<(Device, String)> {
    keep_kernels();
    let device = tealight_gpu::open_cuda(index).map_err(short)?;
    Ok((device, format!("cuda:{index}")))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: usize) -> Result<(Device, String)> {
    bail!("this binary was built without CUDA; build it with `--features cuda`");
}

/// Keeps compiled kernels, and verdicts on them, in the user's cache.
fn keep_kernels() {
    tealight_gpu::disk_cache::set_folder(
        tealight_system::hf_home::cache_directory().join("tealight-kernels"),
    );
}

fn metal() -> Result<(Device, String)> {
    if !cfg!(feature = "metal") {
        bail!("this binary was built without Metal; build it with `--features metal`");
    }
    keep_kernels();
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
    fn devices_are_counted_only_for_several_processes_on_cuda() {
        let no_driver = || bail!("CUDA devices cannot be counted");
        for (name, processes) in [("cpu", 4), ("metal", 4), ("cuda:1", 4), ("auto", 4), ("cuda", 1)]
        {
            let device = of_rank_among(name, (0, processes), no_driver);
            assert_eq!(device.expect("nothing is counted, or nothing is there"), name);
        }
        assert!(of_rank_among("cuda", (0, 2), no_driver).is_err());
        let choices = [("cuda", 5, "cuda:1"), ("auto", 3, "cuda:3"), ("cuda:2", 3, "cuda:2")];
        for (name, rank, device) in choices {
            assert_eq!(of_rank_among(name, (rank, 8), || Ok(4)).expect("a count"), device);
        }
    }

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
