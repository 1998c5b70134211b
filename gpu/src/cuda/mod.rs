//! Launches on CUDA, on the one stream of a device.

#[cfg(feature = "nccl")]
pub(crate) mod nccl;
mod program;

use std::collections::BTreeMap;
use std::sync::Mutex;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::cublas::{result::gemm_ex, sys};
use candle_core::cuda_backend::cudarc::driver::{
    CudaView, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
};
use candle_core::cuda_backend::{CudaDevice, WrapErr};
use candle_core::{CudaStorage, DType, Device, Layout, Result, Storage, Tensor, bail};

use crate::{BLOCK, BUFFERS, Call, Params};

// SAFETY: plain numbers in C's layout, without padding.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Params {}

/// A tensor's memory, by type.
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

/// See [`crate::open_cuda`].
pub(crate) fn open(ordinal: usize) -> Result<Device> {
    static OPEN: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(device) = open.get(&ordinal) {
        return Ok(device.clone());
    }
    let device = Device::new_cuda_with_stream(ordinal)?;
    // SAFETY: events order work between streams, and this device's stream is the only one that a process has on it:
    // nothing else opens a device, and this function opens each once.
    #[allow(unsafe_code)]
    unsafe {
        device.as_cuda_device()?.disable_event_tracking();
    }
    open.insert(ordinal, device.clone());
    Ok(device)
}

/// The identity of a device's results: its name and the driver's version.
pub(crate) fn identity(device: &CudaDevice) -> Result<String> {
    let name = device.cuda_stream().context().name().w()?;
    Ok(format!("{name}, CUDA {:?}", program::driver()))
}

/// See [`crate::wide_product`]; both are of bf16.
pub(crate) fn wide_product(x: &Tensor, w: &Tensor, device: &CudaDevice) -> Result<Tensor> {
    let ((rows, inner), (columns, other)) = (x.dims2()?, w.dims2()?);
    if inner != other {
        bail!("wide_product: {:?} and {:?}", x.shape(), w.shape());
    }
    let out = crate::empty((rows, columns), DType::F32, x.device())?;
    let (x, w) = (x.contiguous()?, w.contiguous()?);
    let held = [&x, &w, &out].map(Tensor::storage_and_layout);
    let view = |index: usize| match &*held[index].0 {
        Storage::Cuda(storage) => View::of(storage, held[index].1),
        _ => bail!("wide_product: a matrix is not on the GPU"),
    };
    let (View::Half(x), View::Half(w), View::Single(out_view)) = (view(0)?, view(1)?, view(2)?)
    else {
        bail!("wide_product: matrices of bfloat16 to one of float32");
    };
    let stream = device.cuda_stream();
    let (x, _x) = x.device_ptr(&stream);
    let (w, _w) = w.device_ptr(&stream);
    let (to, _to) = out_view.device_ptr(&stream);
    let [m, n, k] = [columns, rows, inner].map(|size| size as i32);
    let (one, zero) = (1f32, 0f32);
    // SAFETY: cuBLAS reads columns where we have rows, so that this is out^T = w x^T: w is m by k once transposed, x^T
    // k by n, out^T m by n, all contiguous and as large as was checked above. The handle is bound to the one stream.
    #[allow(unsafe_code)]
    unsafe {
        gemm_ex(
            *device.cublas_handle().handle(),
            sys::cublasOperation_t::CUBLAS_OP_T,
            sys::cublasOperation_t::CUBLAS_OP_N,
            m,
            n,
            k,
            (&raw const one).cast(),
            w as *const _,
            sys::cudaDataType_t::CUDA_R_16BF,
            k,
            x as *const _,
            sys::cudaDataType_t::CUDA_R_16BF,
            k,
            (&raw const zero).cast(),
            to as *mut _,
            sys::cudaDataType_t::CUDA_R_32F,
            m,
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    }
    .w()?;
    drop((_x, _w, _to));
    drop(held);
    Ok(out)
}

pub(crate) fn run(call: &Call<'_>, device: &CudaDevice) -> Result<()> {
    let ptx = program::ptx(device)?;
    let kernel = device.get_or_load_custom_func(&call.name, "tealight", &ptx).map_err(|error| {
        match program::advice_here() {
            Some(advice) => candle_core::Error::Msg(format!("{}: {error}; {advice}", call.name)),
            None => error,
        }
    })?;
    let held: Vec<_> = call.tensors.iter().map(|tensor| tensor.storage_and_layout()).collect();
    let views = held
        .iter()
        .map(|(storage, layout)| match &**storage {
            Storage::Cuda(storage) => View::of(storage, layout),
            _ => bail!("{}: a tensor is not on the GPU", call.name),
        })
        .collect::<Result<Vec<_>>>()?;
    let mut builder = kernel.builder();
    // Buffers that a kernel does not use get its first tensor.
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
    // SAFETY: the wrappers in `kernels` have checked that the tensors are as large as the kernel takes them to be; all
    // work on a device goes through the one stream that `open` made, so none runs beside it.
    #[allow(unsafe_code)]
    unsafe { builder.launch(config) }.w()?;
    Ok(())
}
