//! Prompt interference as steps log it where asked (`--log-interference`): inner products of the gradients of single
//! prompts' pass rates, from a step's own groups. Nothing else of a step depends on it.
//!
//! Each of at most [`PROMPTS`] groups costs a forward and a backward pass of its own. Of every gradient at most
//! [`COORDINATES`] numbers are kept, every n-th, and products are scaled by n.

use anyhow::Result;
use candle_core::Tensor;
use serde::Serialize;

use super::run::Run;
use crate::objective::Offsets;
use crate::rollout::Group;
use crate::train::step::{column, lengths, micro_batches};
use tealight_nn::policy::{GradAccumulator, Sequence};

/// Most prompts of a step whose gradients are compared.
const PROMPTS: usize = 8;
/// Most numbers that are kept of a gradient.
const COORDINATES: usize = 1 << 20;

/// Inner products of the gradients of a step's prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PromptInterference {
    /// Prompts that were compared: those with correct and incorrect completions, which alone have a gradient.
    #[serde(rename = "interference/prompts")]
    pub prompts: usize,
    /// Mean over pairs of the inner product of the gradients of their pass rates.
    #[serde(rename = "interference/inner_product")]
    pub inner_product: Option<f64>,
    /// Mean over pairs of the cosine.
    #[serde(rename = "interference/cosine")]
    pub cosine: Option<f64>,
    /// Share of pairs with a negative one.
    #[serde(rename = "interference/negative")]
    pub negative: Option<f64>,
}

/// Whether it is logged of a step.
pub(super) fn is_logged(run: &Run<'_>, step: usize) -> bool {
    let every = run.config.settings.log_interference;
    every > 0 && step.is_multiple_of(every)
}

/// Of a step's groups, whose completions stand one after the other in `sequences`.
pub(super) fn measure(
    run: &Run<'_>,
    groups: &[Group],
    sequences: &[Sequence],
) -> Result<PromptInterference> {
    let offsets = Offsets::new(groups.iter().map(|group| group.rollouts.len()));
    let mixed = (0..groups.len()).filter(|group| {
        let correct = groups[*group].rollouts.iter().filter(|rollout| rollout.is_correct()).count();
        correct > 0 && correct < groups[*group].rollouts.len()
    });
    let chosen: Vec<usize> = mixed.take(PROMPTS).collect();
    let parameters: usize = run.policy.weights().values().map(|weight| weight.elem_count()).sum();
    let stride = parameters.div_ceil(COORDINATES);
    let mut gradients = Vec::with_capacity(chosen.len());
    for (number, group) in chosen.iter().enumerate() {
        // Ranks take prompts in turn, and all have all gradients.
        let mut local = Vec::new();
        if number % run.ranks.size() == run.ranks.rank() {
            let rows = &sequences[offsets.span(*group..*group + 1)];
            local = gradient(run, &groups[*group], rows, stride)?;
        }
        gradients.push(match run.ranks.size() {
            1 => local,
            _ => run.ranks.gather_numbers(local)?.concat(),
        });
    }
    Ok(compared(&gradients, stride as f64))
}

/// Every `stride`-th number of the leave-one-out estimate of the gradient of a prompt's pass rate.
fn gradient(run: &Run<'_>, group: &Group, rows: &[Sequence], stride: usize) -> Result<Vec<f32>> {
    let settings = &run.config.settings;
    let correct: Vec<f64> =
        group.rollouts.iter().map(|rollout| f64::from(rollout.is_correct())).collect();
    let (sum, count) = (correct.iter().sum::<f64>(), correct.len() as f64);
    let advantage = |v: &f64| (v - (sum - v) / (count - 1.0)) / count;
    let advantages: Vec<f64> = correct.iter().map(advantage).collect();
    let mut grads = GradAccumulator::default();
    for pass in micro_batches(rows, settings.micro_batch_tokens) {
        let part = &rows[pass.clone()];
        let forward = run.policy.forward(part, settings.temperature, None)?;
        let weight = Offsets::new(lengths(part)).spread(&advantages[pass]);
        let chance: Tensor = (forward.logp() * column(&weight, run.device())?)?.sum_all()?;
        run.policy.backward(forward, &chance, &mut grads)?;
    }
    let (mut strided, mut place) = (Vec::new(), 0);
    for values in grads.tensors()?.values() {
        let values = values.to_device(&candle_core::Device::Cpu)?.to_vec1::<f32>()?;
        for value in values {
            if place % stride == 0 {
                strided.push(value);
            }
            place += 1;
        }
    }
    Ok(strided)
}

/// The means over all pairs, products times `scale`.
fn compared(gradients: &[Vec<f32>], scale: f64) -> PromptInterference {
    let product = |some: &[f32], other: &[f32]| -> f64 {
        scale * some.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
    };
    let norms: Vec<f64> = gradients.iter().map(|g| product(g, g).sqrt()).collect();
    let (mut products, mut cosines) = (Vec::new(), Vec::new());
    for some in 0..gradients.len() {
        for other in some + 1..gradients.len() {
            let inner = product(&gradients[some], &gradients[other]);
            products.push(inner);
            cosines.push(inner / (norms[some] * norms[other]).max(f64::MIN_POSITIVE));
        }
    }
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let negative: Vec<f64> = products.iter().map(|x| f64::from(u8::from(*x < 0.0))).collect();
    PromptInterference {
        prompts: gradients.len(),
        inner_product: mean(&products),
        cosine: mean(&cosines),
        negative: mean(&negative),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_compared_by_their_angle() {
        let found = compared(&[vec![1.0, 0.0], vec![0.0, 2.0], vec![-1.0, 1.0]], 3.0);
        assert_eq!((found.prompts, found.inner_product), (3, Some((0.0 - 3.0 + 6.0) / 3.0)));
        let half = 0.5_f64.sqrt();
        assert!((found.cosine.unwrap() - (0.0 - half + half) / 3.0).abs() < 1e-12);
        assert_eq!(found.negative, Some(1.0 / 3.0));
        assert_eq!(compared(&[vec![1.0]], 1.0).cosine, None);
        assert_eq!(compared(&[], 1.0), PromptInterference::default());
    }
}
