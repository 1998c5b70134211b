//! The operations of a layer on the CPU.

use std::ops::Range;

use candle_core::{Device, Result, Tensor, bail};
use tealight_matmul::{Matrix, Output, multiply};

use super::super::{
    Angles, Arrays, Backend, Buffer, GradAccumulator, Heads, Norm, PackedSequences, Parameter,
    RolloutDtype, Turn, WithBias, check_tokens,
};
use super::pass::Pass;
use super::product::{add_bias, quantized, with_weight};
use super::rms_norm::Gain;
use super::slots::{RowLayout, Rows, Slots};
use super::vocabulary::RowSums;
use super::{Cpu, by_rows, gate, rms_norm, rope, rows, with_values};
use crate::backend::Activation;

impl Arrays for Cpu {
    type Array = Buffer;
    type Stream = Buffer;
    type AttentionSums = ();
    type LogpSums = Vec<RowSums>;
    type Pass = Pass;
    type Cache<'a> = Slots<'a>;
}

impl Backend for Cpu {
    fn pass(
        &self,
        packed: &PackedSequences,
        heads: Heads,
        angles: Vec<Angles>,
        slots: Option<usize>,
    ) -> Result<Pass> {
        self.pool.begin(packed.tokens());
        Pass::new(packed, heads, angles, slots, self.rounds_keys)
    }

    fn embed(&self, table: &Parameter, ids: &[u32], scale: f64) -> Result<Buffer> {
        let (vocabulary, width) = table.dims2()?;
        check_tokens(ids, vocabulary)?;
        let mut x = self.pool.take(ids.len() * width);
        with_weight(table, |table| {
            rows::gather(table, ids, &mut x);
            Ok(())
        })?;
        if scale != 1.0 {
            self.scale(&mut x, scale)?;
        }
        Ok(x)
    }

    fn embed_backward(
        &self,
        table: &Parameter,
        ids: &[u32],
        grad: &Buffer,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let width = table.dims2()?.1;
        // The adjoint of gathering rows: a token that occurs several times adds each occurrence's gradient.
        rows::scatter(grad, ids, grads.on_cpu(table, &self.pool), width);
        Ok(())
    }

    fn saved(&self, stream: &mut Buffer) -> Result<Buffer> {
        Ok(self.pool.copy(stream))
    }

    fn stream(&self, x: &Buffer) -> Result<Buffer> {
        Ok(self.pool.copy(x))
    }

    fn add_norm(&self, stream: &mut Buffer, norm: &Norm) -> Result<Buffer> {
        self.norm(stream, norm)
    }

    fn norm(&self, x: &Buffer, norm: &Norm) -> Result<Buffer> {
        let mut out = self.pool.take(x.len());
        with_values(&norm.weight.values, |weight| {
            let gain = Gain { weight, offset: norm.offset as f32, eps: norm.eps as f32 };
            rms_norm::rms_norm(x, gain, &mut out, self.is_parallel);
            Ok(())
        })?;
        Ok(out)
    }

    fn norm_backward(
        &self,
        x: &Buffer,
        norm: &Norm,
        grad: &Buffer,
        dx: &mut Buffer,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let mut unused;
        let sums = match norm.weight.is_trained {
            true => grads.on_cpu(&norm.weight, &self.pool),
            false => {
                unused = self.pool.fixed_zeros(norm.weight.values.elem_count());
                &mut unused
            }
        };
        with_values(&norm.weight.values, |weight| {
            let gain = Gain { weight, offset: norm.offset as f32, eps: norm.eps as f32 };
            rms_norm::gradients(x, gain, grad, dx, sums);
            Ok(())
        })
    }

    fn linears(&self, x: &Buffer, weights: &[WithBias<'_>]) -> Result<Vec<Buffer>> {
        self.affine(x, weights)
    }

    fn linear_add(&self, x: &Buffer, weight: &Parameter, to: &mut Buffer) -> Result<()> {
        self.products(x, vec![(weight, to, true)])
    }

    fn linear_residual(
        &self,
        x: &Buffer,
        weight: &Parameter,
        bias: Option<&Parameter>,
        stream: &mut Buffer,
    ) -> Result<()> {
        if let Some(bias) = bias {
            add_bias(bias, stream)?;
        }
        self.products(x, vec![(weight, stream, true)])
    }

    fn add_residual(&self, stream: &mut Buffer, x: Buffer) -> Result<()> {
        self.add(stream, &x)
    }

    fn linear_backward(
        &self,
        grad: &Buffer,
        weight: &Parameter,
        to: Option<Buffer>,
    ) -> Result<Buffer> {
        let (width, inner) = weight.dims2()?;
        let rows = grad.len() / width;
        let adds = to.is_some();
        let mut out = to.unwrap_or_else(|| self.pool.take(rows * inner));
        with_weight(weight, |weight| {
            let data = Output { data: &mut out, stride: inner, adds };
            // y = x W^T: dx = dy W.
            multiply(Matrix::new(grad, rows, width), weight.plain(), data, true);
            Ok(())
        })?;
        Ok(out)
    }

    fn weight_backward(
        &self,
        x: &Buffer,
        grad: &Buffer,
        weight: &Parameter,
        bias: Option<&Parameter>,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        self.add_weight_gradient([x, grad], weight, bias, grads)
    }

    fn gated(&self, activation: Activation, gate: &Buffer, up: &Buffer) -> Result<Buffer> {
        let mut out = self.pool.take(gate.len());
        gate::gated(activation, gate, up, &mut out, self.is_parallel);
        Ok(out)
    }

    fn gated_backward(
        &self,
        activation: Activation,
        gate: &mut Buffer,
        up: &mut Buffer,
        grad: &Buffer,
    ) -> Result<()> {
        gate::gradients(activation, gate, up, grad);
        Ok(())
    }

    fn rope(&self, pass: &Pass, rope: usize, x: &mut Buffer, turn: Turn) -> Result<()> {
        let direction = match turn {
            Turn::Forward => 1.0,
            Turn::Back => -1.0,
        };
        let width = x.len() / pass.tokens().max(1);
        by_rows(self.is_parallel, x, width, |first, part| {
            for (index, row) in part.chunks_exact_mut(width).enumerate() {
                rope::rotate(row, pass.layout.dim, pass.angles(rope, first + index), direction);
            }
        });
        Ok(())
    }

    fn attention(
        &self,
        pass: &Pass,
        window: Option<usize>,
        [q, k, v]: [&Buffer; 3],
        cache: Option<&mut Slots<'_>>,
    ) -> Result<(Buffer, ())> {
        let mut out = self.pool.take(q.len());
        let mut attend = |[keys, values]: [&mut [f32]; 2], layout, beginnings: &[_]| {
            let cached = [&mut *keys, &mut *values];
            pass.store([k, v], cached, layout, beginnings, self.is_parallel)?;
            let rows = Rows { parts: [&*keys, &*values], layout, beginnings };
            pass.attend(window, q, rows, &mut out, self.is_parallel);
            Ok::<_, candle_core::Error>(())
        };
        match cache {
            Some(Slots { parts, layout: RowLayout::Keys(layout), beginnings }) => {
                attend(parts.each_mut().map(|part| &mut **part), *layout, beginnings)?;
            }
            Some(_) => bail!("the cache of this layer is of states"),
            None => {
                let layout = pass.layout;
                let count = pass.rows.len() * layout.row();
                let [mut keys, mut values] = [0, 1].map(|_| self.pool.take(count));
                attend([&mut keys, &mut values], layout, &[])?;
            }
        }
        Ok((out, ()))
    }

    fn attention_backward(
        &self,
        pass: &Pass,
        window: Option<usize>,
        [q, k, v]: [&Buffer; 3],
        _: (&Buffer, &()),
        grad: &Buffer,
    ) -> Result<[Buffer; 3]> {
        Ok(pass.attend_backward(window, [q, k, v], grad, &self.pool))
    }

    fn columns(&self, x: &Buffer, width: usize, columns: Range<usize>) -> Result<Buffer> {
        let mut out = self.pool.take(x.len() / width * columns.len());
        rows::columns(x, width, columns, &mut out);
        Ok(out)
    }

    fn joined(&self, parts: &[&Buffer], widths: &[usize]) -> Result<Buffer> {
        let parts: Vec<&[f32]> = parts.iter().map(|part| &***part).collect();
        let mut out = self.pool.take(parts.iter().map(|part| part.len()).sum());
        rows::join(&parts, widths, &mut out);
        Ok(out)
    }

    fn copy(&self, x: &Buffer) -> Result<Buffer> {
        Ok(self.pool.copy(x))
    }

    fn zeros_like(&self, x: &Buffer) -> Result<Buffer> {
        Ok(self.pool.zeros(x.len()))
    }

    fn add(&self, x: &mut Buffer, y: &Buffer) -> Result<()> {
        x.iter_mut().zip(y.iter()).for_each(|(x, y)| *x += y);
        Ok(())
    }

    fn scale(&self, x: &mut Buffer, by: f64) -> Result<()> {
        x.iter_mut().for_each(|x| *x *= by as f32);
        Ok(())
    }

    fn to_tensor(&self, x: Buffer, width: usize) -> Result<Tensor> {
        let rows = x.len() / width;
        Tensor::from_vec(x.into_values(), (rows, width), &Device::Cpu)
    }

    fn of_tensor(&self, x: &Tensor) -> Result<Buffer> {
        with_values(x, |values| Ok(self.pool.copy(values)))
    }

    fn scatter(&self, x: &Tensor, indices: &[u32], rows: usize) -> Result<Tensor> {
        let width = x.dim(1)?;
        let mut out = vec![0f32; rows * width];
        with_values(x, |x| {
            rows::scatter(x, indices, &mut out, width);
            Ok(())
        })?;
        Tensor::from_vec(out, (rows, width), &Device::Cpu)
    }

    fn prepack(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter> {
        match dtype {
            None => self.packed(weight, false),
            Some(RolloutDtype::Bfloat16) => self.packed(weight, true),
            Some(RolloutDtype::Int8) => quantized(weight),
        }
    }

    fn prepack_head(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter> {
        self.prepack(weight, dtype)
    }
}
