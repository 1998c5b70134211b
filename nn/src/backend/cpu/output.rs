//! The output layer on the CPU: what losses ask of next-token distributions, and its gradient.

use candle_core::{Device, Result, Tensor};

use super::super::{
    Anchor, Divergences, GradAccumulator, LogpGrads, OutputLayer, Parameter, Targets, TokenLogp,
    check_tokens,
};
use super::full_vocabulary::{Base, DivergenceTerm, OutputGrads};
use super::product::with_weight;
use super::vocabulary::{Head, Layer, RowSums};
use super::{Cpu, with_values};

impl OutputLayer for Cpu {
    fn logp(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: Targets<'_>,
    ) -> Result<TokenLogp<Vec<RowSums>>> {
        let rows = targets.tokens.len();
        let sums = with_head(hidden, head, targets, |head| Ok(head.forward()))?;
        let inverse = (1.0 / targets.temperature) as f32;
        let tensor = |value: &dyn Fn(&RowSums) -> f32| {
            Tensor::from_vec(sums.iter().map(value).collect(), rows, &Device::Cpu)
        };
        Ok(TokenLogp {
            logp: tensor(&|row| row.logp(inverse))?,
            entropy: tensor(&RowSums::entropy)?,
            log_mass: tensor(&|row| row.log_mass(inverse))?,
            saved: sums,
        })
    }

    fn divergences(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: Targets<'_>,
        saved: &Vec<RowSums>,
        anchor: &Anchor,
    ) -> Result<Divergences> {
        let (values, slopes) = with_head(hidden, head, targets, |head| {
            with_base(anchor, |base| Ok(head.divergences(saved, base)))
        })?;
        let tensor = |values: Vec<f32>| {
            let count = values.len();
            Tensor::from_vec(values, count, &Device::Cpu)
        };
        Ok(Divergences { values: tensor(values)?, slopes: tensor(slopes)? })
    }

    fn logp_backward(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: Targets<'_>,
        saved: &Vec<RowSums>,
        grad: &LogpGrads<'_>,
        grads: &mut GradAccumulator,
    ) -> Result<Tensor> {
        let d_weight = head.is_trained.then(|| grads.on_cpu(head, &self.pool));
        let mut d_hidden = vec![0f32; hidden.elem_count()];
        let values = |x: &Tensor| x.flatten_all()?.to_vec1::<f32>();
        let entropy = grad.entropy.map(values).transpose()?;
        let logp = values(grad.logp)?;
        let output_grads =
            OutputGrads { logp: &logp, entropy: entropy.as_deref(), divergence: None };
        with_head(hidden, head, targets, |head| {
            let Some((anchor, totals, grad)) = grad.divergence else {
                head.backward(saved, &output_grads, &mut d_hidden, d_weight);
                return Ok(());
            };
            let (slopes, grad) = (values(&totals.slopes)?, values(grad)?);
            with_base(anchor, |base| {
                let divergence = Some(DivergenceTerm { base, slopes: &slopes, grad: &grad });
                head.backward(
                    saved,
                    &OutputGrads { divergence, ..output_grads },
                    &mut d_hidden,
                    d_weight,
                );
                Ok(())
            })
        })?;
        Tensor::from_vec(d_hidden, hidden.shape(), &Device::Cpu)
    }

    fn logits(&self, hidden: &Tensor, head: &Parameter) -> Result<Tensor> {
        let (vocabulary, inner) = head.dims2()?;
        // It is handed out.
        let logits = self.pooled_logits(hidden, head)?.into_values();
        Tensor::from_vec(logits, (hidden.elem_count() / inner, vocabulary), &Device::Cpu)
    }
}

/// Calls `work` with the output layer at these targets.
fn with_head<R>(
    hidden: &Tensor,
    head: &Parameter,
    targets: Targets<'_>,
    work: impl FnOnce(Head<'_>) -> Result<R>,
) -> Result<R> {
    check_tokens(targets.tokens, head.dims2()?.0)?;
    let inverse = (1.0 / targets.temperature) as f32;
    with_values(hidden, |hidden| {
        with_weight(head, |weight| {
            work(Head { layer: Layer { hidden, weight }, targets: targets.tokens, inverse })
        })
    })
}

/// Calls `work` with what rows are compared with.
fn with_base<R>(anchor: &Anchor, work: impl FnOnce(Base<'_>) -> Result<R>) -> Result<R> {
    let log_mass: Vec<f32> = anchor.log_mass.to_vec1()?;
    with_values(&anchor.hidden, |hidden| {
        with_weight(&anchor.head, |weight| {
            let layer = Layer { hidden, weight };
            work(Base { layer, log_mass: &log_mass, divergence: anchor.divergence })
        })
    })
}
