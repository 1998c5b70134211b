//! Gradients of several GPUs, summed on them: nothing goes through the host's memory.

use anyhow::{Result, bail};
use candle_core::{DType, Tensor};

/// Numbers that are exchanged at a time: bounds the memory for them.
const SPAN: usize = 1 << 22;

/// How one rank's device exchanges numbers with those of the others. Every call is made by all ranks, in the same
/// order.
pub trait DeviceLink: Send + Sync {
    /// How many ranks there are.
    fn size(&self) -> usize;
    /// Hands part `r` of a flat tensor of f32 to rank `r`; everyone's parts for this rank, in order of rank. The parts
    /// are equally long.
    fn exchange(&self, local: &Tensor) -> Result<Tensor>;
    /// Everyone's numbers, flat and in order of rank; all have as many.
    fn concatenate(&self, local: &Tensor) -> Result<Tensor>;
}

/// Writes the sums over all ranks in place of `values`, in f32. They are added in f64 in the order of ranks and rounded
/// once, with the bits of [`tealight_core::ranks::Ranks::sum`].
pub(super) fn sum(link: &dyn DeviceLink, values: &Tensor) -> Result<()> {
    if !values.is_contiguous() {
        bail!("gradients of {:?} are not contiguous: their sums would be lost", values.shape());
    }
    let (flat, size) = (values.flatten_all()?, link.size());
    let total = flat.elem_count();
    for start in (0..total).step_by(SPAN) {
        let count = SPAN.min(total - start);
        let part = count.div_ceil(size);
        let local = flat.narrow(0, start, count)?.pad_with_zeros(0, 0, part * size - count)?;
        // Reduce-scatter, then all-gather: each rank adds 1 / size of the numbers.
        let parts = link.exchange(&local)?.reshape((size, part))?;
        let mut exact = Tensor::zeros(part, DType::F64, flat.device())?;
        for rank in 0..size {
            exact = (exact + parts.get(rank)?.to_dtype(DType::F64)?)?;
        }
        let all = link.concatenate(&exact.to_dtype(DType::F32)?)?;
        flat.slice_set(&all.narrow(0, 0, count)?.contiguous()?, 0, start)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;
    use tealight_core::ranks::{Ranks, threads};

    /// A link over that of the host, in place of NCCL.
    pub(super) struct OverHost(pub(super) Ranks);

    impl DeviceLink for OverHost {
        fn size(&self) -> usize {
            self.0.size()
        }

        fn exchange(&self, local: &Tensor) -> Result<Tensor> {
            let all = self.0.gather_numbers(local.to_vec1::<f32>()?)?;
            let part = local.elem_count() / self.0.size();
            let own = part * self.0.rank()..part * (self.0.rank() + 1);
            let parts: Vec<f32> =
                all.iter().flat_map(|other| other[own.clone()].to_vec()).collect();
            Ok(Tensor::new(parts, local.device())?)
        }

        fn concatenate(&self, local: &Tensor) -> Result<Tensor> {
            let all = self.0.gather_numbers(local.to_vec1::<f32>()?)?;
            Ok(Tensor::new(all.concat(), local.device())?)
        }
    }

    #[test]
    fn sums_on_devices_have_the_bits_of_sums_on_the_host() {
        for (size, shape) in [(1, (2, 3)), (2, (3, 5)), (3, (7, 1)), (5, (1, 3)), (3, (4, 300))] {
            let ranks = threads(size);
            std::thread::scope(|scope| {
                for ranks in &ranks {
                    scope.spawn(move || {
                        let value =
                            |i: usize| ((i * 7 + ranks.rank() * 31) % 101) as f32 * 0.37 - 11.0;
                        let mut values: Vec<f32> = (0..shape.0 * shape.1).map(value).collect();
                        let tensor = Tensor::from_slice(&values, shape, &Device::Cpu).unwrap();
                        sum(&OverHost(ranks.clone()), &tensor).unwrap();
                        ranks.sum(&mut values).unwrap();
                        let sums: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
                        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(&sums), bits(&values), "{size} ranks, {shape:?}");
                        assert_eq!(tensor.dims2().unwrap(), shape);
                    });
                }
            });
        }
    }
}
