//! Log-probabilities of targets, some rows of logits at a time.

use candle_core::{DType, Device, Result, Tensor};
use tealight_gpu::kernels;

use super::super::{GradAccumulator, Parameter, Prepacked, TokenLogp, check_tokens};
use super::{Gpu, sums_of};

/// Values of logits that exist at once: 1 GiB in f32, 64 MiB where the CPU emulates a GPU.
fn most_logits(device: &Device) -> usize {
    if device.is_cpu() { 16 << 20 } else { 256 << 20 }
}

impl Gpu {
    /// `(start, length)` of the parts in which logits of `rows` rows are computed.
    fn parts(&self, rows: usize, vocabulary: usize) -> impl Iterator<Item = (usize, usize)> {
        let length = (most_logits(&self.device) / vocabulary).max(1);
        (0..rows).step_by(length).map(move |start| (start, length.min(rows - start)))
    }

    /// The output layer's weight in f32.
    pub(super) fn wide(&self, head: &Parameter) -> Result<Tensor> {
        match &head.prepacked {
            Some(Prepacked::Gpu(wide)) => Ok(wide.clone()),
            _ => head.values.to_dtype(DType::F32),
        }
    }

    pub(super) fn logits_of(&self, hidden: &Tensor, wide: &Tensor) -> Result<Tensor> {
        tealight_gpu::product(&hidden.to_dtype(DType::F32)?, &wide.t()?, hidden.dtype())
    }

    pub(super) fn token_logp(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: &[u32],
        temperature: f64,
    ) -> Result<TokenLogp<Tensor>> {
        let (vocabulary, _) = head.dims2()?;
        check_tokens(targets, vocabulary)?;
        let (wide, targets) = (self.wide(head)?, self.table(targets)?);
        let (mut logp, mut entropy, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        for (start, length) in self.parts(hidden.dim(0)?, vocabulary) {
            let logits = self.logits_of(&hidden.narrow(0, start, length)?, &wide)?;
            let found = kernels::logp(&logits, &targets.narrow(0, start, length)?, temperature)?;
            logp.push(found.logp);
            entropy.push(found.entropy);
            sums.push(found.sums);
        }
        let [logp, entropy, saved] = [logp, entropy, sums].map(|all| Tensor::cat(&all, 0));
        Ok(TokenLogp { logp: logp?, entropy: entropy?, saved: saved? })
    }

    pub(super) fn token_logp_backward(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        (targets, temperature): (&[u32], f64),
        (saved, grad): (&Tensor, &Tensor),
        grads: &mut GradAccumulator,
    ) -> Result<Tensor> {
        let (wide, targets) = (self.wide(head)?, self.table(targets)?);
        let sums = sums_of(head, grads)?;
        let mut d_hidden = Vec::new();
        for (start, length) in self.parts(hidden.dim(0)?, head.dims2()?.0) {
            let of = |x: &Tensor| x.narrow(0, start, length);
            let hidden = of(hidden)?;
            let logits = self.logits_of(&hidden, &wide)?;
            let known = (&of(saved)?, &of(grad)?);
            let dtype = hidden.dtype();
            let targets = of(&targets)?;
            let d_logits = kernels::logits_grad(&logits, &targets, known, temperature, dtype)?;
            d_hidden.push(d_logits.matmul(&head.values)?);
            if let Some(sums) = &sums {
                kernels::add_to(sums, &d_logits.t()?.matmul(&hidden)?)?;
            }
        }
        Tensor::cat(&d_hidden, 0)
    }
}
