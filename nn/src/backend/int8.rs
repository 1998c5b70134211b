//! Frozen matrices of 8 bits: blocks of 32 values along a row with one scale, as GGUF's Q8_0.
//!
//! A matrix `[out, in]` is a tensor of bytes `[out, in / 32 * 34]`; what it stands for is `scale * byte` in f32, and
//! that is what products, lookups and gradients compute with.

use candle_core::quantized::{GgmlDType, QTensor, ggml_file::qtensor_from_ggml};
use candle_core::{DType, Device, Result, Tensor};
use tealight_matmul::{self as matmul, Quantized};

/// Values of a block.
pub const BLOCK: u64 = matmul::BLOCK as u64;
/// Bytes of a block: a scale in f16 and a signed byte for each value.
pub const BLOCK_BYTES: u64 = matmul::BLOCK_BYTES as u64;

/// Whether a weight of this shape can be in blocks: a matrix whose rows are whole blocks.
pub fn fits(shape: &[usize]) -> bool {
    matches!(shape, [_, inner] if inner.is_multiple_of(matmul::BLOCK))
}

/// Bytes of the copy of a matrix `[out, in]` that rollouts in 8 bits read; 0 for other weights.
pub fn rollout_bytes(shape: &[usize]) -> u64 {
    match shape {
        [out, inner] => Quantized::bytes_for((*inner, *out)) as u64,
        _ => 0,
    }
}

/// Whether a weight is in blocks.
pub(crate) fn is_int8(weight: &Tensor) -> bool {
    weight.dtype() == DType::U8
}

/// The sizes `(out, in)` of the matrix that a tensor stands for.
pub(crate) fn dims2(weight: &Tensor) -> Result<(usize, usize)> {
    let (out, inner) = weight.dims2()?;
    Ok((out, if is_int8(weight) { inner / matmul::BLOCK_BYTES * matmul::BLOCK } else { inner }))
}

/// Rounds a matrix that [`fits`] to blocks: the scale of a block is its largest absolute value over 127, in f16.
pub(crate) fn narrowed(weight: &Tensor) -> Result<Tensor> {
    let blocks = QTensor::quantize(&weight.to_dtype(DType::F32)?, GgmlDType::Q8_0)?;
    of_bytes(&blocks.data()?, weight.dims2()?)
}

/// Blocks as they stand in a GGUF file.
pub fn of_bytes(bytes: &[u8], (out, inner): (usize, usize)) -> Result<Tensor> {
    Tensor::from_slice(bytes, (out, inner / matmul::BLOCK * matmul::BLOCK_BYTES), &Device::Cpu)
}

/// A weight in f32 where it is in blocks, else as it is.
pub fn widened(weight: &Tensor) -> Result<Tensor> {
    if !is_int8(weight) {
        return Ok(weight.clone());
    }
    let (out, inner) = dims2(weight)?;
    let bytes = weight.flatten_all()?.to_vec1::<u8>()?;
    let blocks = qtensor_from_ggml(GgmlDType::Q8_0, &bytes, vec![out, inner], &Device::Cpu)?;
    blocks.dequantize(&Device::Cpu)
}
