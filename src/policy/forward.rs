//! A pass through the policy, what losses are functions of, and the way back.
//!
//! N completion tokens, D hidden size, K likeliest tokens.

use std::borrow::Borrow;

use candle_core::{DType, Result, Tensor, Var};

use super::{Batch, Distributions, Policy, Sequence};
use crate::backend::{Anchor, Divergences, GradAccumulator, LogpGrads};
use crate::divergence::Divergence;
use crate::model::{Decoder, LogpTrace, Trace};

/// What is asked of whole next-token distributions, beside log-probabilities and entropies.
#[derive(Clone, Default)]
pub struct Whole<'a> {
    /// How many of the likeliest tokens.
    pub likeliest: usize,
    /// What they are compared with.
    pub base: Option<Base<'a>>,
}

/// Another model's next-token distributions at the same places.
#[derive(Clone)]
pub struct Base<'a> {
    /// That model.
    pub decoder: &'a Decoder,
    /// What it said of these places.
    pub distributions: Distributions,
    /// How distances from them are measured.
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
    apart: Option<Apart>,
    likeliest: Option<Candidates>,
    /// Hidden states `[N, D]` that predict the tokens, and these.
    hidden: Tensor,
    targets: Vec<u32>,
    /// The token of the pass at which each completion token is predicted.
    places: Vec<u32>,
    /// Tokens of the pass.
    tokens: usize,
    temperature: f64,
    trace: Trace,
    logp_trace: LogpTrace,
}

struct Apart {
    anchor: Anchor,
    found: Divergences,
    values: Var,
}

struct Candidates {
    tokens: Vec<u32>,
    logp: Var,
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

    /// How far that is from the base's, `[N]`, where it was asked for.
    pub fn divergence(&self) -> Option<&Tensor> {
        self.apart.as_ref().map(|apart| apart.values.as_tensor())
    }

    /// Log-probabilities `[N, K]` of its likeliest tokens, where they were asked for.
    pub fn likeliest(&self) -> Option<&Tensor> {
        self.likeliest.as_ref().map(|candidates| candidates.logp.as_tensor())
    }

    /// 1 where the completion token is the likeliest, `[N]`, where likeliest tokens were asked for.
    ///
    /// # Errors
    /// No memory.
    pub fn is_likeliest(&self) -> Result<Option<Tensor>> {
        let Some(Candidates { tokens, logp }) = &self.likeliest else { return Ok(None) };
        let first = tokens.iter().step_by(logp.dim(1)?);
        let is_first = first.zip(&self.targets).map(|(token, target)| token == target);
        let values: Vec<f32> = is_first.map(|is_first| f32::from(u8::from(is_first))).collect();
        Tensor::from_vec(values, self.targets.len(), self.logp.device()).map(Some)
    }
}

impl Policy {
    /// Log-probabilities of completions with what their gradient needs; `number` is that of a training pass, which
    /// keys the dropout of adapters: the same number, the same mask.
    ///
    /// # Errors
    /// See [`super::token_logp`].
    pub fn forward<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        temperature: f64,
        number: Option<u64>,
    ) -> Result<Forward> {
        self.forward_whole(rows, temperature, number, &Whole::default())
    }

    /// The same, and what is asked of whole distributions.
    ///
    /// # Errors
    /// See [`super::token_logp`]; another number of places than the base's.
    pub fn forward_whole<S: Borrow<Sequence>>(
        &self,
        rows: &[S],
        temperature: f64,
        number: Option<u64>,
        whole: &Whole<'_>,
    ) -> Result<Forward> {
        let batch = Batch::new(rows)?;
        let (hidden, trace) = self.decoder.forward(&batch.ids, &batch.packed, number)?;
        let hidden = batch.predicting(&hidden)?;
        let targets = (batch.targets.as_slice(), temperature);
        let found = self.decoder.logp(&hidden, targets, whole.likeliest)?;
        let apart = whole.base.as_ref().map(|base| {
            let anchor = base.anchor();
            let apart = self.decoder.divergences(&hidden, targets, &found.saved, &anchor)?;
            let values = Var::from_tensor(&apart.values)?;
            Ok::<_, candle_core::Error>(Apart { anchor, found: apart, values })
        });
        let likeliest = found.likeliest.map(|likeliest| {
            let logp = Var::from_tensor(&likeliest.logp)?;
            Ok::<_, candle_core::Error>(Candidates { tokens: likeliest.tokens, logp })
        });
        Ok(Forward {
            logp: Var::from_tensor(&found.logp)?,
            entropy: Var::from_tensor(&found.entropy)?,
            apart: apart.transpose()?,
            likeliest: likeliest.transpose()?,
            hidden,
            places: batch.places,
            tokens: batch.ids.len(),
            temperature,
            trace,
            logp_trace: found.saved,
            targets: batch.targets,
        })
    }

    /// Adds the gradient of `loss`, a scalar function of what [`Forward`] has.
    ///
    /// # Errors
    /// No memory.
    pub fn backward(
        &self,
        forward: Forward,
        loss: &Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let Forward { hidden, targets, places, tokens, .. } = &forward;
        let mut found = loss.backward()?;
        let mut of = |var: &Var| -> Result<Option<Tensor>> {
            found.remove(var).map(|grad| grad.detach().contiguous()).transpose()
        };
        let logp = match of(&forward.logp)? {
            Some(grad) => grad,
            None => Tensor::zeros(targets.len(), DType::F32, hidden.device())?,
        };
        let entropy = of(&forward.entropy)?;
        let divergence = match &forward.apart {
            None => None,
            Some(apart) => of(&apart.values)?.map(|grad| (apart, grad)),
        };
        let likeliest = match &forward.likeliest {
            None => None,
            Some(candidates) => of(&candidates.logp)?.map(|grad| (candidates, grad)),
        };
        let pulls = LogpGrads {
            logp: &logp,
            entropy: entropy.as_ref(),
            divergence: divergence.as_ref().map(|(own, grad)| (&own.anchor, &own.found, grad)),
            likeliest: likeliest.as_ref().map(|(own, grad)| (own.tokens.as_slice(), grad)),
        };
        let at = (targets.as_slice(), forward.temperature);
        let dx = self.decoder.logp_backward(hidden, at, &forward.logp_trace, &pulls, grads)?;
        let dx = self.decoder.scatter(&dx, places, *tokens)?;
        self.decoder.backward(forward.trace, &dx, grads)
    }
}
