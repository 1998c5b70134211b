//! What must hold before the first step, checked at the start of every run.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use candle_core::{Tensor, Var};

use super::super::step::{PassNumbers, micro_batches};
use super::batch::Batch;
use super::{Run, scalar};
use crate::generate::Finish;
use crate::objective::LossInputs;
use crate::policy::{Forward, GradAccumulator, Sequence, by_row, rounding, token_logp};

/// Largest number of rows that are looked at.
const ROWS: usize = 256;

impl Run<'_> {
    /// What must hold before the first step: the importance ratio is 1, the policy is the base,
    /// stored completions are the base's, nothing depends on the batch, and every weight has a gradient.
    pub(super) fn check_start(
        &self,
        batch: Option<&Batch>,
        passes: &mut PassNumbers,
    ) -> Result<()> {
        let temperature = self.config.settings.temperature;
        let most = rounding(self.policy.decoder()) as f32;
        // Where the base is not held, the policy took its weights over and is the base until the first update.
        let base = self.reference.unwrap_or(self.policy.decoder());
        let stored = &self.data.rehearsal[..self.data.rehearsal.len().min(ROWS)];
        if !stored.is_empty() {
            let rows: Vec<Sequence> = stored.iter().map(|item| item.sequence.clone()).collect();
            let logp: Vec<Vec<f32>> = stored.iter().map(|item| item.logp.clone()).collect();
            let apart = worst(&self.logp_of(base, &rows)?, &logp);
            if apart.is_nan() || apart > most {
                bail!(
                    "self-check: the stored pre-samples were not drawn from this base \
                     (log-probabilities differ by {apart:.1e}); draw them again"
                );
            }
        }
        let rows: Vec<Sequence> = match batch {
            Some(batch) => batch.rows.clone(),
            None => stored.iter().map(|item| item.sequence.clone()).collect(),
        };
        let few = micro_batches(&rows, self.config.settings.micro_batch_tokens).remove(0);
        let rows = &rows[few.clone()];
        let forward = self.policy.forward(rows, temperature, passes.next())?;
        let policy = by_row(forward.logp(), rows)?;
        if let Some(batch) = batch {
            let ratio = worst(&policy, &batch.behavior[few.clone()]);
            if ratio.is_nan() || ratio > most {
                bail!(
                    "self-check: rollout and training disagree on log-probabilities by {ratio:.1e}; this is a bug"
                );
            }
        }
        let divergence = worst(&policy, &self.logp_of(base, rows)?);
        if divergence.is_nan() || divergence > most {
            bail!(
                "self-check: the policy does not start at the base (log-probabilities differ by {divergence:.1e})"
            );
        }
        let alone = token_logp(self.policy.decoder(), &rows[..1], temperature)?;
        let apart = worst(&by_row(&alone.logp, &rows[..1])?, &policy[..1]);
        if apart.is_nan() || apart > most {
            bail!(
                "self-check: log-probabilities depend on the batch (by {apart:.1e}); this is a bug"
            );
        }
        let loss = match batch {
            None => forward.logp().sum_all()?,
            Some(batch) => self.checked_loss(batch, few, &forward)?,
        };
        let mut gradients = GradAccumulator::default();
        self.policy.backward(forward, &loss, &mut gradients)?;
        for name in self.policy.weights().keys() {
            let gradient = gradients.get(name);
            let gradient =
                gradient.with_context(|| format!("self-check: weight `{name}` has no gradient"))?;
            let size = gradient.largest()?;
            // A fresh adapter's B is zero, and so is then the gradient of its A.
            let may_be_zero = name.ends_with("lora_A.weight");
            if !(size > 0.0 || may_be_zero) || !size.is_finite() {
                bail!("self-check: the gradient of weight `{name}` is {size}");
            }
        }
        Ok(())
    }

    /// The loss that trains, with advantages that are not zero: at ratio 1 its slope in the log-probability of a token
    /// must be minus the token's weighted advantage, whatever the trust region, and what the regulariser adds.
    fn checked_loss(
        &self,
        batch: &Batch,
        range: Range<usize>,
        forward: &Forward,
    ) -> Result<Tensor> {
        let tensors = self.tensors(batch, &range.collect::<Vec<_>>())?;
        let behavior = forward.logp().detach();
        let logp = Var::from_tensor(&behavior)?;
        let ones = logp.ones_like()?;
        let inputs = |logp| LossInputs {
            policy_logp: logp,
            behavior_logp: &behavior,
            advantage: &ones,
            weight: &ones,
            charge: None,
            priced: None,
            ..tensors.inputs(logp)
        };
        let slopes = self.plan.loss(&inputs(logp.as_tensor()))?.total.backward()?.remove(&logp);
        let slopes = slopes.context("self-check: the loss does not depend on the policy")?;
        let apart = scalar(&(slopes + 1.0)?.abs()?.max(0)?)?;
        if apart.is_nan() || apart > 1e-4 {
            bail!(
                "self-check: the loss is not the policy gradient at ratio 1, by {apart:.1e}; this is a bug"
            );
        }
        Ok(self.plan.loss(&inputs(forward.logp()))?.total)
    }

    /// A completion that ended by itself holds the token that ended it, with its log-probability.
    pub(super) fn check_ends<'g>(
        &self,
        groups: impl Iterator<Item = &'g crate::rollout::Group>,
    ) -> Result<()> {
        for rollout in groups.flat_map(|group| &group.rollouts) {
            let completion = &rollout.completion;
            let ends = completion.tokens.last().is_some_and(|t| self.tokenizer.eos().contains(t));
            let is_whole = completion.tokens.len() == completion.logp.len();
            if !is_whole || ends != (completion.finish == Finish::Stop) {
                bail!("self-check: a completion lost its end-of-sequence token; this is a bug");
            }
        }
        Ok(())
    }
}

/// Largest difference; not a number where any is not.
fn worst(some: &[Vec<f32>], others: &[Vec<f32>]) -> f32 {
    let pairs = some.iter().flatten().zip(others.iter().flatten());
    pairs
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst })
}
