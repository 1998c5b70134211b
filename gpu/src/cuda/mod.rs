//! Launches on CUDA, on the one stream of a device.

pub(crate) mod graph;
pub(crate) mod memory;
mod program;

use std::collections::BTreeMap;
use std::sync::Mutex;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::cublas::{result::gemm_ex, sys};
use candle_core::cuda_backend::cudarc::driver::sys::CUdeviceptr;
use candle_core::cuda_backend::cudarc::driver::{
    CudaSlice, CudaStream, CudaView, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, SyncOnDrop,
};
use candle_core::cuda_backend::{CudaDevice, WrapErr};
use candle_core::{
    CpuStorage, CpuStorageRef, CudaStorage, DType, Device, InplaceOp1, Layout, Result, Storage,
    Tensor, WithDType, bail,
};

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
    fn new(storage: &'a CudaStorage, layout: &Layout) -> Result<Self> {
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
    /// Devices, and the memory of their products.
    static OPEN: Mutex<BTreeMap<usize, (Device, CudaSlice<u8>)>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((device, _)) = open.get(&ordinal) {
        return Ok(device.clone());
    }
    let device = Device::new_cuda_with_stream(ordinal)?;
    // SAFETY: events order work between streams, and this device's stream is the only one that work runs on: nothing
    // else opens a device, and this function opens each once. What `graph` runs on another waits for both.
    #[allow(unsafe_code)]
    unsafe {
        device.as_cuda_device()?.disable_event_tracking();
    }
    let cuda = device.as_cuda_device()?;
    memory::keep_freed(cuda.cuda_stream().context())?;
    let scratch = graph::give_scratch(*cuda.cublas_handle().handle(), &cuda.cuda_stream())?;
    open.insert(ordinal, (device.clone(), scratch));
    Ok(device)
}

/// The identity of a device's results: its name and the driver's version.
pub(crate) fn identity(device: &CudaDevice) -> Result<String> {
    let name = device.cuda_stream().context().name().w()?;
    Ok(format!("{name}, CUDA {:?}", program::driver()))
}

/// The address of a view's memory, and what holds it until the call that uses it is launched.
fn address<'a>(view: &'a View<'_>, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
    match view {
        View::Single(view) => view.device_ptr(stream),
        View::Half(view) => view.device_ptr(stream),
        View::Numbers(view) => view.device_ptr(stream),
    }
}

/// The address of a tensor's first value, for comparing it.
pub(crate) fn place(storage: &CudaStorage, layout: &Layout) -> Result<usize> {
    let stream = storage.device().cuda_stream();
    Ok(address(&View::new(storage, layout)?, &stream).0 as usize)
}

/// `x w^T` of two matrices of one type, written to `out`, which is of that type or of f32; added up in f32.
pub(crate) fn product(x: &Tensor, w: &Tensor, out: &Tensor, device: &CudaDevice) -> Result<()> {
    let ((rows, inner), (columns, other)) = (x.dims2()?, w.dims2()?);
    let is_known = match (x.dtype(), out.dtype()) {
        (DType::BF16, DType::BF16 | DType::F32) | (DType::F32, DType::F32) => {
            x.dtype() == w.dtype()
        }
        _ => false,
    };
    if inner != other || out.dims2()? != (rows, columns) || !out.is_contiguous() || !is_known {
        bail!("product: {:?} and {:?} to {:?}", x.shape(), w.shape(), out.shape());
    }
    let (x, w) = (x.contiguous()?, w.contiguous()?);
    let storages = [&x, &w, out].map(Tensor::storage_and_layout);
    let view = |index: usize| match &*storages[index].0 {
        Storage::Cuda(storage) => View::new(storage, storages[index].1),
        _ => bail!("product: a matrix is not on the GPU"),
    };
    let views = [view(0)?, view(1)?, view(2)?];
    let (stream, handle) = graph::target(device);
    let [(x, _x), (w, _w), (to, _to)] = views.each_ref().map(|view| address(view, &stream));
    let [of_x, _, of_out] = views.each_ref().map(|view| match view {
        View::Half(_) => sys::cudaDataType_t::CUDA_R_16BF,
        _ => sys::cudaDataType_t::CUDA_R_32F,
    });
    let [m, n, k] = [columns, rows, inner].map(|size| size as i32);
    let (one, zero) = (1f32, 0f32);
    // SAFETY: cuBLAS reads columns where we have rows, so that this is out^T = w x^T: w is m by k once transposed, x^T
    // k by n, out^T m by n, all contiguous and of the sizes and types that were checked above. The handle is bound to
    // the one stream, or to that of a capture.
    #[allow(unsafe_code)]
    unsafe {
        gemm_ex(
            handle,
            sys::cublasOperation_t::CUBLAS_OP_T,
            sys::cublasOperation_t::CUBLAS_OP_N,
            m,
            n,
            k,
            (&raw const one).cast(),
            w as *const _,
            of_x,
            k,
            x as *const _,
            of_x,
            k,
            (&raw const zero).cast(),
            to as *mut _,
            of_out,
            m,
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    }
    .w()
}

/// Copies values of the host to a tensor of their type and number, in place.
pub(crate) fn write<T: WithDType>(to: &Tensor, values: &[T]) -> Result<()> {
    if values.len() != to.elem_count() || !to.is_contiguous() {
        bail!("{} values for a tensor of {:?}", values.len(), to.shape());
    }
    to.inplace_op1(&Values(T::cpu_storage_ref(values)))
}

struct Values<'a>(CpuStorageRef<'a>);

impl InplaceOp1 for Values<'_> {
    fn name(&self) -> &'static str {
        "write"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        bail!("write: a tensor on the CPU")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        let range = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        let device = storage.device().clone();
        match self.0 {
            CpuStorageRef::F32(values) => {
                let to = storage.as_cuda_slice_mut::<f32>()?;
                device.memcpy_htod(values, &mut to.slice_mut(range))
            }
            CpuStorageRef::U32(values) => {
                let to = storage.as_cuda_slice_mut::<u32>()?;
                device.memcpy_htod(values, &mut to.slice_mut(range))
            }
            _ => bail!("write: values are f32 or u32"),
        }
    }
}

pub(crate) fn run(call: &Call<'_>, device: &CudaDevice) -> Result<()> {
    let ptx = program::ptx(device)?;
    let kernel = device.get_or_load_custom_func(&call.name, "tealight", &ptx).map_err(|error| {
        match program::advice_here() {
            Some(advice) => candle_core::Error::Msg(format!("{error}; {advice}")),
            None => error,
        }
    })?;
    let storages: Vec<_> = call.tensors.iter().map(|tensor| tensor.storage_and_layout()).collect();
    let views = storages
        .iter()
        .map(|(storage, layout)| match &**storage {
            Storage::Cuda(storage) => View::new(storage, layout),
            _ => bail!("a tensor is not on the GPU"),
        })
        .collect::<Result<Vec<_>>>()?;
    let (stream, _) = graph::target(device);
    let mut builder = stream.launch_builder(&kernel);
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
    // work on a device goes through the one stream that `open` made, so none runs beside it, or through that of a
    // capture, which runs only between waits for both.
    #[allow(unsafe_code)]
    unsafe { builder.launch(config) }.w()?;
    Ok(())
}
