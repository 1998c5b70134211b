//! Products with weights.

use candle_core::Result;
use tealight_matmul::{Matrix, Output, Right, multiply};

use super::super::{Parameter, Prepacked};
use super::{Cpu, with_values};

impl Cpu {
    /// Writes `x W^T` to `out`, or adds it.
    pub(super) fn product(
        &self,
        x: &[f32],
        weight: &Parameter,
        out: &mut [f32],
        adds: bool,
    ) -> Result<()> {
        let (width, inner) = weight.dims2()?;
        let left = Matrix::new(x, x.len() / inner, inner);
        let out = Output { data: out, stride: width, adds };
        match &weight.prepacked {
            Some(Prepacked::Cpu(packed)) => {
                multiply(left, Right::Packed(packed.packed()), out, self.is_parallel);
                Ok(())
            }
            _ => with_values(&weight.values, |weight| {
                let weight = Matrix::new(weight, width, inner).transposed();
                multiply(left, Right::Plain(weight), out, self.is_parallel);
                Ok(())
            }),
        }
    }
}
