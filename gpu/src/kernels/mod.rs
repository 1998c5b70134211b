//! A function for each kernel. Outputs are tensors that are written in place; every one must be contiguous, and
//! as large as is said here, which is checked.
//!
//! N tokens, H query heads, K key-value heads, D values a head, V vocabulary. Activations are f32 or bf16, sums and
//! log-probabilities f32, numbers of tokens u32.

mod attention;
mod convolution;
mod copies;
mod delta;
mod gradients;
mod logits;
mod optimizer;
mod positions;
mod sampling;

use candle_core::{DType, Result, Tensor, bail};

pub(crate) use attention::MMA_DIMS;
pub use attention::{Heads, Run, Runs, attention, attention_back};
pub use convolution::{Taps, convolution, convolution_back};
pub use copies::{columns, joined, scaled};
pub use delta::{Delta, DeltaRun, MAX_STATE, delta_back, delta_rule};
pub use gradients::{add_to, column_sums, embedding_back, gated_back, narrow, norm_back};
pub use logits::{RowSums, logits_grad, logp};
pub use optimizer::{AdamW, SQUARES, adamw, squares};
pub use positions::{pick_rows, rope, rope_store, store_rows};
pub use sampling::{SampleArgs, sample};

use crate::sizes::ELEMENTS;
use crate::workspace::{Array, Operand, new_empty};
use crate::{Call, Params};

fn suffix(tensor: &Tensor) -> Result<&'static str> {
    match tensor.dtype() {
        DType::F32 => Ok("_f32"),
        DType::BF16 => Ok("_bf16"),
        other => bail!("kernels know float32 and bfloat16, not {other:?}"),
    }
}

/// Launches a kernel whose name ends with the type of `typed_by`; without one it knows f32 alone.
fn launch(
    name: &str,
    typed_by: Option<&Tensor>,
    groups: usize,
    tensors: &[&Tensor],
    ints: &[usize],
    floats: &[f64],
) -> Result<()> {
    let mut params = Params::default();
    for (place, value) in params.n.iter_mut().zip(ints) {
        let Ok(value) = i32::try_from(*value) else {
            bail!("{name}: {value} values are too many for one launch; use smaller micro-batches")
        };
        *place = value;
    }
    params.f.iter_mut().zip(floats).for_each(|(place, value)| *place = *value as f32);
    let name = format!("{name}{}", typed_by.map(suffix).transpose()?.unwrap_or("_f32"));
    Call { name, groups, tensors, params }.run()
}

/// Refuses a tensor of another type or another number of values.
fn expect(tensor: &Tensor, dtype: DType, count: usize, what: &str) -> Result<()> {
    if tensor.dtype() != dtype || tensor.elem_count() != count {
        bail!(
            "{what}: {:?} of {:?} where {count} of {dtype:?} are needed",
            tensor.shape(),
            tensor.dtype()
        );
    }
    Ok(())
}

/// The number of rows of `width` values that `x` has.
fn rows(x: &Tensor, width: usize, what: &str) -> Result<usize> {
    if width == 0 || !x.elem_count().is_multiple_of(width) {
        bail!("{what}: {:?} is not rows of {width}", x.shape());
    }
    Ok(x.elem_count() / width)
}

/// The factor of a root-mean-square norm's rows: weight and offset.
#[derive(Debug, Clone, Copy)]
pub struct Gain<'a> {
    /// As wide as a row.
    pub weight: &'a Tensor,
    /// Added to the weight, in f32.
    pub offset: f64,
    /// Added to the mean square.
    pub eps: f64,
}

/// The root-mean-square norm of `x`, or of the sum of `x` and `more`, over rows as wide as the weight; before it the
/// sum, where there is `more`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn add_norm(
    x: &dyn Operand,
    more: Option<&dyn Operand>,
    Gain { weight, offset, eps }: Gain<'_>,
) -> Result<(Option<Array>, Array)> {
    let array = |x: &dyn Operand| new_empty(x, x.tensor().shape(), x.tensor().dtype());
    let (out, sum) = (array(x)?, more.map(|_| array(x)).transpose()?);
    let (x, more) = (x.tensor(), more.map(|more| more.tensor()));
    let width = weight.elem_count();
    let rows = rows(x, width, "add_norm")?;
    expect(weight, x.dtype(), width, "add_norm")?;
    if let Some(more) = more {
        expect(more, x.dtype(), x.elem_count(), "add_norm")?;
    }
    let stream = sum.as_ref().map_or(x, |sum| sum.tensor());
    let tensors = [x, more.unwrap_or(x), stream, weight, out.tensor()];
    let numbers = [width, usize::from(more.is_some())];
    launch("add_norm", Some(x), rows, &tensors, &numbers, &[eps, offset])?;
    Ok((sum, out))
}

/// Adds `y` to `x`.
pub fn add(x: &dyn Operand, y: &dyn Operand) -> Result<()> {
    let (x, y) = (x.tensor(), y.tensor());
    let count = x.elem_count();
    expect(y, x.dtype(), count, "add")?;
    launch("add", Some(x), count.div_ceil(ELEMENTS), &[x, y], &[count], &[])
}

/// Adds `bias` to every row of `x`.
pub fn add_bias(x: &dyn Operand, bias: &Tensor) -> Result<()> {
    let x = x.tensor();
    let width = bias.elem_count();
    expect(bias, x.dtype(), width, "add_bias")?;
    launch("add_bias", Some(x), rows(x, width, "add_bias")?, &[x, bias], &[width], &[])
}

/// The same of three tensors of as many rows, in one launch.
///
/// # Errors
/// Sizes that do not fit.
pub fn add_biases(pairs: [(&dyn Operand, &Tensor); 3]) -> Result<()> {
    let pairs = pairs.map(|(y, bias)| (y.tensor(), bias));
    let x = pairs[0].0;
    let count = rows(x, pairs[0].1.elem_count(), "add_biases")?;
    for (y, bias) in pairs {
        expect(bias, x.dtype(), bias.elem_count(), "add_biases")?;
        expect(y, x.dtype(), count * bias.elem_count(), "add_biases")?;
    }
    let tensors = pairs.iter().flat_map(|(y, bias)| [*y, *bias]).collect::<Vec<_>>();
    let widths = pairs.map(|(_, bias)| bias.elem_count());
    launch("add_biases", Some(x), count, &tensors, &widths, &[])
}

/// A gate's function: `x sigmoid(f(x))` with `f(x) = slope (x + cubic x^3)`, or `sigmoid(f(x))` alone.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// 1 for SiLU, `2 sqrt(2 / pi)` for GELU by the hyperbolic tangent.
    pub slope: f64,
    /// 0 for SiLU, 0.044715 for GELU.
    pub cubic: f64,
    /// Whether the sigmoid stands alone.
    pub alone: bool,
}

impl Gate {
    /// `x sigmoid(x)`.
    pub const SILU: Self = Self { slope: 1.0, cubic: 0.0, alone: false };
    /// GELU by the hyperbolic tangent, a gate like SiLU: `(1 + tanh(y)) / 2 = sigmoid(2 y)` with `y = sqrt(2 / pi) (x +
    /// 0.044715 x^3)`.
    pub const GELU_TANH: Self = Self { slope: 1.5957691216057308, cubic: 0.044_715, alone: false };
    /// `sigmoid(x)`.
    pub const SIGMOID: Self = Self { alone: true, ..Self::SILU };
    /// Every gate of a model family: what the self-check runs.
    pub const ALL: [Self; 3] = [Self::SILU, Self::GELU_TANH, Self::SIGMOID];

    fn numbers(self, count: usize) -> ([usize; 2], [f64; 2]) {
        ([count, usize::from(self.alone)], [self.slope, self.cubic])
    }
}

/// `up` times what `gate` passes through.
pub fn gated(gate: &dyn Operand, up: &dyn Operand, through: Gate) -> Result<Array> {
    let out = new_empty(gate, gate.tensor().shape(), gate.tensor().dtype())?;
    let (gate, up) = (gate.tensor(), up.tensor());
    let count = gate.elem_count();
    expect(up, gate.dtype(), count, "gated")?;
    let (ints, floats) = through.numbers(count);
    let tensors = [gate, up, out.tensor()];
    launch("gated", Some(gate), count.div_ceil(ELEMENTS), &tensors, &ints, &floats)?;
    Ok(out)
}
