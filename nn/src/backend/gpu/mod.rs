//! The backend on a GPU, in f32 or bf16: our kernels, and the device's own products. Gradients of weights are summed
//! in f32.

mod attention;
mod output;
mod pass;
mod stream;
mod terms;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, bail};
use tealight_gpu::counts::zeros;
use tealight_gpu::workspace::{Array, Destination, Operand, Workspace};
use tealight_gpu::{kernels, products};

use super::{
    Angles, Arrays, Backend, Delta, GradAccumulator, Heads, Mixing, Norm, PackedSequences,
    Parameter, Prepacked, RolloutDtype, Turn, WithBias, check_tokens,
};

use crate::backend::Activation;
pub use output::most_logits;
use pass::Pass;
use stream::ResidualStream;
pub(crate) use terms::check;
use terms::{gain, rule, through};

/// A GPU, or the CPU in its place.
#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    pub(crate) device: Device,
    /// Memory for what a decoding step computes.
    pub(crate) workspace: Option<Arc<Workspace>>,
}

impl Gpu {
    /// The same, which computes in this memory.
    pub(crate) fn within(&self, workspace: Option<Arc<Workspace>>) -> Self {
        Self { device: self.device.clone(), workspace }
    }

    /// Where arrays are made.
    fn destination(&self) -> Destination<'_> {
        Destination { device: &self.device, workspace: self.workspace.as_ref() }
    }

    fn table(&self, values: &[u32]) -> Result<Array> {
        self.destination().upload(values.to_vec(), values.len())
    }

    /// `x W^T + b`.
    fn linear(&self, x: &Array, weight: &Parameter, bias: Option<&Parameter>) -> Result<Array> {
        let out = products::product(x, &weight.values)?;
        if let Some(bias) = bias {
            kernels::add_bias(&out, &bias.values)?;
        }
        Ok(out)
    }
}

/// Adds the f32 sum of a weight's gradient, where the weight is trained.
fn sums_of(weight: &Parameter, grads: &mut GradAccumulator) -> Result<Option<Tensor>> {
    weight.is_trained.then(|| grads.on_gpu(weight)).transpose()
}

impl Arrays for Gpu {
    type Array = Array;
    type Stream = ResidualStream;
    type AttentionSums = Array;
    type LogpSums = Tensor;
    type Pass = Pass;
    type Cache<'a> = &'a [Tensor; 2];
}

impl Backend for Gpu {
    fn pass(
        &self,
        packed: &PackedSequences,
        heads: Heads,
        angles: Vec<Angles>,
        slots: Option<usize>,
    ) -> Result<Pass> {
        Pass::new(packed, heads, angles, slots, self.destination())
    }

    fn embed(&self, table: &Parameter, ids: &[u32], scale: f64) -> Result<ResidualStream> {
        check_tokens(ids, table.dims2()?.0)?;
        self.embed_on_device(table, &self.table(ids)?, scale)
    }

    fn embed_backward(
        &self,
        table: &Parameter,
        ids: &[u32],
        grad: &Array,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        kernels::embedding_back(grad, ids, &grads.on_gpu(table)?)
    }

    fn saved(&self, stream: &mut ResidualStream) -> Result<Array> {
        stream.whole()
    }

    fn stream(&self, x: &Array) -> Result<ResidualStream> {
        Ok(ResidualStream::new(x.clone()))
    }

    fn add_norm(&self, stream: &mut ResidualStream, norm: &Norm) -> Result<Array> {
        stream.norm(gain(norm))
    }

    fn norm(&self, x: &Array, norm: &Norm) -> Result<Array> {
        Ok(kernels::add_norm(x, None, gain(norm))?.1)
    }

    fn norm_backward(
        &self,
        x: &Array,
        norm: &Norm,
        grad: &Array,
        dx: &mut Array,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let sums = sums_of(&norm.weight, grads)?;
        kernels::norm_back(x, gain(norm), grad, dx, sums.as_ref())
    }

    fn linears(&self, x: &Array, weights: &[WithBias<'_>]) -> Result<Vec<Array>> {
        self.products(x, weights)
    }

    fn linear_add(&self, x: &Array, weight: &Parameter, to: &mut Array) -> Result<()> {
        kernels::add(to, &products::product(x, &weight.values)?)
    }

    fn linear_residual(
        &self,
        x: &Array,
        weight: &Parameter,
        bias: Option<&Parameter>,
        stream: &mut ResidualStream,
    ) -> Result<()> {
        let out = self.linear(x, weight, bias)?;
        self.add_residual(stream, out)
    }

    fn add_residual(&self, stream: &mut ResidualStream, x: Array) -> Result<()> {
        stream.add(x)
    }

    fn linear_backward(
        &self,
        grad: &Array,
        weight: &Parameter,
        to: Option<Array>,
    ) -> Result<Array> {
        let more = products::product_back(grad, &weight.values)?;
        match to {
            None => Ok(more),
            Some(to) => {
                kernels::add(&to, &more)?;
                Ok(to)
            }
        }
    }

    fn weight_backward(
        &self,
        x: &Array,
        grad: &Array,
        weight: &Parameter,
        bias: Option<&Parameter>,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        grads.add_on_gpu(weight, products::weight_back(grad, x)?)?;
        match bias {
            None => Ok(()),
            Some(bias) => kernels::column_sums(grad, &grads.on_gpu(bias)?),
        }
    }

    fn gated(&self, activation: Activation, gate: &Array, up: &Array) -> Result<Array> {
        kernels::gated(gate, up, through(activation))
    }

    fn gated_backward(
        &self,
        activation: Activation,
        gate: &mut Array,
        up: &mut Array,
        grad: &Array,
    ) -> Result<()> {
        kernels::gated_back(gate, up, grad, through(activation))
    }

    fn rope(&self, pass: &Pass, rope: usize, x: &mut Array, turn: Turn) -> Result<()> {
        let [cos, sin] = &pass.angles[rope];
        kernels::rope(x, pass.heads.dim, [cos, sin], turn == Turn::Back)
    }

    fn attention(
        &self,
        pass: &Pass,
        window: Option<usize>,
        [q, k, v]: [&Array; 3],
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<(Array, Array)> {
        self.attend(pass, window, [q, k, v], cache.copied())
    }

    fn rope_attention(
        &self,
        pass: &Pass,
        ropes: Option<[usize; 2]>,
        window: Option<usize>,
        [q, k, v]: [&mut Array; 3],
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<(Array, Array)> {
        self.turn_and_attend(pass, ropes, window, [q, k, v], cache.copied())
    }

    fn attention_backward(
        &self,
        pass: &Pass,
        window: Option<usize>,
        qkv: [&Array; 3],
        out: (&Array, &Array),
        grad: &Array,
    ) -> Result<[Array; 3]> {
        kernels::attention_back(qkv.map(|x| x as _), [out.0, out.1], grad, &pass.runs, window)
    }

    fn columns(&self, x: &Array, width: usize, columns: Range<usize>) -> Result<Array> {
        kernels::columns(x, width, columns)
    }

    fn joined(&self, parts: &[&Array], widths: &[usize]) -> Result<Array> {
        let parts: Vec<&dyn Operand> = parts.iter().map(|part| *part as _).collect();
        kernels::joined(&parts, widths)
    }

    fn copy(&self, x: &Array) -> Result<Array> {
        kernels::scaled(x, 1.0)
    }

    fn zeros_like(&self, x: &Array) -> Result<Array> {
        x.zeros_like()
    }

    fn add(&self, x: &mut Array, y: &Array) -> Result<()> {
        kernels::add(x, y)
    }

    fn scale(&self, x: &mut Array, by: f64) -> Result<()> {
        *x = kernels::scaled(x, by)?;
        Ok(())
    }

    fn to_tensor(&self, x: Array, _: usize) -> Result<Tensor> {
        Ok(x.into_tensor())
    }

    fn of_tensor(&self, x: &Tensor) -> Result<Array> {
        x.contiguous().map(Array::from)
    }

    fn scatter(&self, x: &Tensor, indices: &[u32], rows: usize) -> Result<Tensor> {
        let sums = zeros((rows, x.dim(1)?), DType::F32, &self.device)?;
        kernels::embedding_back(x, indices, &sums)?;
        sums.to_dtype(x.dtype())
    }

    fn prepack(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter> {
        refuse(dtype)?;
        Ok(weight.clone())
    }

    fn prepack_adapter(&self, matrix: &Parameter, like: &Parameter) -> Result<Parameter> {
        // Rounded once here; otherwise every product would round it again.
        Ok(Parameter { values: matrix.values.to_dtype(like.values.dtype())?, ..matrix.clone() })
    }

    fn prepack_head(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter> {
        refuse(dtype)?;
        if tealight_gpu::multiplies_halves(&self.device) {
            return Ok(weight.clone());
        }
        let wide = Prepacked::Gpu(weight.used()?.to_dtype(DType::F32)?);
        Ok(Parameter { prepacked: Some(wide), ..weight.clone() })
    }
}

impl Mixing for Gpu {
    fn convolution(
        &self,
        pass: &Pass,
        x: &Array,
        kernel: &Parameter,
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<Array> {
        let taps = pass.taps(kernel.values.dim(2)?, self.destination())?;
        kernels::convolution(x, &kernel.values, taps, cache.map(|[_, past]| past))
    }

    fn convolution_backward(
        &self,
        pass: &Pass,
        x: &Array,
        kernel: &Parameter,
        grad: &Array,
        grads: &mut GradAccumulator,
    ) -> Result<Array> {
        let taps = pass.taps(kernel.values.dim(2)?, self.destination())?;
        let sums = sums_of(kernel, grads)?;
        kernels::convolution_back(x, &kernel.values, taps, grad, sums.as_ref())
    }

    fn delta_rule(
        &self,
        pass: &Pass,
        delta: &Delta,
        inputs: [&Array; 3],
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<Array> {
        let states = cache.map(|[states, _]| states);
        let [mixed, b, a] = inputs;
        kernels::delta_rule(rule(delta), [mixed, b, a], pass.delta_runs(), states)
    }

    fn delta_rule_backward(
        &self,
        pass: &Pass,
        delta: &Delta,
        inputs: [&Array; 3],
        grad: &Array,
        grads: &mut GradAccumulator,
    ) -> Result<[Array; 3]> {
        let ([mixed, b, a], runs) = (inputs, pass.delta_runs());
        let (d_inputs, sums) = kernels::delta_back(rule(delta), [mixed, b, a], runs, grad)?;
        for (weight, more) in [&delta.a_log, &delta.dt_bias].into_iter().zip(sums) {
            if let Some(sums) = sums_of(weight, grads)? {
                kernels::add_to(&sums, &more)?;
            }
        }
        Ok(d_inputs)
    }
}

/// Refuses to round weights, for which there is no kernel.
fn refuse(dtype: Option<RolloutDtype>) -> Result<()> {
    match dtype {
        Some(dtype) => bail!("--rollout-dtype {} is for the CPU", dtype.name()),
        None => Ok(()),
    }
}
