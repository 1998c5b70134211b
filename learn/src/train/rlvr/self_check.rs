//! The invariants before the first step, checked at the start of every run.

use anyhow::{Context, Result, bail};
use candle_core::{Tensor, Var};

use super::batch::TokenBatch;
use super::run::Run;
use super::update::scalar;
use crate::objective::{Completions, LossInputs};
use crate::rollout::Group;
use crate::train::step::{DropoutCounter, lengths, micro_batches};
use tealight_nn::generate::Finish;
use tealight_nn::model::Decoder;
use tealight_nn::policy::{Forward, GradAccumulator, Sequence, on_host, rounding, token_logp};

/// Largest number of stored completions that are looked at.
const STORED: usize = 256;

/// Checks the invariants before the first step: the importance ratio is 1, the policy is the base, stored completions
/// are the base's, nothing depends on the batch, and every weight has a gradient.
pub(super) fn check_start(
    run: &Run<'_>,
    batch: Option<&TokenBatch>,
    dropout_counter: &mut DropoutCounter,
) -> Result<()> {
    let (scorer, temperature) = (run.scorer(), run.config.settings.temperature);
    let limit = rounding(run.policy.decoder()) as f32;
    // Where the base is not held, the policy took its weights over and is the base until the first update.
    let base = run.reference.unwrap_or(run.policy.decoder());
    let stored = check_stored(run, base, limit)?;
    let sequences: Vec<&Sequence> = match batch {
        Some(batch) => batch.sequences.iter().collect(),
        None => stored,
    };
    let first = micro_batches(&sequences, run.config.settings.micro_batch_tokens).remove(0);
    let sequences = &sequences[first.clone()];
    let forward = run.policy.forward(sequences, temperature, dropout_counter.next())?;
    let policy_logp = on_host(forward.logp())?;
    if let Some(batch) = batch {
        let difference = largest_difference(&policy_logp, batch.logp(first.clone()).0);
        if difference.is_nan() || difference > limit {
            bail!(
                "self-check: rollout and training disagree on log-probabilities by {difference:.1e}; this is a bug"
            );
        }
    }
    let difference = largest_difference(&policy_logp, &scorer.logp(base, sequences)?);
    if difference.is_nan() || difference > limit {
        bail!(
            "self-check: the policy does not start at the base (log-probabilities differ by {difference:.1e})"
        );
    }
    let alone = on_host(&token_logp(run.policy.decoder(), &sequences[..1], temperature)?.logp)?;
    let difference = largest_difference(&alone, &policy_logp);
    if difference.is_nan() || difference > limit {
        bail!(
            "self-check: log-probabilities depend on the batch (by {difference:.1e}); this is a bug"
        );
    }
    let loss = match batch {
        None => forward.logp().sum_all()?,
        Some(batch) => checked_loss(run, batch.logp(first).1, lengths(sequences), &forward)?,
    };
    check_gradient(run, forward, &loss)
}

/// The stored completions that are looked at, whose log-probabilities must be the base's.
fn check_stored<'a>(run: &'a Run<'_>, base: &Decoder, limit: f32) -> Result<Vec<&'a Sequence>> {
    let stored = &run.data.rehearsal[..run.data.rehearsal.len().min(STORED)];
    let sequences: Vec<&Sequence> = stored.iter().map(|item| &item.sequence).collect();
    if !stored.is_empty() {
        let logp: Vec<f32> = stored.iter().flat_map(|item| &item.logp).copied().collect();
        let difference = largest_difference(&run.scorer().logp(base, &sequences)?, &logp);
        if difference.is_nan() || difference > limit {
            bail!(
                "self-check: the stored pre-samples were not drawn from this base \
                 (log-probabilities differ by {difference:.1e}); draw them again"
            );
        }
    }
    Ok(sequences)
}

/// Every weight has a finite gradient that is not zero.
fn check_gradient(run: &Run<'_>, forward: Forward, loss: &Tensor) -> Result<()> {
    let mut gradients = GradAccumulator::default();
    run.policy.backward(forward, loss, &mut gradients)?;
    for name in run.policy.weights().keys() {
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

/// The loss that trains, with advantages of 1: at ratio 1 its slope in the log-probability of a token must be minus the
/// token's weighted advantage, whatever the trust region, and what the regulariser adds.
fn checked_loss(
    run: &Run<'_>,
    base_logp: Option<&[f32]>,
    lengths: Vec<usize>,
    forward: &Forward,
) -> Result<Tensor> {
    let device = run.device();
    let behavior_logp = forward.logp().detach();
    let logp = Var::from_tensor(&behavior_logp)?;
    let ones = logp.ones_like()?;
    let base_logp = base_logp.map(|logp| Tensor::from_slice(logp, logp.len(), device));
    let (base_logp, completions) = (base_logp.transpose()?, Completions::new(lengths, device)?);
    let inputs = |policy_logp| LossInputs {
        completions: &completions,
        policy_logp,
        behavior_logp: &behavior_logp,
        reference_logp: base_logp.as_ref(),
        advantage: &ones,
        weight: &ones,
        penalty_weight: None,
        kl_cov_mask: None,
    };
    // d loss / d log pi = -A at ratio 1, where every clip is inactive.
    let slopes = run.plan.loss(&inputs(logp.as_tensor()))?.total.backward()?.remove(&logp);
    let slopes = slopes.context("self-check: the loss does not depend on the policy")?;
    let difference = scalar(&(slopes + 1.0)?.abs()?.max(0)?)?;
    if difference.is_nan() || difference > 1e-4 {
        bail!(
            "self-check: the loss is not the policy gradient at ratio 1, by {difference:.1e}; this is a bug"
        );
    }
    Ok(run.plan.loss(&inputs(forward.logp()))?.total)
}

/// A completion that ended by itself holds the token that ended it, with its log-probability.
pub(super) fn check_ends(run: &Run<'_>, groups: &[Group]) -> Result<()> {
    for rollout in groups.iter().flat_map(|group| &group.rollouts) {
        let completion = &rollout.completion;
        let ends = completion.tokens.last().is_some_and(|t| run.tokenizer.eos().contains(t));
        let is_aligned = completion.tokens.len() == completion.logp.len();
        if !is_aligned || ends != (completion.finish == Finish::Stop) {
            bail!("self-check: a completion lost its end-of-sequence token; this is a bug");
        }
    }
    Ok(())
}

/// Largest difference over the shorter column; not a number where any is not.
fn largest_difference(some: &[f32], others: &[f32]) -> f32 {
    let differences = some.iter().zip(others).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst })
}
