//! NCCL: numbers of several processes, one GPU each, exchanged without the host.

use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::cuda_backend::cudarc::nccl::result::NcclError;
use candle_core::cuda_backend::cudarc::nccl::safe::{Comm, Id, group_end, group_start};
use candle_core::cuda_backend::{CudaDevice, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CudaStorage, Device, Error, Result, Storage, Tensor, bail};

/// The bytes that name a group of ranks.
const NAME: usize = 128;

/// One rank's place in a group, each with a GPU of its own.
pub struct Communicator {
    comm: Mutex<Handle>,
    device: Device,
    size: usize,
}

struct Handle(ManuallyDrop<Comm>);

impl Drop for Handle {
    /// cudarc panics where NCCL cannot end a communicator, as after an error of the device: that error is the one to
    /// report.
    fn drop(&mut self) {
        // SAFETY: nothing uses the communicator after this.
        #[allow(unsafe_code)]
        let comm = unsafe { ManuallyDrop::take(&mut self.0) };
        drop(std::panic::catch_unwind(AssertUnwindSafe(|| drop(comm))));
    }
}

// SAFETY: NCCL lets any thread use a communicator, one at a time, which the mutex sees to; its stream is the device's
// one stream.
#[allow(unsafe_code)]
unsafe impl Send for Handle {}

fn told(what: &str) -> impl Fn(NcclError) -> Error {
    move |error| Error::Msg(format!("NCCL: {what} failed: {:?}", error.0))
}

impl Communicator {
    /// The name of a new group: the first rank makes it, and all ranks are told.
    ///
    /// # Errors
    /// NCCL cannot be used.
    pub fn name() -> Result<Vec<u8>> {
        let id = Id::new().map_err(told("ncclGetUniqueId"))?;
        Ok(id.internal().iter().map(|byte| *byte as u8).collect())
    }

    /// Joins the group as `rank` of `size`, all of whom call this.
    ///
    /// # Errors
    /// Not a CUDA device, a name that is none, a rank that NCCL cannot reach.
    pub fn join(device: &Device, rank: usize, size: usize, name: &[u8]) -> Result<Self> {
        let Ok(name) = <[u8; NAME]>::try_from(name) else { bail!("NCCL: a name has {NAME} bytes") };
        let id = Id::uninit(name.map(|byte| byte as std::ffi::c_char));
        let stream = device.as_cuda_device()?.cuda_stream();
        // NCCL takes the device that is this thread's.
        stream.context().bind_to_thread().w()?;
        let comm = Comm::from_rank(stream, rank, size, id).map_err(told("ncclCommInitRank"))?;
        Ok(Self { comm: Mutex::new(Handle(ManuallyDrop::new(comm))), device: device.clone(), size })
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Hands part `r` of a flat tensor of f32 to rank `r`; everyone's parts for this rank, in order of rank.
    ///
    /// # Errors
    /// A tensor that is not of equal parts of f32 on the device, an error that NCCL reports. Where a rank has gone,
    /// NCCL may report nothing and wait for it.
    pub fn exchange(&self, local: &Tensor) -> Result<Tensor> {
        let part = local.elem_count() / self.size;
        if part * self.size != local.elem_count() {
            bail!(
                "NCCL: {} numbers are not equal parts of {} ranks",
                local.elem_count(),
                self.size
            );
        }
        self.swap(local, |rank| part * rank..part * (rank + 1), part)
    }

    /// Everyone's numbers, in order of rank; all have as many.
    ///
    /// # Errors
    /// A tensor that is not flat f32 on the device; as for [`Self::exchange`].
    pub fn concatenate(&self, local: &Tensor) -> Result<Tensor> {
        let count = local.elem_count();
        self.swap(local, |_| 0..count, count)
    }

    /// Sends range `to(r)` of `local` to each rank `r`, and receives `part` numbers from each.
    fn swap(
        &self,
        local: &Tensor,
        to: impl Fn(usize) -> std::ops::Range<usize>,
        part: usize,
    ) -> Result<Tensor> {
        let device: &CudaDevice = self.device.as_cuda_device()?;
        let (guard, layout) = local.storage_and_layout();
        let Storage::Cuda(storage) = &*guard else { bail!("NCCL: a tensor is not on the GPU") };
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("NCCL: a tensor is not contiguous");
        };
        let from = storage.as_cuda_slice::<f32>()?.slice(start..end);
        let mut all: CudaSlice<f32> = device.alloc_zeros(part * self.size)?;
        let handle = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        group_start().map_err(told("ncclGroupStart"))?;
        let mut done = Ok(());
        for rank in 0..self.size {
            let sent = handle.0.send(&from.slice(to(rank)), rank as i32);
            let received =
                handle.0.recv(&mut all.slice_mut(part * rank..part * (rank + 1)), rank as i32);
            done = done.and(sent).and(received.map(drop));
        }
        // Whatever came of it, the group ends: calls after it would wait in it.
        let ended = group_end().map_err(told("ncclGroupEnd"));
        done.map_err(told("ncclSend or ncclRecv"))?;
        ended?;
        let storage = CudaStorage::wrap_cuda_slice(all, device.clone());
        Ok(Tensor::from_storage(
            Storage::Cuda(storage),
            part * self.size,
            BackpropOp::none(),
            false,
        ))
    }
}
