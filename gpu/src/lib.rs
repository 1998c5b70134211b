//! Our kernels on a GPU: norms, positions, gates, attention, log-probabilities, samples and AdamW, forward and
//! backward, in f32 or with activations in bf16.
//!
//! They are written once, in `kernels/*.c`, in the few words that `kernels/cuda.h` explains; `metal.h` and
//! `emulated.c` give the same words their meaning elsewhere. CUDA compiles the text by NVRTC when the first
//! kernel is launched, Metal by its own compiler. With the feature `emulated` the CPU takes a GPU's place, one
//! thread after the other, which is how the tests run them.
//!
//! [`kernels`] has a function for each kernel, which checks sizes and types; [`self_check`] holds a device's results
//! against those of the kernels as C before a model is computed there. [`use_candle`] has Candle's own operations
//! compute what the kernels would.

pub mod counts;
#[cfg(feature = "cuda")]
mod cuda;
pub mod disk_cache;
#[cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]
mod emulated;
#[cfg(feature = "emulated")]
mod emulators;
pub mod graph;
pub mod kernels;
#[cfg(all(feature = "metal", target_os = "macos"))]
mod metal;
mod operations;
pub mod products;
pub mod self_check;
mod sizes;
pub mod workspace;

use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::{DType, Device, Result, Shape, Tensor, bail};
use graph::Identity;
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
    /// Its inputs and outputs, contiguous.
    tensors: &'a [&'a Tensor],
    #[cfg_attr(not(any(feature = "cuda", feature = "emulated")), allow(dead_code))]
    params: Params,
}

/// Whether kernels, or what stands in for them, run on `device` in this build.
pub fn runs_on(device: &Device) -> bool {
    if is_by_candle() {
        return true;
    }
    match device {
        Device::Cpu => has_emulation(),
        Device::Cuda(_) => cfg!(feature = "cuda"),
        Device::Metal(_) => cfg!(all(feature = "metal", target_os = "macos")),
    }
}

/// Whether kernels for tensor cores run on `device`: on CUDA, where all kernels need compute capability 8.0.
pub fn has_tensor_cores(device: &Device) -> bool {
    cfg!(feature = "cuda") && device.is_cuda() && !is_by_candle()
}

/// Whether this build has the kernels as C, with which the CPU can take a GPU's place: the feature `emulated`.
pub const fn has_emulation() -> bool {
    cfg!(feature = "emulated")
}

static EMULATES: AtomicBool = AtomicBool::new(false);

/// Makes the CPU take a GPU's place in this process from now on, in builds with the feature `emulated`.
pub fn emulate() {
    EMULATES.store(has_emulation(), Ordering::Relaxed);
}

/// Whether the CPU takes a GPU's place.
pub fn is_emulating() -> bool {
    EMULATES.load(Ordering::Relaxed) || is_by_candle()
}

static BY_CANDLE: AtomicBool = AtomicBool::new(false);

/// Has Candle's own operations compute what our kernels would, on every device of this process from now on: slower, and
/// independent of our kernels. The CPU then takes a GPU's place.
pub fn use_candle() {
    BY_CANDLE.store(true, Ordering::Relaxed);
}

/// Whether Candle's operations stand in for our kernels.
pub fn is_by_candle() -> bool {
    BY_CANDLE.load(Ordering::Relaxed)
}

/// A tensor of any values, to be written whole.
pub fn empty(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    if shape.elem_count() == 0 {
        bail!("a tensor of shape {shape:?}: a device has no memory of no bytes");
    }
    let tensor = if device.is_cpu() {
        // NaN shows where a kernel reads memory that nothing wrote.
        match dtype {
            DType::U32 => Tensor::full(u32::MAX, shape, device),
            _ => Tensor::full(f32::NAN, shape, device)?.to_dtype(dtype),
        }
    } else {
        // SAFETY: every use here hands it to a kernel or a product that writes all of it; any bits are a number.
        #[allow(unsafe_code)]
        unsafe {
            Tensor::empty(shape, dtype, device)
        }
    }?;
    counts::allocated(&tensor);
    Ok(tensor)
}

/// Whether [`products::wide_product`] reads bf16 matrices on this device without a copy of them in f32.
pub fn multiplies_halves(device: &Device) -> bool {
    cfg!(feature = "cuda") && device.is_cuda()
}

/// Opens a CUDA device: the only place that does, and the owner of its stream.
///
/// All work of a process on a device goes through one stream, made here and shared by every thread. Kernels rely on
/// it: they are launched without events, and memory is freed in the stream's order. Candle's own `new_cuda` takes a
/// stream a thread instead, between which nothing is ordered. A device that is open is returned again.
///
/// # Errors
/// No such device, no driver.
#[cfg(feature = "cuda")]
pub fn open_cuda(ordinal: usize) -> Result<Device> {
    cuda::open(ordinal)
}

/// Bytes of memory that are free on a device; nothing where it does not say.
pub fn free_memory(device: &Device) -> Option<u64> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::memory::free(device.cuda_stream().context()).ok(),
        // For tests of what is done where there is little.
        #[cfg(feature = "emulated")]
        Device::Cpu => std::env::var("TEALIGHT_EMULATED_MEMORY").ok()?.parse().ok(),
        _ => None,
    }
}

/// A language that the kernels are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// CUDA C++.
    Cuda,
    /// The Metal Shading Language.
    Metal,
}

impl Dialect {
    /// Metal's language on Metal, else CUDA C++.
    fn for_device(device: &Device) -> Self {
        match device {
            Device::Metal(_) => Self::Metal,
            _ => Self::Cuda,
        }
    }
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
    // Metal's library comes before any of our short names, which it may use itself.
    let mut text = match dialect {
        Dialect::Metal => "#include <metal_stdlib>\nusing namespace metal;\n".to_owned(),
        _ => String::new(),
    };
    text.extend(sizes::ALL.iter().map(define));
    text += include_str!("../kernels/common.h");
    text += prelude;
    for (real, suffix) in [("float", "f32"), ("bf16", "bf16")] {
        text += &format!("\n#define NAME(name) name##_{suffix}\n#define REAL {real}\n");
        text += &LAYERS.concat();
        text += "\n#undef NAME\n#undef REAL\n";
    }
    text += "#define NAME(name) name##_f32\n";
    text += include_str!("../kernels/single.c");
    text += include_str!("../kernels/sampling.c");
    if dialect == Dialect::Cuda {
        text += include_str!("../kernels/mma.h");
        text += include_str!("../kernels/mma_tiles.cu");
        text += include_str!("../kernels/attention_mma.cu");
        text += include_str!("../kernels/attention_mma_back.cu");
    }
    text
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
        let launch = || {
            counts::launched(&self.name);
            self_check::comparison::seen(self, || self.launch(device))
        };
        graph::launched(|| Identity::from_call(self), |replay| replay.add(self, device), launch)
    }

    fn launch(&self, device: &Device) -> Result<()> {
        if is_by_candle() {
            return operations::run(self);
        }
        match device {
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::run(self, device),
            #[cfg(all(feature = "metal", target_os = "macos"))]
            Device::Metal(device) => metal::run(self, device),
            #[cfg(feature = "emulated")]
            Device::Cpu => emulators::run(self),
            _ => bail!("no kernels for this device in this build"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metals_library_comes_before_our_short_names() {
        let text = program(Dialect::Metal);
        let library = text.find("#include <metal_stdlib>").expect("the library");
        assert!(library < text.find("#define").expect("names"));
        assert_eq!(text.matches("#include").count(), 1);
    }

    #[test]
    fn a_tensor_of_no_values_is_refused() {
        assert!(empty((0, 3), DType::F32, &Device::Cpu).is_err());
        assert!(empty((1, 3), DType::F32, &Device::Cpu).is_ok());
    }
}
