//! A forward pass of the policy, the outputs that losses are functions of, and the backward pass.
//!
//! N completion tokens, D hidden size.

use std::borrow::Borrow;

use candle_core::{DType, Result, Tensor, Var};

use super::{Batch, Distributions, Policy, Sequence};
use crate::backend::{Anchor, Divergences, GradAccumulator, LogpGrads, Targets};
use crate::model::{Decoder, LogpTrace, Trace};
use tealight_divergence::Divergence;

/// Another model's next-token distributions at the same positions.
#[derive(Clone)]
pub struct Base<'a> {
    /// The other model, whose output layer gives its distributions.
    pub decoder: &'a Decoder,
    /// Its distributions at these positions.
    pub distributions: Distributions,
    /// The divergence that measures the distance.
    pub divergence: Divergence,
}

impl Base<'_> {
    pub(super) fn anchor(&self) -> Anchor {
        let Distributions { hidden, log_mass } = self.distributions.clone();
        self.decoder.anchor([hidden, log_mass], self.divergence)
    }
}

/// A pass through the policy that a gradient can go back through, once.
pub struct Forward {
    logp: Var,
    entropy: Var,
    base_divergence: Option<BaseDivergence>,
    /// Hidden states `[N, D]` that predict the tokens, and these.
    hidden: Tensor,
    targets: Vec<u32>,
    /// The token of the pass at which each completion token is predicted.
    positions: Vec<u32>,
    /// Tokens of the pass.
    tokens: usize,
    temperature: f64,
    trace: Trace,
    logp_trace: LogpTrace,
}

struct BaseDivergence {
    anchor: Anchor,
    outputs: Divergences,
    values: Var,
}

impl Forward {
    /// Natural log-probability `[N]` of every completion token.
    pub fn logp(&self) -> &Tensor {
        self.logp.as_tensor()
    }

    /// Entropy `[N]` in nats of the distribution it is from.
    pub fn entropy(&self) -> &Tensor {
        self.entropy.as_tensor()
    }

    /// Its divergence from the base's, `[N]`, where it was requested.
    pub fn divergence(&self) -> Option<&Tensor> {
        self.base_divergence.as_ref().map(|base_divergence| base_divergence.values.as_tensor())
    }
}

impl Policy {
    /// Log-probabilities of completions with what their gradient needs.
    pub fn forward<S: Borrow<Sequence>>(&self, rows: &[S], temperature: f64) -> Result<Forward> {
        self.forward_compared(rows, temperature, None)
    }

    /// The same, compared with a base over the full vocabulary.
    ///
    /// # Errors
    /// Another number of positions than the base's.
    pub fn forward_compared<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        temperature: f64,
        base: Option<&Base<'_>>,
    ) -> Result<Forward> {
        let batch = Batch::new(rows)?;
        let (hidden, trace) = self.decoder.forward(&batch.ids, &batch.packed)?;
        let hidden = batch.predicting(&hidden)?;
        let targets = Targets { tokens: &batch.targets, temperature };
        let outputs = self.decoder.logp(&hidden, targets)?;
        let base_divergence = base.map(|base| {
            let anchor = base.anchor();
            let base_divergence =
                self.decoder.divergences(&hidden, targets, &outputs.saved, &anchor)?;
            let values = Var::from_tensor(&base_divergence.values)?;
            Ok::<_, candle_core::Error>(BaseDivergence { anchor, outputs: base_divergence, values })
        });
        Ok(Forward {
            // Leaves of Candle's graph: it differentiates the loss of [N] numbers alone, never a layer.
            logp: Var::from_tensor(&outputs.logp)?,
            entropy: Var::from_tensor(&outputs.entropy)?,
            base_divergence: base_divergence.transpose()?,
            hidden,
            positions: batch.positions,
            tokens: batch.ids.len(),
            temperature,
            trace,
            logp_trace: outputs.saved,
            targets: batch.targets,
        })
    }

    /// Adds the gradient of `loss`, a scalar function of what [`Forward`] has.
    pub fn backward(
        &self,
        forward: Forward,
        loss: &Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let Forward { hidden, targets, positions, tokens, .. } = &forward;
        let mut outputs = loss.backward()?;
        let mut gradient_of = |var: &Var| -> Result<Option<Tensor>> {
            outputs.remove(var).map(|grad| grad.detach().contiguous()).transpose()
        };
        // An output that the loss does not read has no gradient there.
        let logp = match gradient_of(&forward.logp)? {
            Some(grad) => grad,
            None => Tensor::zeros(targets.len(), DType::F32, hidden.device())?,
        };
        let entropy = gradient_of(&forward.entropy)?;
        let divergence = match &forward.base_divergence {
            None => None,
            Some(base_divergence) => {
                gradient_of(&base_divergence.values)?.map(|grad| (base_divergence, grad))
            }
        };
        let output_grads = LogpGrads {
            logp: &logp,
            entropy: entropy.as_ref(),
            divergence: divergence.as_ref().map(|(term, grad)| (&term.anchor, &term.outputs, grad)),
        };
        let at = Targets { tokens: targets, temperature: forward.temperature };
        let dx =
            self.decoder.logp_backward(hidden, at, &forward.logp_trace, &output_grads, grads)?;
        // dL/d(output) [N] to dL/dh at the predicting positions, to dL/dh of all tokens (zero at the others), to
        // weights.
        let dx = self.decoder.scatter(&dx, positions, *tokens)?;
        self.decoder.backward(forward.trace, &dx, grads)
    }
}
