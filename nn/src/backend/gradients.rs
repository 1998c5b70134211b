//! Gradients by the names of weights, summed over backward passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, Var};
use tealight_gpu::counts::{made, zeros};
use tealight_gpu::kernels;

use super::{Buffer, Parameter, Pool};
use crate::device::is_by_cpu;

/// Numbers of small weights that are changed together.
const TOGETHER: usize = 1 << 20;

/// The gradients of one optimizer step: f32 sums that backward passes add to and an optimizer reads.
#[derive(Debug, Default)]
pub struct GradAccumulator {
    sums: BTreeMap<Arc<str>, Gradient>,
}

/// The gradient of one weight.
#[derive(Debug)]
pub enum Gradient {
    /// Its values in the order of the weight's.
    Cpu(Buffer),
    /// On a GPU, in the weight's shape.
    Gpu(Tensor),
}

impl Gradient {
    /// The size of the largest value; not a number where any is not.
    pub fn largest(&self) -> Result<f32> {
        // `f32::max` would lose a NaN, which is what the caller asks about.
        let larger = |most: f32, x: f32| if x > most || x.is_nan() { x } else { most };
        match self {
            Gradient::Cpu(values) => Ok(values.iter().map(|x| x.abs()).fold(0.0, larger)),
            Gradient::Gpu(values) => values.abs()?.flatten_all()?.max(0)?.to_scalar(),
        }
    }
}

impl GradAccumulator {
    /// The sums of a weight on the CPU; zeros at first.
    pub(crate) fn on_cpu(&mut self, weight: &Parameter, pool: &Arc<Pool>) -> &mut [f32] {
        let count = weight.values.elem_count();
        let zeros = || Gradient::Cpu(pool.fixed_zeros(count));
        match self.sums.entry(weight.name.clone()).or_insert_with(zeros) {
            Gradient::Cpu(sums) => sums,
            Gradient::Gpu(_) => unreachable!("`{}` has been on a GPU so far", weight.name),
        }
    }

    /// The sums of a weight on a GPU, to be written in place; zeros at first.
    pub(crate) fn on_gpu(&mut self, weight: &Parameter) -> Result<Tensor> {
        if let Some(Gradient::Gpu(sums)) = self.sums.get(&weight.name) {
            return Ok(sums.clone());
        }
        let sums = zeros(weight.values.shape(), DType::F32, weight.values.device())?;
        self.sums.insert(weight.name.clone(), Gradient::Gpu(sums.clone()));
        Ok(sums)
    }

    /// Adds a tensor that nobody else holds to the sums of a weight on a GPU; the first becomes the sums.
    pub(crate) fn add_on_gpu(&mut self, weight: &Parameter, more: Tensor) -> Result<()> {
        if let Some(Gradient::Gpu(sums)) = self.sums.get(&weight.name) {
            return kernels::add_to(sums, &more);
        }
        let first = match more.dtype() {
            DType::F32 => more,
            _ => made(more.to_dtype(DType::F32)?),
        };
        self.sums.insert(weight.name.clone(), Gradient::Gpu(first));
        Ok(())
    }

    /// The gradient of a weight, where it has one.
    pub fn get(&self, name: &str) -> Option<&Gradient> {
        self.sums.get(name)
    }

    /// Gives these weights a gradient of zeros where they have none.
    fn insert_zeros(&mut self, weights: &[(&str, &Var)]) -> Result<()> {
        let pool: Arc<Pool> = Arc::default();
        for (name, weight) in weights {
            if !self.sums.contains_key(*name) {
                let zeros = match is_by_cpu(weight.device()) {
                    true => Gradient::Cpu(pool.fixed_zeros(weight.elem_count())),
                    false => {
                        Gradient::Gpu(Tensor::zeros(weight.shape(), DType::F32, weight.device())?)
                    }
                };
                self.sums.insert((*name).into(), zeros);
            }
        }
        Ok(())
    }

    /// Has `change` write other sums of these weights, zeros where there are none yet, in place; of small weights those
    /// of several at a time. In whose order, the weights say.
    pub fn change(
        &mut self,
        weights: &[(&str, &Var)],
        change: &mut dyn FnMut(&mut [f32]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.insert_zeros(weights)?;
        let mut rest = weights;
        while !rest.is_empty() {
            let mut count = 0;
            let more = rest.iter().take_while(|(_, weight)| {
                count += weight.elem_count();
                count <= TOGETHER
            });
            // At least one. Small weights go together, since with several processes every change is a message.
            let (some, others) = rest.split_at(more.count().max(1));
            rest = others;
            if let [(name, _)] = some
                && let Some(Gradient::Cpu(sums)) = self.sums.get_mut(*name)
            {
                change(sums)?;
                continue;
            }
            let mut together = Vec::with_capacity(count);
            for (name, _) in some {
                match &self.sums[*name] {
                    Gradient::Cpu(sums) => together.extend_from_slice(sums),
                    Gradient::Gpu(sums) => together.extend(sums.flatten_all()?.to_vec1::<f32>()?),
                }
            }
            change(&mut together)?;
            let mut changed = together.as_slice();
            for (name, weight) in some {
                let (values, others) = changed.split_at(weight.elem_count());
                changed = others;
                match self.sums.get_mut(*name) {
                    Some(Gradient::Cpu(sums)) => sums.copy_from_slice(values),
                    Some(Gradient::Gpu(sums)) => {
                        *sums = Tensor::from_slice(values, weight.shape(), weight.device())?;
                    }
                    None => unreachable!("zeros at least"),
                }
            }
        }
        Ok(())
    }

    /// All of them by name, flat.
    pub fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let flat = |gradient: &Gradient| match gradient {
            Gradient::Cpu(sums) => Tensor::from_slice(sums, sums.len(), &Device::Cpu),
            Gradient::Gpu(sums) => sums.flatten_all(),
        };
        self.sums.iter().map(|(name, sums)| Ok((name.to_string(), flat(sums)?))).collect()
    }
}
