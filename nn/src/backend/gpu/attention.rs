//! The projections that attention reads, and attention itself, in as few launches as there are kernels for.

use candle_core::{Result, Tensor};
use tealight_gpu::workspace::Array;
use tealight_gpu::{kernels, products};

use super::super::WithBias;
use super::{Gpu, Pass};

impl Gpu {
    /// `x W^T + b` for each weight; the biases of three are added by one kernel.
    pub(super) fn products(&self, x: &Array, weights: &[WithBias<'_>]) -> Result<Vec<Array>> {
        let [(_, Some(a)), (_, Some(b)), (_, Some(c))] = weights else {
            return weights.iter().map(|(weight, bias)| self.linear(x, weight, *bias)).collect();
        };
        let product = |(weight, _): &WithBias<'_>| products::product(x, &weight.values);
        let all: Vec<Array> = weights.iter().map(product).collect::<Result<_>>()?;
        kernels::add_biases([(&all[0], &a.values), (&all[1], &b.values), (&all[2], &c.values)])?;
        Ok(all)
    }

    /// Sends the attention tables of a decoding step to the device before its layers run: a copy inside the layers
    /// would prevent a graph.
    pub(crate) fn upload(&self, pass: &Pass, x: &Array) -> Result<()> {
        pass.runs.upload(x.dtype(), self.destination())
    }

    pub(super) fn attend(
        &self,
        pass: &Pass,
        window: Option<usize>,
        [q, k, v]: [&Array; 3],
        cache: Option<&[Tensor; 2]>,
    ) -> Result<(Array, Array)> {
        match (cache, &pass.slots) {
            (Some([keys, values]), Some(slots)) => {
                kernels::store_rows(k, keys, slots)?;
                kernels::store_rows(v, values, slots)?;
                kernels::attention(q, keys, values, &pass.runs, window)
            }
            _ => kernels::attention(q, k, v, &pass.runs, window),
        }
    }

    /// The same of queries and keys that are turned by these ropes of the pass first; with a cache keys are turned on
    /// their way there.
    pub(super) fn turn_and_attend(
        &self,
        pass: &Pass,
        ropes: Option<[usize; 2]>,
        window: Option<usize>,
        [q, k, v]: [&Array; 3],
        cache: Option<&[Tensor; 2]>,
    ) -> Result<(Array, Array)> {
        let Some(ropes) = ropes else { return self.attend(pass, window, [q, k, v], cache) };
        let angles = ropes.map(|rope| &pass.angles[rope]);
        if let (Some([keys, values]), Some(slots)) = (cache, &pass.slots) {
            kernels::rope_store([q, k, v], pass.heads, angles, [keys, values], slots)?;
            return kernels::attention(q, keys, values, &pass.runs, window);
        }
        for (x, [cos, sin]) in [q, k].into_iter().zip(angles) {
            kernels::rope(x, pass.heads.dim, [cos, sin], false)?;
        }
        kernels::attention(q, k, v, &pass.runs, window)
    }
}
