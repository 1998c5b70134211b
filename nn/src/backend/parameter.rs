//! A weight of a model: its name, its values, whether it is trained, and perhaps a copy for fast products.

use std::sync::Arc;

use candle_core::Tensor;
use tealight_matmul::{Packed, Quantized};

use super::Pool;

/// A weight, by the name that checkpoints know it by.
#[derive(Debug, Clone)]
pub struct Parameter {
    pub(crate) name: Arc<str>,
    /// A matrix is `[out, in]`, or in blocks of 8 bits ([`super::int8`]) where it is frozen. Shares its storage with
    /// what an optimizer writes. Empty where the copy for products alone is kept.
    pub(crate) values: Tensor,
    pub(crate) is_trained: bool,
    /// How many rows of the values are used, where not all are.
    pub(crate) rows: Option<usize>,
    /// The values as they were when this was made, in the order in which products read them.
    pub(crate) prepacked: Option<Prepacked>,
}

/// A copy of a weight for products.
#[derive(Debug, Clone)]
pub enum Prepacked {
    /// On the CPU, for our products.
    Cpu(Arc<PooledPacked>),
    /// The same in 8 bits.
    Int8(Arc<Quantized>),
    /// On a GPU, in f32.
    Gpu(Tensor),
}

/// A packed weight, whose memory goes back where it came from.
#[derive(Debug)]
pub struct PooledPacked {
    packed: Option<Packed>,
    pool: Arc<Pool>,
}

impl PooledPacked {
    pub(crate) fn new(packed: Packed, pool: Arc<Pool>) -> Self {
        Self { packed: Some(packed), pool }
    }

    pub(crate) fn packed(&self) -> &Packed {
        self.packed.as_ref().expect("there until it is dropped")
    }
}

impl Drop for PooledPacked {
    fn drop(&mut self) {
        if let Some(packed) = self.packed.take() {
            self.pool.give_fixed(packed.into_values());
        }
    }
}

impl Parameter {
    /// A parameter that is not trained.
    pub fn constant(name: &str, values: Tensor) -> Self {
        Self { name: name.into(), values, is_trained: false, rows: None, prepacked: None }
    }

    /// A weight that is trained.
    pub(crate) fn trained(name: &str, values: Tensor) -> Self {
        Self { is_trained: true, ..Self::constant(name, values) }
    }

    /// The same of which the first `rows` rows alone are used. Its gradient has the shape of all values.
    pub(crate) fn first_rows(&self, rows: usize) -> candle_core::Result<Self> {
        let (out, _) = self.dims2()?;
        Ok(Self { rows: (rows < out).then_some(rows), ..self.clone() })
    }

    /// The values that are used: a view.
    pub(crate) fn used(&self) -> candle_core::Result<Tensor> {
        self.used_of(&self.values)
    }

    /// The rows of a tensor of the values' shape that belong to those that are used: a view.
    pub(crate) fn used_of(&self, all: &Tensor) -> candle_core::Result<Tensor> {
        match self.rows {
            None => Ok(all.clone()),
            Some(rows) => all.narrow(0, 0, rows),
        }
    }

    /// `[out, in]` of what is used.
    pub(crate) fn dims2(&self) -> candle_core::Result<(usize, usize)> {
        let (inner, out) = match &self.prepacked {
            Some(Prepacked::Cpu(packed)) => packed.packed().sizes(),
            Some(Prepacked::Int8(quantized)) => quantized.sizes(),
            _ => {
                let (out, inner) = super::int8::dims2(&self.values)?;
                return Ok((self.rows.unwrap_or(out), inner));
            }
        };
        Ok((out, inner))
    }

    /// The same without its values, where there is a copy for products that stands in for them.
    pub(crate) fn packed_alone(self) -> candle_core::Result<Self> {
        match self.prepacked {
            Some(Prepacked::Cpu(_) | Prepacked::Int8(_)) => {
                let values = Tensor::zeros(0, self.values.dtype(), self.values.device())?;
                Ok(Self { values, ..self })
            }
            _ => Ok(self),
        }
    }

    /// Bytes of the copy for products on the CPU, where there is one.
    pub(crate) fn prepacked_bytes(&self) -> Option<usize> {
        match &self.prepacked {
            Some(Prepacked::Cpu(packed)) => Some(packed.packed().bytes()),
            Some(Prepacked::Int8(quantized)) => Some(quantized.bytes()),
            _ => None,
        }
    }
}
