//! The backend on a GPU, in f32 or bf16: our kernels, and the device's own products. Gradients of weights are summed
//! in f32.

mod attention;
mod output;
mod pass;
mod stream;
mod terms;

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor, bail};
use tealight_gpu::counts::{made, upload, zeros};
use tealight_gpu::kernels;

use super::{
    Anchor, Angles, Backend, Delta, Divergences, Dropout, GradAccumulator, Heads, LogpGrads, Norm,
    PackedSequences, Parameter, Prepacked, RolloutDtype, TokenLogp, Turn, WithBias, check_tokens,
};

use crate::nn::backend::Activation;
pub(crate) use output::most_logits;
use pass::Pass;
use stream::ResidualStream;
pub(crate) use terms::check;
use terms::{gain, rule, through};

/// A GPU, or the CPU in its place.
#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    pub(crate) device: Device,
}

impl Gpu {
    fn table(&self, values: &[u32]) -> Result<Tensor> {
        upload(values.to_vec(), values.len(), &self.device)
    }

    /// The rows `ids` of the embedding, times `scale`, of ids on the device: each must be a row of it.
    pub(crate) fn embed_drawn(
        &self,
        table: &Parameter,
        ids: &Tensor,
        scale: f64,
    ) -> Result<ResidualStream> {
        let mut x = made(table.values.index_select(ids, 0)?);
        if scale != 1.0 {
            self.scale(&mut x, scale)?;
        }
        Ok(ResidualStream::new(x))
    }

    /// `x W^T` of a weight that may be of another type.
    fn product(&self, x: &Tensor, weight: &Parameter) -> Result<Tensor> {
        x.matmul(&weight.values.to_dtype(x.dtype())?.t()?).map(made)
    }

    /// `x W^T + b`.
    fn linear(&self, x: &Tensor, weight: &Parameter, bias: Option<&Parameter>) -> Result<Tensor> {
        let out = self.product(x, weight)?;
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

impl Backend for Gpu {
    type Array = Tensor;
    type Stream = ResidualStream;
    type AttentionSums = Tensor;
    type LogpSums = Tensor;
    type Pass = Pass;
    type Cache<'a> = &'a [Tensor; 2];

    fn pass(
        &self,
        packed: &PackedSequences,
        heads: Heads,
        angles: Vec<Angles>,
        slots: Option<usize>,
    ) -> Result<Pass> {
        Pass::new(packed, heads, angles, slots, &self.device)
    }

    fn embed(&self, table: &Parameter, ids: &[u32], scale: f64) -> Result<ResidualStream> {
        check_tokens(ids, table.dims2()?.0)?;
        self.embed_drawn(table, &self.table(ids)?, scale)
    }

    fn embed_backward(
        &self,
        table: &Parameter,
        ids: &[u32],
        grad: &Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        kernels::embedding_back(grad, ids, &grads.on_gpu(table)?)
    }

    fn saved(&self, stream: &mut ResidualStream) -> Result<Tensor> {
        stream.whole()
    }

    fn stream(&self, x: &Tensor) -> Result<ResidualStream> {
        Ok(ResidualStream::new(x.clone()))
    }

    fn add_norm(&self, stream: &mut ResidualStream, norm: &Norm) -> Result<Tensor> {
        stream.norm(gain(norm))
    }

    fn norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor> {
        Ok(kernels::add_norm(x, None, gain(norm))?.1)
    }

    fn head_norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor> {
        self.norm(x, norm)
    }

    fn norm_backward(
        &self,
        x: &Tensor,
        norm: &Norm,
        grad: &Tensor,
        dx: &mut Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let sums = sums_of(&norm.weight, grads)?;
        kernels::norm_back(x, gain(norm), grad, dx, sums.as_ref())
    }

    fn linears(&self, x: &Tensor, weights: &[WithBias<'_>]) -> Result<Vec<Tensor>> {
        self.products(x, weights)
    }

    fn linear_add(&self, x: &Tensor, weight: &Parameter, to: &mut Tensor) -> Result<()> {
        kernels::add(to, &self.product(x, weight)?)
    }

    fn linear_residual(
        &self,
        x: &Tensor,
        weight: &Parameter,
        bias: Option<&Parameter>,
        stream: &mut ResidualStream,
    ) -> Result<()> {
        let out = self.linear(x, weight, bias)?;
        self.add_residual(stream, out)
    }

    fn add_residual(&self, stream: &mut ResidualStream, x: Tensor) -> Result<()> {
        stream.add(x)
    }

    fn linear_backward(
        &self,
        grad: &Tensor,
        weight: &Parameter,
        to: Option<Tensor>,
    ) -> Result<Tensor> {
        let more = made(grad.matmul(&weight.values.to_dtype(grad.dtype())?)?);
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
        x: &Tensor,
        grad: &Tensor,
        weight: &Parameter,
        bias: Option<&Parameter>,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        grads.add_on_gpu(weight, made(grad.t()?.matmul(x)?))?;
        match bias {
            None => Ok(()),
            Some(bias) => kernels::column_sums(grad, &grads.on_gpu(bias)?),
        }
    }

    fn gated(&self, activation: Activation, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        kernels::gated(gate, up, through(activation))
    }

    fn gated_backward(
        &self,
        activation: Activation,
        gate: &mut Tensor,
        up: &mut Tensor,
        grad: &Tensor,
    ) -> Result<()> {
        kernels::gated_back(gate, up, grad, through(activation))
    }

    fn rope(&self, pass: &Pass, rope: usize, x: &mut Tensor, turn: Turn) -> Result<()> {
        let [cos, sin] = &pass.angles[rope];
        kernels::rope(x, pass.heads.dim, [cos, sin], turn == Turn::Back)
    }

    fn attention(
        &self,
        pass: &Pass,
        window: Option<usize>,
        [q, k, v]: [&Tensor; 3],
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<(Tensor, Tensor)> {
        self.attend(pass, window, [q, k, v], cache.copied())
    }

    fn rope_attention(
        &self,
        pass: &Pass,
        sight: (Option<[usize; 2]>, Option<usize>),
        [q, k, v]: [&mut Tensor; 3],
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<(Tensor, Tensor)> {
        self.turn_and_attend(pass, sight, [q, k, v], cache.copied())
    }

    fn attention_backward(
        &self,
        pass: &Pass,
        window: Option<usize>,
        qkv: [&Tensor; 3],
        out: (&Tensor, &Tensor),
        grad: &Tensor,
    ) -> Result<[Tensor; 3]> {
        kernels::attention_back(qkv, out, grad, (&pass.runs, window))
    }

    fn convolution(
        &self,
        pass: &Pass,
        x: &Tensor,
        kernel: &Parameter,
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<Tensor> {
        let taps = pass.taps(kernel.values.dim(2)?, &self.device)?;
        kernels::convolution(x, &kernel.values, taps, cache.map(|[_, past]| past))
    }

    fn convolution_backward(
        &self,
        pass: &Pass,
        x: &Tensor,
        kernel: &Parameter,
        grad: &Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<Tensor> {
        let taps = pass.taps(kernel.values.dim(2)?, &self.device)?;
        let sums = sums_of(kernel, grads)?;
        kernels::convolution_back(x, &kernel.values, taps, grad, sums.as_ref())
    }

    fn delta_rule(
        &self,
        pass: &Pass,
        delta: &Delta,
        inputs: [&Tensor; 3],
        cache: Option<&mut &[Tensor; 2]>,
    ) -> Result<Tensor> {
        let states = cache.map(|[states, _]| states);
        kernels::delta_rule(rule(delta), inputs, pass.delta_runs(), states)
    }

    fn delta_rule_backward(
        &self,
        pass: &Pass,
        delta: &Delta,
        inputs: [&Tensor; 3],
        grad: &Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<[Tensor; 3]> {
        let (d_inputs, sums) = kernels::delta_back(rule(delta), inputs, pass.delta_runs(), grad)?;
        for (weight, more) in [&delta.a_log, &delta.dt_bias].into_iter().zip(sums) {
            if let Some(sums) = sums_of(weight, grads)? {
                kernels::add_to(&sums, &more)?;
            }
        }
        Ok(d_inputs)
    }

    fn columns(&self, x: &Tensor, width: usize, columns: Range<usize>) -> Result<Tensor> {
        let narrowed = x.reshape(((), width))?.narrow(1, columns.start, columns.len())?;
        made(narrowed.contiguous()?).reshape((x.dim(0)?, ()))
    }

    fn joined(&self, parts: &[&Tensor], widths: &[usize]) -> Result<Tensor> {
        let of = |(part, width): (&&Tensor, &usize)| part.reshape(((), *width));
        let all: Vec<Tensor> = parts.iter().zip(widths).map(of).collect::<Result<_>>()?;
        made(Tensor::cat(&all, 1)?).reshape((parts[0].dim(0)?, ()))
    }

    fn copy(&self, x: &Tensor) -> Result<Tensor> {
        x.copy().map(made)
    }

    fn zeros_like(&self, x: &Tensor) -> Result<Tensor> {
        x.zeros_like().map(made)
    }

    fn add(&self, x: &mut Tensor, y: &Tensor) -> Result<()> {
        kernels::add(x, y)
    }

    fn scale(&self, x: &mut Tensor, by: f64) -> Result<()> {
        *x = made((&*x * by)?);
        Ok(())
    }

    fn dropout(&self, x: &Tensor, dropout: Dropout) -> Result<Tensor> {
        let Dropout { key, limit, kept } = dropout;
        kernels::drop_values(&x.contiguous()?, key, limit, kept)
    }

    fn to_tensor(&self, x: Tensor, _: usize) -> Result<Tensor> {
        Ok(x)
    }

    fn of_tensor(&self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()
    }

    fn scatter(&self, x: &Tensor, indices: &[u32], rows: usize) -> Result<Tensor> {
        let sums = zeros((rows, x.dim(1)?), DType::F32, &self.device)?;
        kernels::embedding_back(x, indices, &sums)?;
        sums.to_dtype(x.dtype())
    }

    fn logp(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: (&[u32], f64),
        likeliest: usize,
    ) -> Result<TokenLogp<Tensor>> {
        self.token_logp(hidden, head, targets, likeliest)
    }

    fn divergences(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        (_, temperature): (&[u32], f64),
        saved: &Tensor,
        anchor: &Anchor,
    ) -> Result<Divergences> {
        self.distances(hidden, head, temperature, saved, anchor)
    }

    fn logp_backward(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: (&[u32], f64),
        saved: &Tensor,
        grad: &LogpGrads<'_>,
        grads: &mut GradAccumulator,
    ) -> Result<Tensor> {
        self.token_logp_backward(hidden, head, targets, (saved, grad), grads)
    }

    fn logits(&self, hidden: &Tensor, head: &Parameter) -> Result<Tensor> {
        self.logits_of(hidden, &self.wide(head)?)
    }

    fn prepack(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter> {
        refuse(dtype)?;
        Ok(weight.clone())
    }

    fn prepack_head(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter> {
        refuse(dtype)?;
        if tealight_gpu::multiplies_halves(&self.device) {
            return Ok(weight.clone());
        }
        let wide = Prepacked::Gpu(weight.values.to_dtype(DType::F32)?);
        Ok(Parameter { prepacked: Some(wide), ..weight.clone() })
    }
}

/// Refuses to round weights, for which there is no kernel.
fn refuse(dtype: Option<RolloutDtype>) -> Result<()> {
    match dtype {
        Some(RolloutDtype::Int8) => bail!("--rollout-dtype int8 is for the CPU"),
        None => Ok(()),
    }
}
