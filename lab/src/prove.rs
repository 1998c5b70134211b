//! What an objective's estimator optimises, by enumeration, beside what it is said to optimise.
//!
//! The world is small enough that every group of G samples is enumerated, so the expected gradient has no sampling
//! error: a difference from the claim's gradient is a bias.

mod claim;
mod fixed_point;

use anyhow::{Result, bail};
use serde::Serialize;

pub use claim::Claim;
pub use fixed_point::{FixedPoint, fixed_point};

use fixed_point::DESCENT;

use super::sampled::{expected_in_groups, off_base};
use super::{Class, World};
use tealight_learn::objective::{Objective, Plan, Rule};

/// Gradients that differ by less than this share are equal: what is left is rounding.
const ROUNDING: f64 = 1e-7;

/// A gradient below this share is none: what is left is rounding.
const NOTHING: f64 = 1e-12;

/// Largest group that is enumerated.
const MOST: usize = 5;

/// The group size where none is given and the objective needs no larger one.
const DEFAULT_GROUP: usize = 4;

/// What was found of an objective.
#[derive(Debug, Clone, Serialize)]
pub struct Proof {
    /// The objective.
    pub objective: String,
    /// What its gradient is compared with.
    pub claim: String,
    /// Samples of a group.
    pub group: usize,
    /// Whether the expected gradient is the claim's.
    pub is_unbiased: bool,
    /// Whether that is of the first step alone: the objective has a schedule, or a rule that reads the step.
    pub is_of_first_step: bool,
    /// Whether a rule reads lengths, which are all equal in the world.
    pub reads_length: bool,
    /// Norm of the difference over that of the claim's gradient.
    pub bias: f64,
    /// Cosine of both gradients.
    pub cosine: f64,
    /// The policy that it leads to, where it has a limit of many samples.
    pub fixed_point: Option<FixedPoint>,
}

/// Three prompts of unequal difficulty over 27 outputs: whatever weighs prompts by their validity shows.
fn world() -> World {
    let initial = [0.5, 0.3, 0.2];
    let rows = [vec![0.6, 0.3, 0.1], vec![0.2, 0.5, 0.3], vec![0.3, 0.3, 0.4]];
    World::new("proof", 3, &initial, &rows, 3, |prompt, y| match prompt {
        0 => y[0] == y[2],
        1 => y[0] == y[1] && y[1] == y[2],
        _ => y[0] != 1,
    })
}

/// Compares the objective with a claim, without one with its own definition, in groups of `group` samples, without one
/// of four or as many as the objective needs.
///
/// # Errors
/// A group that is too small for the objective, or too large to enumerate; a claim that is none, or is infinite; a
/// claim or an objective without a gradient.
pub fn prove(objective: &Objective, claim: Option<&str>, group: Option<usize>) -> Result<Proof> {
    let plan = &objective.plan;
    let least = plan.smallest_group();
    if least > MOST {
        bail!(
            "`{objective}`: its rule needs groups of {least}, and groups of at most {MOST} are enumerated; choose a \
             k of at most {}",
            MOST - 1
        );
    }
    let group = group.unwrap_or(DEFAULT_GROUP.max(least));
    if group < least || group > MOST {
        bail!(
            "`{objective}`: --num-generations must be {least} to {MOST}, not {group}: {least} samples are the fewest \
             that its rule takes"
        );
    }
    objective.open(group)?;
    let world = world();
    let table = off_base(&world, Class::Full)?;
    let claim = match claim {
        Some(text) => text.parse()?,
        None => Claim::of_plan(plan)?,
    };
    claim.check()?;
    let found = ascent(&world, plan, &expected_in_groups(&world, &table, plan, group)?);
    let exact = claim.gradient(&world, &table)?;
    let size: f64 = claim.terms.iter().map(|(by, _)| by.abs()).sum();
    if !norm(&exact).is_finite() {
        bail!("claim `{claim}`: its gradient is not finite; a larger beta of p_beta may do");
    }
    if norm(&exact) <= NOTHING * size {
        bail!("claim `{claim}`: its gradient is 0, so that nothing can be compared with it");
    }
    if !norm(&found).is_finite() {
        bail!("`{objective}`: its gradient is not finite in groups of {group}");
    }
    if norm(&found) <= NOTHING * norm(&exact) {
        bail!("`{objective}`: no gradient in groups of {group}");
    }
    let bias = norm(&less(&found, &exact)) / norm(&exact);
    Ok(Proof {
        objective: objective.to_string(),
        claim: claim.to_string(),
        group,
        is_unbiased: bias < ROUNDING,
        is_of_first_step: plan.rule.as_ref().is_some_and(Rule::reads_time),
        reads_length: plan.rule.as_ref().is_some_and(|rule| rule.reads("length")),
        bias,
        cosine: dot(&found, &exact) / (norm(&found) * norm(&exact)),
        fixed_point: None,
    })
}

impl Proof {
    /// What was found in words, line by line.
    pub fn sentences(&self) -> Vec<String> {
        let Self { claim, group, bias, cosine, .. } = self;
        let at = match (self.is_of_first_step, self.reads_length) {
            (_, true) => " among completions of one length",
            (true, _) => " at the first step",
            _ => "",
        };
        let mut lines = match self.is_unbiased {
            true => vec![format!(
                "Unbiased for {claim}{at}: the expected gradient of groups of {group} is that of the claim \
                 (difference {bias:.1e}, by enumeration)."
            )],
            false => vec![format!(
                "Biased for {claim}{at}: the expected gradient of groups of {group} has a relative error of {bias:.3} \
                 (cosine with the claim's gradient: {cosine:.4})."
            )],
        };
        if self.reads_length {
            lines.push(
                "Not tested: all completions of the world have 3 tokens, so that a term in `length` is a constant there."
                    .to_owned(),
            );
        }
        if let Some(point) = &self.fixed_point {
            let (what, kl) = match point.kl_pstar_q {
                Some(kl) => ("Optimum q".to_owned(), format!("KL(p* || q) = {kl:.3} nats, ")),
                None => (format!("Policy q after {DESCENT} steps from the base"), String::new()),
            };
            lines.push(format!(
                "{what} on the toy task `ends`: accuracy {:.3}, effective number of correct answers {:.1} \
                 (base: {:.1}; forward KL to p*: {:.1}, at accuracy {:.3}). \
                 {kl}KL(q || a) = {:.3} nats. a is the base, p* the base conditioned on a correct answer; the \
                 effective number is exp(entropy) of q over its correct answers.",
                point.validity,
                point.effective_valid,
                point.base_effective_valid,
                point.forward_kl.0,
                point.forward_kl.1,
                point.kl_q_base
            ));
        }
        lines
    }
}

/// The gradient of what a claim is about, of that of the loss, which falls where the claim grows; losses of tokens are
/// means over the length.
fn ascent(world: &World, plan: &Plan, loss: &[f64]) -> Vec<f64> {
    let length = if plan.is_on_policy() { world.length() as f64 } else { 1.0 };
    loss.iter().map(|one| -length * one).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn less(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
mod tests;
