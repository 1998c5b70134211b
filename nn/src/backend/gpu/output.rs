//! Log-probabilities of targets, some rows of logits at a time.

use candle_core::{DType, Device, Result, Tensor};
use tealight_gpu::counts::made;
use tealight_gpu::workspace::{Array, Operand};
use tealight_gpu::{kernels, products};

use super::super::{
    Anchor, Divergences, GradAccumulator, LogpGrads, OutputLayer, Parameter, Prepacked, Targets,
    TokenLogp, check_tokens,
};
use super::{Gpu, sums_of};
use tealight_divergence::{Divergence, MAX_LOG_RATIO, OnDevice};

/// Values of logits that exist at once: 1 GiB in f32, 64 MiB where the CPU emulates a GPU.
pub fn most_logits(device: &Device) -> usize {
    if device.is_cpu() { 16 << 20 } else { 256 << 20 }
}

impl OutputLayer for Gpu {
    fn logp(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        Targets { tokens: targets, temperature }: Targets<'_>,
    ) -> Result<TokenLogp<Tensor>> {
        let (vocabulary, _) = head.dims2()?;
        check_tokens(targets, vocabulary)?;
        let (wide, targets) = (self.wide(head)?, self.table(targets)?.into_tensor());
        let (mut logp, mut entropy, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        for (start, length) in self.parts(hidden.dim(0)?, vocabulary) {
            let logits = self.logits_of(&hidden.narrow(0, start, length)?, &wide)?.into_tensor();
            let rows = kernels::logp(&logits, &targets.narrow(0, start, length)?, temperature)?;
            logp.push(rows.logp);
            entropy.push(rows.entropy);
            sums.push(rows.sums);
        }
        let [logp, entropy, saved] =
            [logp, entropy, sums].map(|all| Tensor::cat(&all, 0).map(made));
        let (logp, entropy, saved) = (logp?, entropy?, saved?);
        Ok(TokenLogp { logp, entropy, log_mass: saved.clone(), saved })
    }

    fn divergences(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        Targets { temperature, .. }: Targets<'_>,
        saved: &Tensor,
        anchor: &Anchor,
    ) -> Result<Divergences> {
        let (head_weight, other) = (self.wide(head)?, self.wide(&anchor.head)?);
        let (mut values, mut slopes) = (Vec::new(), Vec::new());
        // Twice the logits, and what is computed of them.
        for (start, length) in self.parts(hidden.dim(0)?, head.dims2()?.0 * 4) {
            let rows = |x: &Tensor| x.narrow(0, start, length);
            let logits = self.logits_of(&rows(hidden)?, &head_weight)?.into_tensor();
            let logp = normalised(&logits, temperature, &rows(saved)?)?;
            let logits = self.logits_of(&rows(&anchor.hidden)?, &other)?.into_tensor();
            let base = normalised(&logits, temperature, &rows(&anchor.log_mass)?)?;
            let (ratio, share) = (log_ratio(&logp, &base)?, base.exp()?);
            values.push((anchor.divergence.f(ratio).tensor()? * &share)?.sum(1)?);
            slopes.push(divergence_slope(anchor.divergence, &logp, &base)?.sum(1)?);
        }
        Ok(Divergences { values: Tensor::cat(&values, 0)?, slopes: Tensor::cat(&slopes, 0)? })
    }

    fn logp_backward(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        Targets { tokens: targets, temperature }: Targets<'_>,
        saved: &Tensor,
        grad: &LogpGrads<'_>,
        grads: &mut GradAccumulator,
    ) -> Result<Tensor> {
        let (wide, targets) = (self.wide(head)?, self.table(targets)?.into_tensor());
        let other = grad.divergence.map(|(anchor, ..)| self.wide(&anchor.head)).transpose()?;
        let is_plain = grad.entropy.is_none() && other.is_none();
        let sums = sums_of(head, grads)?;
        let mut d_hidden = Vec::new();
        let vocabulary = head.dims2()?.0;
        // Parts are smaller where log-probabilities of both models and their gradient are held beside the logits.
        let width = if is_plain { vocabulary } else { vocabulary * 4 };
        for (start, length) in self.parts(hidden.dim(0)?, width) {
            let rows = |x: &Tensor| x.narrow(0, start, length);
            let hidden = rows(hidden)?;
            let logits = self.logits_of(&hidden, &wide)?.into_tensor();
            let known = (&rows(saved)?, &rows(grad.logp)?);
            // Further terms are of f32.
            let dtype = if is_plain { hidden.dtype() } else { DType::F32 };
            let targets = rows(&targets)?;
            let mut d_logits = kernels::logits_grad(&logits, &targets, known, temperature, dtype)?;
            if !is_plain {
                let logp = normalised(&logits, temperature, &rows(saved)?)?;
                let base = match (grad.divergence, &other) {
                    (Some((anchor, ..)), Some(other)) => {
                        let logits = self.logits_of(&rows(&anchor.hidden)?, other)?.into_tensor();
                        Some(normalised(&logits, temperature, &rows(&anchor.log_mass)?)?)
                    }
                    _ => None,
                };
                let of_logp = self.logp_grads(&logp, base.as_ref(), grad, start)?;
                // log p = z / T - log sum e^(z / T): dz = (g - p sum g) / T for the gradient g of the
                // log-probabilities.
                let all = of_logp.sum_keepdim(1)?;
                let more = (of_logp - logp.exp()?.broadcast_mul(&all)?)?;
                d_logits = (d_logits + (more / temperature)?)?.to_dtype(hidden.dtype())?;
            }
            d_hidden.push(made(d_logits.matmul(&head.used()?)?));
            if let Some(sums) = &sums {
                kernels::add_to(&head.used_of(sums)?, &made(d_logits.t()?.matmul(&hidden)?))?;
            }
        }
        Tensor::cat(&d_hidden, 0).map(made)
    }

    fn logits(&self, hidden: &Tensor, head: &Parameter) -> Result<Tensor> {
        self.logits_of(hidden, &self.wide(head)?).map(Array::into_tensor)
    }
}

impl Gpu {
    /// `(start, length)` of the parts in which logits of `rows` rows are computed.
    fn parts(&self, rows: usize, vocabulary: usize) -> impl Iterator<Item = (usize, usize)> {
        let length = (most_logits(&self.device) / vocabulary).max(1);
        (0..rows).step_by(length).map(move |start| (start, length.min(rows - start)))
    }

    /// The output layer's weight as products to f32 read it: in f32, or in bf16 where the device multiplies that.
    fn wide(&self, head: &Parameter) -> Result<Tensor> {
        match &head.prepacked {
            Some(Prepacked::Gpu(wide)) => Ok(wide.clone()),
            _ if tealight_gpu::multiplies_halves(&self.device) => head.used(),
            _ => head.used()?.to_dtype(DType::F32),
        }
    }

    fn logits_of(&self, hidden: &dyn Operand, wide: &Tensor) -> Result<Array> {
        products::wide_product(hidden, wide)
    }

    /// Logits `[N, V]` in f32 of hidden states that were not read outside.
    pub(crate) fn logits_of_array(&self, hidden: &Array, head: &Parameter) -> Result<Array> {
        self.logits_of(hidden, &self.wide(head)?)
    }

    /// The gradients of entropies and divergences in the log-probabilities `[n, V]` of the rows from
    /// `start` on; `base` are the anchor's.
    fn logp_grads(
        &self,
        logp: &Tensor,
        base: Option<&Tensor>,
        grad: &LogpGrads<'_>,
        start: usize,
    ) -> Result<Tensor> {
        let length = logp.dim(0)?;
        let column = |grad: &Tensor| grad.narrow(0, start, length)?.unsqueeze(1);
        let mut d_logp = logp.zeros_like()?;
        if let Some(grad) = grad.entropy {
            // H = -sum e^l l: dH/dl = -e^l (l + 1).
            let slope = (logp.exp()? * logp.affine(-1.0, -1.0)?)?;
            d_logp = (d_logp + slope.broadcast_mul(&column(grad)?)?)?;
        }
        if let (Some((anchor, _, grad)), Some(base)) = (grad.divergence, base) {
            // D = sum a f(u) with u = e^l / a: dD/dl = a u f'(u).
            let slope = divergence_slope(anchor.divergence, logp, base)?;
            d_logp = (d_logp + slope.broadcast_mul(&column(grad)?)?)?;
        }
        Ok(d_logp)
    }
}

/// Log-probabilities `[n, V]` of logits, for the logarithms `[n]` of what they add up to.
fn normalised(logits: &Tensor, temperature: f64, log_mass: &Tensor) -> Result<Tensor> {
    (logits / temperature)?.broadcast_sub(&log_mass.unsqueeze(1)?)
}

fn log_ratio(logp: &Tensor, base: &Tensor) -> Result<OnDevice> {
    Ok(OnDevice::log_ratios(&(logp - base)?, MAX_LOG_RATIO))
}

/// `a u f'(u)` `[n, V]`, 0 where the ratio is beyond what counts.
fn divergence_slope(divergence: Divergence, logp: &Tensor, base: &Tensor) -> Result<Tensor> {
    let inside = (logp - base)?.le(MAX_LOG_RATIO)?.to_dtype(DType::F32)?;
    let slope = divergence.slope(log_ratio(logp, base)?).tensor()?;
    (slope * base.exp()?)? * inside
}
