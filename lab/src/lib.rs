//! The laboratory: worlds that can be enumerated, where every objective is exact.
//!
//! [`World`] is what can be said and what is correct, [`Class`] what a policy can see, [`Table`] a policy.
//! [`Setting`] runs the objective code of real training on whole distributions instead of samples;
//! [`claim`] writes what each objective should do by the textbook; [`sampled`] runs the real estimators
//! and shows their bias and variance. The worlds are our own design after Dymetman (arXiv
//! 2605.02375), whose own toy is not public.

#![warn(missing_docs)]

pub mod claim;
mod class;
mod class_search;
pub mod decompose;
mod descent;
mod exact;
pub mod fixed_mu;
mod group_claim;
mod measure;
mod member;
pub mod mismatch;
pub mod multisets;
pub mod paper;
pub mod sampled;
mod set_claim;
pub mod sweep;
pub mod tables;
mod update;
mod world;

use anyhow::{Result, bail};

use tealight_learn::objective::{Anchor, Plan, target};

pub use class::{Class, Table};
pub use class_search::ClassSearch;
pub use descent::Descent;
pub use exact::Setting;
pub use measure::{KS, Measures};
pub use member::Family;
pub use world::{WALKS, WORLDS, World};

/// Largest relative difference between an expected gradient and its claim.
const TOLERANCE: f64 = 1e-6;

/// Most samples of a group of which every combination of classes is enumerated.
const MOST_ENUMERATED: usize = 17;

/// Checks, in a moment, that a plan's expected gradient is what it claims, and that beta and validity
/// are each other's inverse. Every training runs this first. Returns what was found, for the log.
///
/// # Errors
/// They are not: a bug, and no run should start.
pub fn self_check(plan: &Plan, name: &str) -> Result<String> {
    let (uncut, is_cut) = without_cut(plan);
    let plan = &uncut;
    let (world, group) = (World::ends(3), plan.rule.smallest_group());
    let mut message = if group > 2
        && multisets::sees_classes_alone(plan)
        && group <= MOST_ENUMERATED
    {
        // Three correct outputs, so that all groups can be told apart by how many of each they hold.
        let small = World::ends(2);
        let table = sampled::off_base(&small, Class::Bigram)?;
        compare(claim::claimed_gradient(&small, &table, plan, group)?, name, || {
            multisets::expected_gradient_of(&small, &table, plan, group)
        })?
    } else if group > 2 {
        "no gradient check: needs larger groups than can be enumerated (`tealight lab --sampled`)"
            .to_owned()
    } else {
        let table = sampled::off_base(&world, Class::Bigram)?;
        compare(claim::claimed_gradient(&world, &table, plan, 2)?, name, || {
            sampled::expected_gradient(&world, &table, plan)
        })?
    };
    if is_cut {
        message.push_str(", without max-reward");
    }
    let validity = world.solve_rate(0);
    for beta in [0.05, 0.3, 2.0] {
        // Z_beta = sum_y a(y) e^(v(y) / beta), enumerated.
        let partition: f64 = (0..world.outputs.len())
            .map(|y| {
                world.base[y] * if world.is_right[0][y] { (1.0_f64 / beta).exp() } else { 1.0 }
            })
            .sum();
        let value = target::best_value(validity, beta);
        if (value - beta * partition.ln()).abs() > 1e-9 {
            bail!("self-check: the closed form of beta {beta} does not hold; this is a bug");
        }
    }
    Ok(message)
}

/// The plan without the cut of large pseudo-rewards, a bias by intent that no claim has; and whether there was one.
fn without_cut(plan: &Plan) -> (Plan, bool) {
    let mut plan = plan.clone();
    let Anchor::Target(matching) = &mut plan.anchor else { return (plan, false) };
    let is_cut = matching.max_reward.is_finite();
    matching.max_reward = f64::INFINITY;
    (plan, is_cut)
}

/// Compares an expected gradient with its claim; says so where there is none.
fn compare(
    claim: Option<Vec<f64>>,
    name: &str,
    expected: impl FnOnce() -> Result<Vec<f64>>,
) -> Result<String> {
    let Some(claim) = claim else {
        return Ok("no gradient check: an update rule that is no gradient".to_owned());
    };
    let size = claim.iter().map(|x| x.abs()).fold(1e-12, f64::max);
    let difference = expected()?.iter().zip(&claim).map(|(a, b)| (a - b).abs() / size).fold(
        0.0,
        // Not `max`, which would overlook what is not a number.
        |worst, x: f64| if x > worst || x.is_nan() { x } else { worst },
    );
    if difference.is_nan() || difference > TOLERANCE {
        bail!(
            "self-check: the gradient of `{name}` is off by {difference:.1e} in the lab; this is a bug"
        );
    }
    Ok(format!("gradient check passed (largest error {difference:.0e})"))
}
