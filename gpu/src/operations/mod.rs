//! The kernels by Candle's own operations: slow, independent of our kernels' text, and on any device that Candle has.
//!
//! A launch is computed from its name, tensors and numbers as `kernels/*.c` says of each kernel. Sums are in f32 and in
//! the order of Candle, so results agree with the kernels to rounding. Tables of numbers and samples
//! tokens are read on the CPU.

mod attention;
mod convolution;
mod delta;
mod layers;
mod sampling;
mod single;

use candle_core::{DType, Device, Result, Tensor, bail};

use crate::Call;

/// Computes what the kernel of that name would.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let Some((name, _)) = call.name.rsplit_once('_') else { bail!("no kernel {}", call.name) };
    let work = match name {
        "add_norm" => layers::add_norm,
        "add" => layers::add,
        "add_bias" => layers::add_bias,
        "add_biases" => layers::add_biases,
        "rope" => layers::rope,
        "rope_store" => layers::rope_store,
        "gated" => layers::gated,
        "gated_back" => layers::gated_back,
        "store_rows" => layers::store_rows,
        "pick_rows" => layers::pick_rows,
        "columns" => layers::columns,
        "norm_inputs" => layers::norm_inputs,
        "norm_weights" => layers::norm_weights,
        "column_sums" => layers::column_sums,
        "sum_parts" => layers::sum_parts,
        "embedding_back" => layers::embedding_back,
        "attention" => attention::forward,
        "attention_queries" => attention::queries,
        "attention_keys" => attention::keys,
        "convolution" => convolution::forward,
        "convolution_past" => convolution::past,
        "convolution_slopes" => convolution::slopes,
        "convolution_inputs" => convolution::inputs,
        "convolution_weights" => convolution::weights,
        "delta_unit" => delta::unit,
        "delta_rule" => delta::rule,
        "delta_back" => delta::back,
        "delta_inputs" => delta::inputs,
        "add_to" | "narrow" => single::add_or_narrow,
        "logits_grad" => single::logits_grad,
        "logp" => single::logp,
        "sample" => sampling::sample,
        "adamw" => single::adamw,
        "squares" => single::squares,
        _ => bail!("{name}: Candle's operations do not know this kernel"),
    };
    work(call)
}

impl Call<'_> {
    /// The `index`th number.
    fn n(&self, index: usize) -> usize {
        self.params.n[index].max(0) as usize
    }

    fn f(&self, index: usize) -> f64 {
        f64::from(self.params.f[index])
    }

    fn device(&self) -> &Device {
        self.tensors[0].device()
    }

    /// The `index`th tensor in f32, flat.
    fn wide(&self, index: usize) -> Result<Tensor> {
        self.tensors[index].flatten_all()?.to_dtype(DType::F32)
    }

    /// The same as rows of `width` values.
    fn rows(&self, index: usize, width: usize) -> Result<Tensor> {
        self.wide(index)?.reshape(((), width))
    }

    /// The numbers of a table.
    fn table(&self, index: usize) -> Result<Vec<i32>> {
        let bits = self.tensors[index].flatten_all()?.to_vec1::<u32>()?;
        Ok(bits.into_iter().map(|bits| bits as i32).collect())
    }

    /// Writes the `index`th tensor, from value `first` on.
    fn put_from(&self, index: usize, first: usize, values: &Tensor) -> Result<()> {
        let to = self.tensors[index].flatten_all()?;
        let values = values.flatten_all()?.to_dtype(to.dtype())?.contiguous()?;
        to.slice_set(&values, 0, first)
    }

    fn put(&self, index: usize, values: &Tensor) -> Result<()> {
        self.put_from(index, 0, values)
    }
}

/// Numbers as an index on `device`.
fn index(values: Vec<u32>, device: &Device) -> Result<Tensor> {
    let count = values.len();
    Tensor::from_vec(values, count, device)
}

/// `1 / (1 + exp(-x))`.
fn sigmoid(x: &Tensor) -> Result<Tensor> {
    (x.neg()?.exp()? + 1.0)?.recip()
}

/// `log(1 + exp(x))`.
fn softplus(x: &Tensor) -> Result<Tensor> {
    // Where exp(x) is lost beside 1 it is the result.
    let small = x.abs()?.neg()?.exp()?;
    let log = (&small + 1.0)?.log()?;
    let series = (&small - (small.sqr()? * 0.5)?)?;
    x.relu()? + small.lt(1e-3)?.where_cond(&series, &log)?
}

/// `x` `[N, width]` with rows of zeros up to a multiple of `part`, summed over every `part` rows.
fn sums_of_parts(x: &Tensor, part: usize) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let parts = rows.div_ceil(part);
    let padded = x.pad_with_zeros(0, 0, parts * part - rows)?;
    padded.reshape((parts, part, width))?.sum(1)
}
