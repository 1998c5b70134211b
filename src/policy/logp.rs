//! Log-probabilities of tokens from hidden states, in chunks, forward and backward.

use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, D, DType, Layout, MetalStorage, Result, Shape, Storage,
    Tensor, bail,
};

use super::chunks;
use crate::kernels::cpu::logp::{LogpEntropy, LogpGradient};
use crate::kernels::product::{self, Precision};

/// Log-probability `[N]` of `targets` `[N]` and entropy `[N]` under `softmax(hidden weight^T /
/// temperature)`, without ever holding the logits `[N, V]`: they are computed in chunks, and again
/// in the backward pass.
pub(super) fn linear_logp(
    hidden: &Tensor,
    weight: &Tensor,
    targets: &Tensor,
    temperature: f64,
    precision: Precision,
) -> Result<(Tensor, Tensor)> {
    let (constant, constant_weight) = (hidden.detach(), weight.detach());
    let mut parts = Vec::new();
    for (start, length) in chunks(hidden.dim(0)?, weight.dim(0)?) {
        let part = constant.narrow(0, start, length)?;
        let logits = product::linear(&part, &constant_weight, precision)?;
        parts.push(logp_entropy(&logits, &targets.narrow(0, start, length)?, temperature)?);
    }
    let both = Tensor::cat(&parts, 0)?;
    let (logp, entropy) = (both.narrow(1, 0, 1)?.squeeze(1)?, both.narrow(1, 1, 1)?.squeeze(1)?);
    let (logp, entropy) = (logp.contiguous()?, entropy.contiguous()?);
    if hidden.track_op() || weight.track_op() {
        let op = LinearLogp { result: logp, temperature, precision };
        return Ok((hidden.apply_op3(weight, targets, op)?, entropy));
    }
    Ok((logp, entropy))
}

/// `[N, 2]`: log-probability of the targets and entropy, f32.
fn logp_entropy(logits: &Tensor, targets: &Tensor, temperature: f64) -> Result<Tensor> {
    let logits = logits.to_dtype(DType::F32)?;
    if logits.device().is_cpu() {
        let kernel = LogpEntropy { temperature: temperature as f32 };
        return logits.apply_op2_no_bwd(targets, &kernel);
    }
    let all = candle_nn::ops::log_softmax(&(logits / temperature)?, D::Minus1)?;
    let logp = all.gather(&targets.unsqueeze(1)?, 1)?;
    let entropy = (all.exp()? * all)?.sum_keepdim(1)?.neg()?;
    Tensor::cat(&[logp, entropy], 1)
}

/// `[N, V]`: the gradient of the logits for the gradient `[N]` of the log-probabilities.
fn logp_gradient(
    logits: &Tensor,
    targets: &Tensor,
    grad: &Tensor,
    temperature: f64,
) -> Result<Tensor> {
    let wide = logits.to_dtype(DType::F32)?;
    let out = if wide.device().is_cpu() {
        let kernel = LogpGradient { temperature: temperature as f32 };
        wide.apply_op3_no_bwd(targets, grad, &kernel)?
    } else {
        let scaled = (grad.unsqueeze(1)? / temperature)?;
        let spread = candle_nn::ops::softmax(&(wide / temperature)?, D::Minus1)?;
        let spread = spread.broadcast_mul(&scaled.neg()?)?;
        spread.scatter_add(&targets.unsqueeze(1)?, &scaled, 1)?
    };
    out.to_dtype(logits.dtype())
}

/// Gives the log-probabilities, computed beforehand, their gradient with respect to the hidden
/// states `[N, D]` and the weight `[V, D]`.
struct LinearLogp {
    result: Tensor,
    temperature: f64,
    precision: Precision,
}

impl LinearLogp {
    fn storage<S>(&self, pick: impl FnOnce(&Storage, &Layout) -> Result<S>) -> Result<(S, Shape)> {
        let (storage, layout) = self.result.storage_and_layout();
        Ok((pick(&storage, layout)?, self.result.shape().clone()))
    }
}

impl CustomOp3 for LinearLogp {
    fn name(&self) -> &'static str {
        "linear-logp"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.storage(|storage, _| match storage {
            Storage::Cpu(storage) => Ok(storage.clone()),
            _ => bail!("log-probabilities are not on the CPU"),
        })
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Cuda(storage) => Ok(storage),
            _ => bail!("log-probabilities are not on the CUDA device"),
        })
    }

    fn metal_fwd(
        &self,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        self.storage(|storage, layout| match storage.try_clone(layout)? {
            Storage::Metal(storage) => Ok(storage),
            _ => bail!("log-probabilities are not on the Metal device"),
        })
    }

    fn bwd(
        &self,
        hidden: &Tensor,
        weight: &Tensor,
        targets: &Tensor,
        _logp: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (hidden, weight) = (hidden.detach(), weight.detach());
        let grad = grad.contiguous()?;
        let mut d_hidden = Vec::new();
        let mut d_weight: Option<Tensor> = None;
        for (start, length) in chunks(hidden.dim(0)?, weight.dim(0)?) {
            let part = hidden.narrow(0, start, length)?;
            let targets = targets.narrow(0, start, length)?;
            let logits = product::linear(&part, &weight, self.precision)?;
            let grad = grad.narrow(0, start, length)?;
            let d_logits = logp_gradient(&logits, &targets, &grad, self.temperature)?;
            d_hidden.push(product::times(&d_logits, &weight, self.precision)?);
            let share = product::transposed_times(&d_logits, &part, self.precision)?;
            d_weight = Some(match d_weight {
                None => share,
                Some(sum) => (sum + share)?,
            });
        }
        Ok((Some(Tensor::cat(&d_hidden, 0)?), d_weight, None))
    }
}
