//! Results that were computed outside Candle's graph, as operations in it.

use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, Layout, MetalStorage, Result, Shape, Storage, Tensor, bail,
};

/// `result` as a function of two tensors, whose gradients `backward` finds from that of the result.
///
/// # Errors
/// No memory.
pub(crate) fn given(
    result: Tensor,
    of: [&Tensor; 2],
    backward: impl Fn(&Tensor) -> Result<[Option<Tensor>; 2]> + Send + Sync + 'static,
) -> Result<Tensor> {
    of[0].apply_op2(of[1], Given { result, backward })
}

struct Given<F> {
    result: Tensor,
    backward: F,
}

impl<F> Given<F> {
    fn storage<S>(&self, pick: impl FnOnce(&Storage, &Layout) -> Result<S>) -> Result<(S, Shape)> {
        let result = self.result.contiguous()?;
        let (storage, layout) = result.storage_and_layout();
        Ok((pick(&storage, layout)?, result.shape().clone()))
    }
}

impl<F> CustomOp2 for Given<F>
where
    F: Fn(&Tensor) -> Result<[Option<Tensor>; 2]> + Send + Sync,
{
    fn name(&self) -> &'static str {
        "given"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Cpu(storage) => Ok(storage),
            _ => bail!("the result is not on the CPU"),
        })
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Cuda(storage) => Ok(storage),
            _ => bail!("the result is not on the CUDA device"),
        })
    }

    fn metal_fwd(
        &self,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Metal(storage) => Ok(storage),
            _ => bail!("the result is not on the Metal device"),
        })
    }

    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [first, second] = (self.backward)(&grad.contiguous()?)?;
        Ok((first, second))
    }
}
