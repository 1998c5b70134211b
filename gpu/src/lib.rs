//! Our kernels on a GPU: norms, positions, gates, attention, log-probabilities, samples and AdamW, forward and
//! backward, in f32 or with activations in bf16.
//!
//! They are written once, in `kernels/*.c`, in the few words that `kernels/cuda.h` explains; `metal.h` and
//! `emulated.c` give the same words their meaning elsewhere. CUDA compiles the text by NVRTC when the first
//! kernel is launched, Metal by its own compiler. With the feature `emulated` the CPU takes a GPU's place, one
//! thread after the other, which is how the tests run them.
//!
//! [`kernels`] has a function for each kernel, which checks sizes and types.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "emulated")]
mod emulated;
pub mod kernels;
#[cfg(all(feature = "metal", target_os = "macos"))]
mod metal;
mod sizes;

use candle_core::{DType, Device, Result, Shape, Tensor, bail};
#[cfg(any(feature = "cuda", all(feature = "metal", target_os = "macos")))]
use sizes::BLOCK;

/// Most tensors that a kernel takes.
const BUFFERS: usize = 10;

/// Numbers of a launch, as the kernels have them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Params {
    n: [i32; 8],
    f: [f32; 12],
}

/// One launch of a kernel.
struct Call<'a> {
    name: String,
    groups: usize,
    /// What it reads and writes, contiguous.
    tensors: &'a [&'a Tensor],
    #[cfg_attr(not(any(feature = "cuda", feature = "emulated")), allow(dead_code))]
    params: Params,
}

/// Whether kernels run on `device` in this build.
pub fn runs_on(device: &Device) -> bool {
    match device {
        Device::Cpu => cfg!(feature = "emulated"),
        Device::Cuda(_) => cfg!(feature = "cuda"),
        Device::Metal(_) => cfg!(all(feature = "metal", target_os = "macos")),
    }
}

/// A tensor of any values, to be written whole.
///
/// # Errors
/// No memory.
pub fn empty(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    if device.is_cpu() {
        // What is read before it was written shows.
        return match dtype {
            DType::U32 => Tensor::full(u32::MAX, shape, device),
            _ => Tensor::full(f32::NAN, shape, device)?.to_dtype(dtype),
        };
    }
    // SAFETY: every use here hands it to a kernel or a product that writes all of it; any bits are a number.
    #[allow(unsafe_code)]
    unsafe {
        Tensor::empty(shape, dtype, device)
    }
}

/// The f32 product of two f32 matrices whose values fit `dtype`: of bf16 ones CUDA's tensor cores take it whole
/// (TF32 holds every bf16 value), of others they are left out.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn product(x: &Tensor, y: &Tensor, dtype: DType) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if dtype == DType::BF16 && x.device().is_cuda() {
        use candle_core::cuda::{gemm_reduced_precision_f32, set_gemm_reduced_precision_f32};
        let before = gemm_reduced_precision_f32();
        set_gemm_reduced_precision_f32(true);
        let out = x.matmul(y);
        set_gemm_reduced_precision_f32(before);
        return out;
    }
    let _ = dtype;
    x.matmul(y)
}

/// A language that the kernels are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// CUDA C++.
    Cuda,
    /// The Metal Shading Language.
    Metal,
}

/// The text of all kernels, as the device's compiler gets it.
pub fn program(dialect: Dialect) -> String {
    const LAYERS: [&str; 4] = [
        include_str!("../kernels/layers.c"),
        include_str!("../kernels/attention.c"),
        include_str!("../kernels/gradients.c"),
        include_str!("../kernels/delta.c"),
    ];
    let prelude = match dialect {
        Dialect::Cuda => include_str!("../kernels/cuda.h"),
        Dialect::Metal => include_str!("../kernels/metal.h"),
    };
    let define = |(name, value): &(&str, usize)| format!("#define {name} {value}\n");
    let mut text: String = sizes::ALL.iter().map(define).collect();
    text += include_str!("../kernels/common.h");
    text += prelude;
    for (real, suffix) in [("float", "f32"), ("bf16", "bf16")] {
        text += &format!("\n#define NAME(name) name##_{suffix}\n#define REAL {real}\n");
        text += &LAYERS.concat();
        text += "\n#undef NAME\n#undef REAL\n";
    }
    text + "#define NAME(name) name##_f32\n" + include_str!("../kernels/single.c")
}

impl Call<'_> {
    fn run(&self) -> Result<()> {
        if self.groups == 0 {
            return Ok(());
        }
        assert!(self.tensors.len() <= BUFFERS, "{}: too many tensors", self.name);
        let device = self.tensors[0].device();
        for tensor in self.tensors {
            if !tensor.is_contiguous() || !tensor.device().same_device(device) {
                bail!("{}: {:?} is not contiguous on the same device", self.name, tensor.shape());
            }
        }
        match device {
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::run(self, device),
            #[cfg(all(feature = "metal", target_os = "macos"))]
            Device::Metal(device) => metal::run(self, device),
            #[cfg(feature = "emulated")]
            Device::Cpu => emulated::run(self),
            _ => bail!("{}: no kernels for this device in this build", self.name),
        }
    }
}
