//! Launches on CUDA.

use std::sync::OnceLock;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{
    CudaView, DeviceRepr, LaunchConfig, PushKernelArg,
};
use candle_core::cuda_backend::cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use candle_core::cuda_backend::{CudaDevice, WrapErr};
use candle_core::{CudaStorage, DType, Layout, Result, Storage, bail};

use crate::{BLOCK, BUFFERS, Call, Params};

// SAFETY: plain numbers in C's layout, without padding.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Params {}

/// What a tensor's memory holds.
enum View<'a> {
    Single(CudaView<'a, f32>),
    Half(CudaView<'a, half::bf16>),
    Numbers(CudaView<'a, u32>),
}

impl<'a> View<'a> {
    fn of(storage: &'a CudaStorage, layout: &Layout) -> Result<Self> {
        let range = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        Ok(match storage.dtype() {
            DType::F32 => Self::Single(storage.as_cuda_slice::<f32>()?.slice(range)),
            DType::BF16 => Self::Half(storage.as_cuda_slice::<half::bf16>()?.slice(range)),
            DType::U32 => Self::Numbers(storage.as_cuda_slice::<u32>()?.slice(range)),
            other => bail!("kernels know no {other:?}"),
        })
    }
}

/// The kernels for every GPU from compute capability 8.0 on.
fn ptx() -> Result<&'static str> {
    static PTX: OnceLock<std::result::Result<String, String>> = OnceLock::new();
    let text = PTX.get_or_init(|| {
        let options = CompileOptions { arch: Some("compute_80"), ..Default::default() };
        // Without the library the loader panics: that is a missing file, not a bug.
        let compiled = std::panic::catch_unwind(|| {
            compile_ptx_with_opts(crate::program(crate::Dialect::Cuda), options)
        });
        match compiled {
            Ok(Ok(ptx)) => Ok(ptx.to_src()),
            Ok(Err(error)) => Err(format!("NVRTC does not compile the kernels: {error}")),
            Err(_) => {
                Err("libnvrtc was not found: install CUDA's runtime compiler, or put it into \
                           LD_LIBRARY_PATH"
                    .to_owned())
            }
        }
    });
    text.as_deref().map_err(|error| candle_core::Error::Msg(error.clone()))
}

pub(crate) fn run(call: &Call<'_>, device: &CudaDevice) -> Result<()> {
    let kernel = device.get_or_load_custom_func(&call.name, "tealight", ptx()?)?;
    let held: Vec<_> = call.tensors.iter().map(|tensor| tensor.storage_and_layout()).collect();
    let views = held
        .iter()
        .map(|(storage, layout)| match &**storage {
            Storage::Cuda(storage) => View::of(storage, layout),
            _ => bail!("{}: a tensor is not on the GPU", call.name),
        })
        .collect::<Result<Vec<_>>>()?;
    let mut builder = kernel.builder();
    // What a kernel has no use for is its first tensor again.
    for index in 0..BUFFERS {
        match views.get(index).unwrap_or(&views[0]) {
            View::Single(view) => builder.arg(view),
            View::Half(view) => builder.arg(view),
            View::Numbers(view) => builder.arg(view),
        };
    }
    builder.arg(&call.params);
    let config = LaunchConfig {
        grid_dim: (call.groups as u32, 1, 1),
        block_dim: (BLOCK as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the wrappers in `kernels` have checked that the tensors are as large as the kernel takes them to
    // be; all work on a device goes through one stream, so none runs beside it.
    #[allow(unsafe_code)]
    unsafe { builder.launch(config) }.w()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn nvrtc_compiles_the_kernels_where_it_is_found() {
        match super::ptx() {
            Ok(ptx) => assert!(ptx.contains("attention_keys_bf16") && ptx.contains("adamw_f32")),
            Err(error) => assert!(error.to_string().contains("libnvrtc"), "{error}"),
        }
    }
}
