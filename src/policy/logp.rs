//! Log-probabilities of tokens from hidden states, forward and backward.

use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, D, DType, Layout, MetalStorage, Result, Shape, Storage,
    Tensor, bail,
};

use super::chunks;
use crate::kernels::cpu::logp::{Head, Row};
use crate::kernels::cpu::with_values;
use crate::model::Decoder;

/// Log-probability `[N]` of `targets` `[N]` and entropy `[N]` under `softmax(hidden head^T /
/// temperature)`, without ever holding the logits `[N, V]`: they are computed in parts, and again in the
/// backward pass.
pub(super) fn linear_logp(
    hidden: &Tensor,
    decoder: &Decoder,
    targets: &Tensor,
    temperature: f64,
) -> Result<(Tensor, Tensor)> {
    let weight = decoder.head();
    let mut op =
        LinearLogp { result: targets.clone(), decoder: decoder.clone(), rows: vec![], temperature };
    let entropy;
    if op.is_on_host(hidden) {
        op.rows = op.with_head(hidden, weight, targets, |head| Ok(head.forward()))?;
        let inverse = op.inverse();
        let logp: Vec<f32> = op.rows.iter().map(|row| row.logp(inverse)).collect();
        op.result = Tensor::from_vec(logp, targets.shape(), hidden.device())?;
        let each: Vec<f32> = op.rows.iter().map(Row::entropy).collect();
        entropy = Tensor::from_vec(each, targets.shape(), hidden.device())?;
    } else {
        (op.result, entropy) = in_chunks(&hidden.detach(), &weight.detach(), targets, temperature)?;
    }
    if hidden.track_op() || weight.track_op() {
        return Ok((hidden.apply_op3(weight, targets, op)?, entropy));
    }
    Ok((op.result, entropy))
}

/// The same as a composition, without a gradient.
fn in_chunks(
    hidden: &Tensor,
    weight: &Tensor,
    targets: &Tensor,
    temperature: f64,
) -> Result<(Tensor, Tensor)> {
    let (mut logps, mut entropies) = (Vec::new(), Vec::new());
    for (start, length) in chunks(hidden.dim(0)?, weight.dim(0)?) {
        let logits = hidden.narrow(0, start, length)?.matmul(&weight.t()?)?.to_dtype(DType::F32)?;
        let all = candle_nn::ops::log_softmax(&(logits / temperature)?, D::Minus1)?;
        let targets = targets.narrow(0, start, length)?.unsqueeze(1)?;
        logps.push(all.gather(&targets, 1)?.squeeze(1)?);
        entropies.push((all.exp()? * all)?.sum(1)?.neg()?);
    }
    Ok((Tensor::cat(&logps, 0)?, Tensor::cat(&entropies, 0)?))
}

/// `[N, V]`: the gradient of the logits for the gradient `[N]` of the log-probabilities.
fn logp_gradient(
    logits: &Tensor,
    targets: &Tensor,
    grad: &Tensor,
    temperature: f64,
) -> Result<Tensor> {
    let scaled = (grad.unsqueeze(1)? / temperature)?;
    let wide = (logits.to_dtype(DType::F32)? / temperature)?;
    let spread = candle_nn::ops::softmax(&wide, D::Minus1)?.broadcast_mul(&scaled.neg()?)?;
    spread.scatter_add(&targets.unsqueeze(1)?, &scaled, 1)?.to_dtype(logits.dtype())
}

/// Gives the log-probabilities, computed beforehand, their gradient with respect to the hidden
/// states `[N, D]` and the weight `[V, D]`.
struct LinearLogp {
    result: Tensor,
    decoder: Decoder,
    /// On the host, what the forward pass found.
    rows: Vec<Row>,
    temperature: f64,
}

impl LinearLogp {
    fn is_on_host(&self, hidden: &Tensor) -> bool {
        hidden.device().is_cpu() && hidden.dtype() == DType::F32
    }

    fn inverse(&self) -> f32 {
        (1.0 / self.temperature) as f32
    }

    fn with_head<R>(
        &self,
        hidden: &Tensor,
        weight: &Tensor,
        targets: &Tensor,
        work: impl FnOnce(Head<'_>) -> Result<R>,
    ) -> Result<R> {
        let targets: Vec<u32> = targets.to_vec1()?;
        let (inverse, precision) = (self.inverse(), self.decoder.architecture().precision);
        with_values(hidden, |hidden| {
            with_values(weight, |weight| {
                let vocabulary = self.decoder.architecture().vocab_size;
                if let Some(id) = targets.iter().find(|id| **id as usize >= vocabulary) {
                    bail!("token {id} is beyond the vocabulary of {vocabulary}");
                }
                work(Head { hidden, weight, targets: &targets, inverse, precision })
            })
        })
    }

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
        let is_trained = weight.track_op();
        let (hidden, weight) = (hidden.detach(), weight.detach());
        let grad = grad.contiguous()?;
        if self.is_on_host(&hidden) {
            let mut d_hidden = vec![0f32; hidden.elem_count()];
            let grad: Vec<f32> = grad.to_vec1()?;
            self.with_head(&hidden, &weight, targets, |head| {
                // The weight's goes where the decoder's other gradients are.
                match is_trained {
                    true => self.decoder.add_head_gradient(|d_weight| {
                        head.backward(&self.rows, &grad, &mut d_hidden, Some(d_weight));
                    }),
                    false => head.backward(&self.rows, &grad, &mut d_hidden, None),
                }
                Ok(())
            })?;
            return Ok((
                Some(Tensor::from_vec(d_hidden, hidden.shape(), hidden.device())?),
                None,
                None,
            ));
        }
        let mut d_hidden = Vec::new();
        let mut d_weight: Option<Tensor> = None;
        for (start, length) in chunks(hidden.dim(0)?, weight.dim(0)?) {
            let part = hidden.narrow(0, start, length)?;
            let targets = targets.narrow(0, start, length)?;
            let logits = part.matmul(&weight.t()?)?;
            let grad = grad.narrow(0, start, length)?;
            let d_logits = logp_gradient(&logits, &targets, &grad, self.temperature)?;
            d_hidden.push(d_logits.matmul(&weight)?);
            if !is_trained {
                continue;
            }
            let share = d_logits.t()?.matmul(&part)?;
            d_weight = Some(match d_weight {
                None => share,
                Some(sum) => (sum + share)?,
            });
        }
        Ok((Some(Tensor::cat(&d_hidden, 0)?), d_weight, None))
    }
}
