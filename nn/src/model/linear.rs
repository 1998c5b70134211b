//! Projections: a weight, perhaps a bias, perhaps an adapter; and several that read the same.

use candle_core::Result;

use super::lora::LowRank;
use crate::backend::{Backend, GradAccumulator, Parameter, RolloutDtype};

/// `x W^T + b`, and what an adapter adds.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    pub(super) weight: Parameter,
    pub(super) bias: Option<Parameter>,
    /// The adapter on the weight, trained in its place.
    pub(super) adapter: Option<LowRank>,
}

impl Linear {
    /// `x` `[N, in]` to `[N, out]`.
    pub(super) fn forward<B: Backend>(&self, backend: &B, x: &B::Array) -> Result<B::Array> {
        let [out] = of_each(backend, std::array::from_ref(self), x)?;
        Ok(out)
    }

    /// Adds the same to the residual stream.
    pub(super) fn forward_residual<B: Backend>(
        &self,
        backend: &B,
        x: &B::Array,
        stream: &mut B::Stream,
    ) -> Result<()> {
        backend.linear_residual(x, &self.weight, self.bias.as_ref(), stream)?;
        if let Some(adapter) = &self.adapter {
            let low = adapter.down(backend, x)?;
            backend.linear_residual(&low, &adapter.b, None, stream)?;
        }
        Ok(())
    }

    /// Adds the gradients of weight and bias, or of the adapter in their place, for the gradient `grad` `[N, out]`
    /// of the result.
    pub(super) fn weight_backward<B: Backend>(
        &self,
        backend: &B,
        x: &B::Array,
        grad: &B::Array,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        if let Some(adapter) = &self.adapter {
            adapter.weight_backward(backend, x, grad, grads)?;
        }
        if !self.weight.is_trained {
            return Ok(());
        }
        backend.weight_backward(x, grad, &self.weight, self.bias.as_ref(), grads)
    }

    /// The gradient of `x`, added to `to` where there is one.
    pub(super) fn input_backward<B: Backend>(
        &self,
        backend: &B,
        grad: &B::Array,
        to: Option<B::Array>,
    ) -> Result<B::Array> {
        // y = x W^T + s (x A^T) B^T: dx = dy W + s (dy B) A.
        let dx = backend.linear_backward(grad, &self.weight, to)?;
        match &self.adapter {
            None => Ok(dx),
            Some(adapter) => adapter.input_backward(backend, grad, dx),
        }
    }

    /// The same projection with a copy of its weights that products read fastest; an adapter's keep their type.
    pub(super) fn prepacked<B: Backend>(
        &self,
        backend: &B,
        dtype: Option<RolloutDtype>,
    ) -> Result<Self> {
        let of_adapter = |matrix: &Parameter| backend.prepack_adapter(matrix, &self.weight);
        let packed = |adapter: &LowRank| adapter.prepacked(of_adapter);
        let adapter = self.adapter.as_ref().map(packed).transpose()?;
        let weight = backend.prepack(&self.weight, dtype)?;
        Ok(Self { weight, bias: self.bias.clone(), adapter })
    }
}

/// Projections of the same values: one matrix each, or one for all.
#[derive(Debug, Clone)]
pub(super) enum Joined<const N: usize> {
    Separate([Linear; N]),
    Fused {
        linear: Box<Linear>,
        /// Rows of the matrix that are each projection's.
        widths: [usize; N],
    },
}

impl<const N: usize> Joined<N> {
    /// Of so many `widths`, from matrices of these names: one each, or one for all.
    pub(super) fn new(
        names: &[&str],
        widths: [usize; N],
        linear: &mut impl FnMut(&str) -> Result<Linear>,
    ) -> Result<Self> {
        match <&[&str; N]>::try_from(names) {
            Ok(names) => Ok(Self::Separate(each(names, |name| linear(name))?)),
            Err(_) => Ok(Self::Fused { linear: Box::new(linear(names[0])?), widths }),
        }
    }

    /// `x` `[N, in]` to each projection of it.
    pub(super) fn forward<B: Backend>(&self, backend: &B, x: &B::Array) -> Result<[B::Array; N]> {
        match self {
            Self::Separate(linears) => of_each(backend, linears, x),
            Self::Fused { linear, widths } => {
                let all = linear.forward(backend, x)?;
                let total = widths.iter().sum();
                let mut at = 0;
                each(widths, |width| {
                    let columns = at..at + width;
                    at += width;
                    backend.columns(&all, total, columns)
                })
            }
        }
    }

    /// Adds the gradients of the weights for those of the results; returns that of `x`.
    pub(super) fn backward<B: Backend>(
        &self,
        backend: &B,
        x: B::Array,
        results: [B::Array; N],
        grads: &mut GradAccumulator,
    ) -> Result<B::Array> {
        let mut dx = None;
        match self {
            Self::Separate(linears) => {
                for (linear, grad) in linears.iter().zip(&results) {
                    linear.weight_backward(backend, &x, grad, grads)?;
                }
                drop(x);
                for (linear, grad) in linears.iter().zip(results) {
                    dx = Some(linear.input_backward(backend, &grad, dx)?);
                }
            }
            Self::Fused { linear, widths } => {
                let grad = backend.joined(&results.each_ref(), widths)?;
                drop(results);
                linear.weight_backward(backend, &x, &grad, grads)?;
                drop(x);
                dx = Some(linear.input_backward(backend, &grad, None)?);
            }
        }
        Ok(dx.expect("one projection at least"))
    }

    pub(super) fn linears(&self) -> &[Linear] {
        match self {
            Self::Separate(linears) => linears,
            Self::Fused { linear, .. } => std::slice::from_ref(linear),
        }
    }

    pub(super) fn linears_mut(&mut self) -> &mut [Linear] {
        match self {
            Self::Separate(linears) => linears,
            Self::Fused { linear, .. } => std::slice::from_mut(linear),
        }
    }
}

/// `x` `[N, in]` through every projection.
fn of_each<B: Backend, const N: usize>(
    backend: &B,
    linears: &[Linear; N],
    x: &B::Array,
) -> Result<[B::Array; N]> {
    let weights = linears.each_ref().map(|linear| (&linear.weight, linear.bias.as_ref()));
    let mut all = backend.linears(x, &weights)?;
    for (linear, out) in linears.iter().zip(&mut all) {
        if let Some(adapter) = &linear.adapter {
            let low = adapter.down(backend, x)?;
            backend.linear_add(&low, &adapter.b, out)?;
        }
    }
    Ok(exactly(all))
}

fn each<T, R, const N: usize>(items: &[T; N], work: impl FnMut(&T) -> Result<R>) -> Result<[R; N]> {
    Ok(exactly(items.iter().map(work).collect::<Result<_>>()?))
}

fn exactly<R, const N: usize>(all: Vec<R>) -> [R; N] {
    match all.try_into() {
        Ok(all) => all,
        Err(_) => unreachable!("as many results as items"),
    }
}
