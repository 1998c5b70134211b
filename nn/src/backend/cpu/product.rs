//! Products with weights.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, DType, Result, Storage, Tensor, bail};
use half::bf16;
use tealight_matmul::{
    Blocks, Matrix, Output, Packed, Quantized, Right, multiply, multiply_each, product, vectorized,
};

use super::super::{Buffer, GradAccumulator, Parameter, PooledPacked, Prepacked, WithBias, int8};
use super::{Cpu, with_values};

/// The values of a matrix `[out, in]`.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    values: Values<'a>,
    out: usize,
    inner: usize,
}

#[derive(Clone, Copy)]
enum Values<'a> {
    Floats(&'a [f32]),
    /// Products with them round what they are multiplied by, as torch's autocast does; sums are in f32.
    Halves(&'a [bf16]),
    Blocks(Blocks<'a>),
}

impl<'a> Weight<'a> {
    /// Row after row.
    pub(super) fn floats(values: &'a [f32], out: usize, inner: usize) -> Self {
        Self { values: Values::Floats(values), out, inner }
    }

    /// Rows there are, and values of each.
    pub(super) fn dims(&self) -> (usize, usize) {
        (self.out, self.inner)
    }

    /// The matrix of some rows, a view.
    pub(super) fn rows(self, rows: Range<usize>) -> Self {
        let values = match self.values {
            Values::Floats(values) => {
                Values::Floats(&values[rows.start * self.inner..rows.end * self.inner])
            }
            Values::Halves(values) => {
                Values::Halves(&values[rows.start * self.inner..rows.end * self.inner])
            }
            Values::Blocks(blocks) => Values::Blocks(blocks.rows(rows.clone())),
        };
        Self { values, out: rows.len(), ..self }
    }

    /// As an operand `[out, in]`.
    pub(super) fn plain(self) -> Right<'a> {
        match self.values {
            Values::Floats(values) => Right::Plain(Matrix::new(values, self.out, self.inner)),
            Values::Halves(values) => Right::Half(Matrix::new(values, self.out, self.inner)),
            Values::Blocks(blocks) => Right::Blocks(blocks),
        }
    }

    /// Activations as the right operand of the product that is this weight's gradient, rounded where the weight is.
    pub(super) fn activations(self, values: Matrix<'a>) -> Right<'a> {
        right_like(matches!(self.values, Values::Halves(_)), values)
    }

    /// As an operand `[in, out]`.
    pub(super) fn transposed(self) -> Right<'a> {
        match self.plain() {
            Right::Plain(matrix) => Right::Plain(matrix.transposed()),
            Right::Half(matrix) => Right::Half(matrix.transposed()),
            Right::Blocks(blocks) => Right::Blocks(blocks.transposed()),
            Right::Packed(_) | Right::Quantized(_) | Right::Rounded(_) => {
                unreachable!("it is as it is stored")
            }
        }
    }

    pub(super) fn read(&self, row: usize, out: &mut [f32]) {
        match self.values {
            Values::Floats(values) => {
                out.copy_from_slice(&values[row * self.inner..][..self.inner]);
            }
            Values::Halves(values) => {
                let values = &values[row * self.inner..][..self.inner];
                out.iter_mut().zip(values).for_each(|(out, x)| *out = x.to_f32());
            }
            Values::Blocks(blocks) => blocks.widen(row, 0, out),
        }
    }
}

/// Calls `read` with the values of a matrix on the CPU.
pub(super) fn with_weight<R>(
    weight: &Parameter,
    read: impl FnOnce(Weight<'_>) -> Result<R>,
) -> Result<R> {
    let (out, inner) = weight.dims2()?;
    if weight.values.elem_count() == 0 {
        bail!("of `{}` the copy for sampling alone is kept", weight.name);
    }
    let values = weight.used()?;
    if values.dtype() == DType::F32 {
        return with_values(&values, |values| read(Weight::floats(values, out, inner)));
    }
    let (storage, layout) = values.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::BF16(values)), Some((start, end))) => {
            read(Weight { values: Values::Halves(&values[start..end]), out, inner })
        }
        (Storage::Cpu(CpuStorage::U8(bytes)), Some((start, end))) => {
            let blocks = Blocks::new(&bytes[start..end], out, inner);
            read(Weight { values: Values::Blocks(blocks), out, inner })
        }
        _ => bail!(
            "`{}` of {:?} is not in one piece on the CPU, or of no type that its products read",
            weight.name,
            values.dtype()
        ),
    }
}

/// Values as a right operand, rounded to bfloat16 where `is_half`.
fn right_like(is_half: bool, values: Matrix<'_>) -> Right<'_> {
    if is_half { Right::Rounded(values) } else { Right::Plain(values) }
}

/// Calls `work` with the operands `[in, out]` of the weights, after `operands`.
fn with_operands<'a>(
    weights: &[&'a Parameter],
    mut operands: Vec<Right<'a>>,
    work: impl FnOnce(Vec<Right<'_>>),
) -> Result<()> {
    // A view of a weight lives inside the call that reads its storage: calls nest, one a weight, and the last
    // multiplies.
    let Some((weight, rest)) = weights.split_first() else {
        work(operands);
        return Ok(());
    };
    match &weight.prepacked {
        Some(Prepacked::Cpu(packed)) => operands.push(Right::Packed(packed.packed())),
        Some(Prepacked::Int8(quantized)) => operands.push(Right::Quantized(quantized)),
        _ => {
            return with_weight(weight, |weight| {
                let mut operands: Vec<Right<'_>> = operands;
                operands.push(weight.transposed());
                with_operands(rest, operands, work)
            });
        }
    }
    with_operands(rest, operands, work)
}

impl Cpu {
    /// Writes `x W^T` of each weight to its values, or adds it where that is said.
    pub(super) fn products(
        &self,
        x: &[f32],
        parts: Vec<(&Parameter, &mut [f32], bool)>,
    ) -> Result<()> {
        let Some((first, ..)) = parts.first() else { return Ok(()) };
        let inner = first.dims2()?.1;
        let rows = x.len() / inner;
        let left = Matrix::new(x, rows, inner);
        let weights: Vec<&Parameter> = parts.iter().map(|(weight, ..)| *weight).collect();
        with_operands(&weights, Vec::new(), |rights| {
            let products = rights.into_iter().zip(parts).map(|(right, (_, data, adds))| {
                let stride = data.len() / rows.max(1);
                (right, Output { data, stride, adds })
            });
            multiply_each(left, products, self.is_parallel);
        })
    }

    /// `x W^T + b` for each weight and its bias.
    pub(super) fn affine(&self, x: &[f32], weights: &[WithBias<'_>]) -> Result<Vec<Buffer>> {
        let output_buffer = |(weight, bias): &WithBias<'_>| {
            let (width, inner) = weight.dims2()?;
            let mut out = self.pool.take(x.len() / inner * width);
            if let Some(bias) = bias {
                with_values(&bias.values, |bias| {
                    // The product is added to rows that hold the bias: one pass over memory less.
                    out.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(bias));
                    Ok(())
                })?;
            }
            Ok(out)
        };
        let mut all: Vec<Buffer> = weights.iter().map(output_buffer).collect::<Result<_>>()?;
        let parts = weights.iter().zip(&mut all);
        let parts = parts.map(|((weight, bias), out)| (*weight, &mut **out, bias.is_some()));
        self.products(x, parts.collect())?;
        Ok(all)
    }

    /// Logits `[N, V]` of hidden states.
    pub(crate) fn pooled_logits(&self, hidden: &Tensor, head: &Parameter) -> Result<Buffer> {
        let (vocabulary, inner) = head.dims2()?;
        let mut out = self.pool.take_matrix(hidden.elem_count() / inner, vocabulary);
        with_values(hidden, |hidden| self.products(hidden, vec![(head, &mut out, false)]))?;
        Ok(out)
    }

    /// Adds `grad^T x` to a weight's gradient, and the sums of `grad` to its bias's.
    pub(super) fn add_weight_gradient(
        &self,
        [x, grad]: [&[f32]; 2],
        weight: &Parameter,
        bias: Option<&Parameter>,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let (width, inner) = weight.dims2()?;
        let rows = x.len() / inner;
        // y = x W^T + b: dW = dy^T x, db = the sum of dy over rows.
        let left = Matrix::new(grad, rows, width).transposed();
        let data = grads.on_cpu(weight, &self.pool);
        let right = right_like(weight.values.dtype() == DType::BF16, Matrix::new(x, rows, inner));
        multiply(left, right, Output { data, stride: inner, adds: true }, true);
        let Some(bias) = bias else { return Ok(()) };
        let sums = grads.on_cpu(bias, &self.pool);
        vectorized(
            #[inline(always)]
            || {
                for row in grad.chunks_exact(width) {
                    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                }
            },
        );
        Ok(())
    }

    /// A weight with a copy of it in the order in which products read, in bfloat16 where that is said or the weight is.
    pub(super) fn packed(&self, weight: &Parameter, in_half: bool) -> Result<Parameter> {
        if weight.prepacked.is_some() || int8::is_int8(&weight.values) {
            // It is there, or would be four times the weight's size.
            return Ok(weight.clone());
        }
        // The gradient of a trained weight uses the same memory in turn: it is taken in the gradient's size.
        let (width, inner) = weight.dims2()?;
        let gradient = if weight.is_trained { width * inner } else { 0 };
        let packed = with_weight(weight, |weight| {
            let right = match weight.transposed() {
                Right::Plain(values) => right_like(in_half, values),
                half => half,
            };
            Ok(Packed::within(right, |count| {
                let mut values = self.pool.take_fixed(count.max(gradient));
                values.truncate(count);
                values
            }))
        })?;
        let packed = PooledPacked::new(packed, self.pool.clone());
        Ok(Parameter { prepacked: Some(Prepacked::Cpu(Arc::new(packed))), ..weight.clone() })
    }
}

/// `left` `[m, k]` times `right` `[k, n]`, the same bits on every processor; Candle's product depends on the processor.
pub(crate) fn matrix_product(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let ((m, k), (inner, n)) = (left.dims2()?, right.dims2()?);
    if k != inner {
        bail!("{m} x {k} times {inner} x {n}");
    }
    let values = with_values(left, |left| {
        with_values(right, |right| {
            Ok(product(Matrix::new(left, m, k), Right::Plain(Matrix::new(right, k, n))))
        })
    })?;
    Tensor::from_vec(values, (m, n), left.device())
}

/// A weight with a copy of it in 8 bits.
pub(super) fn quantized(weight: &Parameter) -> Result<Parameter> {
    if matches!(weight.prepacked, Some(Prepacked::Int8(_))) {
        return Ok(weight.clone());
    }
    let quantized = with_weight(weight, |weight| Ok(Quantized::new(weight.transposed())))?;
    Ok(Parameter { prepacked: Some(Prepacked::Int8(Arc::new(quantized))), ..weight.clone() })
}

/// Adds a bias to every row of `x`.
pub(super) fn add_bias(bias: &Parameter, x: &mut [f32]) -> Result<()> {
    with_values(&bias.values, |bias| {
        for row in x.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
        Ok(())
    })
}
