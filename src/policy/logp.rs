//! Log-probabilities of tokens from hidden states, forward and backward, without ever holding the logits
//! `[N, V]`: they are computed in parts, and again in the backward pass.

use candle_core::{D, DType, Result, Tensor};
use tealight_gpu::kernels;

use super::chunks;
use crate::kernels::cpu::logp::{Head, Row};
use crate::kernels::cpu::with_values;
use crate::kernels::given::given;
use crate::model::{Decoder, Path, check_tokens};

/// Log-probability `[N]` of `targets` `[N]` and entropy `[N]` under `softmax(hidden head^T / temperature)`.
pub(super) fn linear_logp(
    hidden: &Tensor,
    decoder: &Decoder,
    targets: &Tensor,
    temperature: f64,
) -> Result<(Tensor, Tensor)> {
    let rows = Rows {
        hidden: hidden.detach(),
        decoder: decoder.clone(),
        targets: targets.clone(),
        temperature,
        is_tracked: hidden.track_op() || decoder.head().track_op(),
        on: [hidden.clone(), decoder.head().clone()],
    };
    match decoder.path() {
        Path::Host => rows.on_host(),
        Path::Gpu => rows.on_gpu(),
        Path::Graph => rows.composed(),
    }
}

/// What log-probabilities are computed from.
struct Rows {
    hidden: Tensor,
    decoder: Decoder,
    targets: Tensor,
    temperature: f64,
    is_tracked: bool,
    /// Hidden states and the output layer's weight, as the graph knows them.
    on: [Tensor; 2],
}

impl Rows {
    fn weight(&self) -> Tensor {
        self.decoder.head().detach()
    }

    fn is_head_trained(&self) -> bool {
        self.decoder.head().track_op()
    }

    /// The targets on the host, all of them in the vocabulary.
    fn known_targets(&self) -> Result<Vec<u32>> {
        let targets = self.targets.to_vec1()?;
        check_tokens(&targets, self.decoder.architecture().vocab_size)?;
        Ok(targets)
    }

    /// `(start, length)` of the parts in which logits are computed.
    fn parts(&self) -> Result<Vec<(usize, usize)>> {
        let vocabulary = self.decoder.head().dim(0)?;
        Ok(chunks(self.hidden.dim(0)?, vocabulary, self.hidden.device()).collect())
    }

    /// `logp` with the gradient that `backward` finds, where one is wanted.
    fn with_gradient(
        self,
        logp: Tensor,
        backward: impl Fn(&Self, &Tensor) -> Result<[Option<Tensor>; 2]> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        if !self.is_tracked {
            return Ok(logp);
        }
        let on = self.on.clone();
        given(logp, [&on[0], &on[1]], move |grad| backward(&self, grad))
    }

    fn on_host(self) -> Result<(Tensor, Tensor)> {
        let found = self.with_head(|head| Ok(head.forward()))?;
        let inverse = (1.0 / self.temperature) as f32;
        let logp: Vec<f32> = found.iter().map(|row| row.logp(inverse)).collect();
        let logp = Tensor::from_vec(logp, self.targets.shape(), self.hidden.device())?;
        let entropy: Vec<f32> = found.iter().map(Row::entropy).collect();
        let entropy = Tensor::from_vec(entropy, self.targets.shape(), self.hidden.device())?;
        let logp = self.with_gradient(logp, move |rows, grad| {
            let mut d_hidden = vec![0f32; rows.hidden.elem_count()];
            let grad: Vec<f32> = grad.to_vec1()?;
            rows.with_head(|head| {
                // The weight's goes where the decoder's other gradients are.
                match rows.is_head_trained() {
                    true => rows.decoder.add_head_gradient(|d_weight| {
                        head.backward(&found, &grad, &mut d_hidden, Some(d_weight));
                    }),
                    false => head.backward(&found, &grad, &mut d_hidden, None),
                }
                Ok(())
            })?;
            let d_hidden = Tensor::from_vec(d_hidden, rows.hidden.shape(), rows.hidden.device())?;
            Ok([Some(d_hidden), None])
        })?;
        Ok((logp, entropy))
    }

    fn with_head<R>(&self, work: impl FnOnce(Head<'_>) -> Result<R>) -> Result<R> {
        let targets = self.known_targets()?;
        let inverse = (1.0 / self.temperature) as f32;
        let precision = self.decoder.architecture().precision;
        with_values(&self.hidden, |hidden| {
            with_values(&self.weight(), |weight| {
                work(Head { hidden, weight, targets: &targets, inverse, precision })
            })
        })
    }

    fn on_gpu(mut self) -> Result<(Tensor, Tensor)> {
        self.known_targets()?;
        self.decoder = self.decoder.ready()?;
        let (mut logp, mut entropy, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        for (start, length) in self.parts()? {
            let logits = self.decoder.logits(&self.hidden.narrow(0, start, length)?)?;
            let targets = self.targets.narrow(0, start, length)?;
            let found = kernels::logp(&logits, &targets, self.temperature)?;
            logp.push(found.logp);
            entropy.push(found.entropy);
            sums.push(found.sums);
        }
        let (logp, entropy) = (Tensor::cat(&logp, 0)?, Tensor::cat(&entropy, 0)?);
        let sums = Tensor::cat(&sums, 0)?;
        let logp = self.with_gradient(logp, move |rows, grad| {
            let mut d_hidden = Vec::new();
            for (start, length) in rows.parts()? {
                let of = |x: &Tensor| x.narrow(0, start, length);
                let hidden = of(&rows.hidden)?;
                let logits = rows.decoder.logits(&hidden)?;
                let (targets, known) = (of(&rows.targets)?, (&of(&sums)?, &of(grad)?));
                let dtype = hidden.dtype();
                let slopes = kernels::slopes(&logits, &targets, known, rows.temperature, dtype)?;
                d_hidden.push(slopes.matmul(&rows.weight())?);
                if rows.is_head_trained() {
                    rows.decoder.add_head_gradient_on_gpu(&slopes.t()?.matmul(&hidden)?)?;
                }
            }
            Ok([Some(Tensor::cat(&d_hidden, 0)?), None])
        })?;
        Ok((logp, entropy))
    }

    /// By Candle's operations.
    fn composed(self) -> Result<(Tensor, Tensor)> {
        let weight = self.weight();
        let (mut logps, mut entropies) = (Vec::new(), Vec::new());
        for (start, length) in self.parts()? {
            let logits = self.hidden.narrow(0, start, length)?.matmul(&weight.t()?)?;
            let logits = (logits.to_dtype(DType::F32)? / self.temperature)?;
            let all = candle_nn::ops::log_softmax(&logits, D::Minus1)?;
            let targets = self.targets.narrow(0, start, length)?.unsqueeze(1)?;
            logps.push(all.gather(&targets, 1)?.squeeze(1)?);
            entropies.push((all.exp()? * all)?.sum(1)?.neg()?);
        }
        let (logp, entropy) = (Tensor::cat(&logps, 0)?, Tensor::cat(&entropies, 0)?);
        let logp = self.with_gradient(logp, |rows, grad| {
            let weight = rows.weight();
            let (mut d_hidden, mut d_weight) = (Vec::new(), None);
            for (start, length) in rows.parts()? {
                let of = |x: &Tensor| x.narrow(0, start, length);
                let hidden = of(&rows.hidden)?;
                let logits = hidden.matmul(&weight.t()?)?;
                let slopes =
                    logp_gradient(&logits, &of(&rows.targets)?, &of(grad)?, rows.temperature)?;
                d_hidden.push(slopes.matmul(&weight)?);
                if rows.is_head_trained() {
                    let share = slopes.t()?.matmul(&hidden)?;
                    d_weight = Some(match d_weight {
                        None => share,
                        Some(sum) => (sum + share)?,
                    });
                }
            }
            Ok([Some(Tensor::cat(&d_hidden, 0)?), d_weight])
        })?;
        Ok((logp, entropy))
    }
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
