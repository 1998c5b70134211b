//! The memory of a CUDA device: freed memory is kept for the next allocation, and counts as free.

use std::ffi::c_void;

use candle_core::Result;
use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::sys::CUmemPool_attribute as Attribute;
use candle_core::cuda_backend::cudarc::driver::{CudaContext, result, sys};

/// The memory pool that allocations of a device come from; none where the driver has no pools.
fn pool(context: &CudaContext) -> Result<Option<sys::CUmemoryPool>> {
    if !context.has_async_alloc() {
        return Ok(None);
    }
    // SAFETY: the device is that of an open context.
    #[allow(unsafe_code)]
    let pool = unsafe { result::device::get_default_mem_pool(context.cu_device()) }.w()?;
    Ok(Some(pool))
}

/// Has the driver keep freed memory in its pool. By default it returns all of it to the system whenever the host waits
/// for the device, which a rollout does for every eight tokens, and the next step maps the same memory again.
pub(super) fn keep_freed(context: &CudaContext) -> Result<()> {
    let Some(pool) = pool(context)? else { return Ok(()) };
    let mut threshold = u64::MAX;
    let value = (&raw mut threshold).cast::<c_void>();
    let attribute = Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool is the device's own, and this attribute is a number of 64 bits.
    #[allow(unsafe_code)]
    unsafe { result::mem_pool::set_attribute(pool, attribute, value) }.w()
}

/// Bytes that can be allocated: those that the driver says are free, and those of the pool that nothing uses.
pub(crate) fn free(context: &CudaContext) -> Result<u64> {
    let (free, _) = context.mem_get_info().w()?;
    let Some(pool) = pool(context)? else { return Ok(free as u64) };
    let bytes = |attribute| {
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast::<c_void>();
        // SAFETY: the pool is the device's own, and both attributes are numbers of 64 bits.
        #[allow(unsafe_code)]
        unsafe { result::mem_pool::get_attribute(pool, attribute, value) }.w()?;
        Ok::<_, candle_core::Error>(bytes)
    };
    let reserved = bytes(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
    let used = bytes(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
    Ok(free as u64 + reserved.saturating_sub(used))
}
