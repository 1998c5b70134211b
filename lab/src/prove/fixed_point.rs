//! Where an objective leads on the world `ends`.

use anyhow::Result;
use serde::Serialize;

use super::claim::Claim;
use super::{ROUNDING, ascent, less, norm};
use crate::sampled::off_base;
use crate::{Class, Descent, Measures, Point, Search, Setting, Table, World};
use tealight_learn::objective::{Divergence, Plan, Rule};

/// Steps of the descent where no optimum is known.
pub(super) const DESCENT: usize = 6000;

/// The policy that an objective leads to on the world `ends`.
#[derive(Debug, Clone, Serialize)]
pub struct FixedPoint {
    /// Chance of a correct output.
    pub validity: f64,
    /// Effective number of correct outputs.
    pub effective_valid: f64,
    /// The same of the base.
    pub base_effective_valid: f64,
    /// `KL(p* || q)` in nats at the optimum; none where the policy is what 6000 steps from the base lead to.
    pub kl_pstar_q: Option<f64>,
    /// `KL(q || a)` in nats, the distance from p_beta being `log Z_beta - J / beta`.
    pub kl_q_base: f64,
    /// Effective number of correct outputs of forward KL to p*, whose validity is beside it.
    pub forward_kl: (f64, f64),
}

/// The optimum where the objective's exact gradient is that of a penalised reward or of a divergence to a target, else
/// where descending its exact loss on the world `ends` leads; none where a rule reads groups or the step.
///
/// # Errors
/// Memory.
pub fn fixed_point(plan: &Plan) -> Result<Option<FixedPoint>> {
    let world = World::named("ends")?;
    let search = Search::new(&world, Class::Bigram)?;
    let Some((found, is_optimum)) = reached(&world, &search, plan)? else { return Ok(None) };
    let forward = at(&world, &search, Point::Filtered(Divergence::ForwardKl))?;
    let base = Measures::new(&world, std::slice::from_ref(&world.base));
    Ok(Some(FixedPoint {
        validity: found.validity,
        effective_valid: found.effective_valid,
        base_effective_valid: base.effective_valid,
        kl_pstar_q: is_optimum.then_some(found.kl_pstar_q),
        kl_q_base: found.kl_q_base,
        forward_kl: (forward.effective_valid, forward.validity),
    }))
}

/// The policy that the plan leads to, and whether it is known to be the optimum.
fn reached(world: &World, search: &Search<'_>, plan: &Plan) -> Result<Option<(Measures, bool)>> {
    let Ok(setting) = Setting::new(world, plan) else { return Ok(None) };
    if plan.rule.as_ref().is_some_and(Rule::reads_time) {
        return Ok(None);
    }
    // A beta that is too small to search at is left to the descent.
    if let Some(optimum) = point(&setting)?.and_then(|point| at(world, search, point).ok()) {
        return Ok(Some((optimum, true)));
    }
    let table = Table::base(world, Class::Bigram)?;
    Descent { iterations: DESCENT, ..Descent::default() }
        .run(&table, |table| setting.gradient(table))?;
    Ok(Some((Measures::new(world, &table.distributions(world)?), false)))
}

fn at(world: &World, search: &Search<'_>, point: Point) -> Result<Measures> {
    Ok(Measures::new(world, &search.optimum(point)?.distributions))
}

/// The point whose gradient, off the base, is the exact one of the objective.
fn point(setting: &Setting<'_>) -> Result<Option<Point>> {
    let (world, plan) = (setting.world, setting.plan);
    let Ok(claim) = Claim::of_plan(plan) else { return Ok(None) };
    let Some(point) = claim.point() else { return Ok(None) };
    let table = off_base(world, Class::Bigram)?;
    let ours = ascent(world, plan, &setting.gradient(&table)?);
    let exact = claim.gradient(world, &table)?;
    Ok((norm(&less(&ours, &exact)) < ROUNDING * norm(&exact)).then_some(point))
}
