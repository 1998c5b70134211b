//! Curves: a measure of diversity as a function of Pass@1 along training, and which objective's curve lies above.
//!
//! The curve of an objective begins at the base and passes through the mean of its seeds at each evaluated checkpoint:
//! Pass@1 against the measure, on held-out problems. All checkpoints are used and none is chosen. Between checkpoints
//! it is a cubic in the training step (`path`). **Estimand** of two objectives: the mean difference of their curves
//! over the Pass@1 that both reach, from a quarter of the way above the base on.
//!
//! The difference is a smooth function of the mean scores, so each problem under each seed has a linearised part in it
//! (`linear`), and the two-way analysis of seeds and problems gives its variance ([`crate::inference`]). Tests
//! are declared before: every trained objective against the reference on one measure. All other
//! differences are descriptive.

mod band;
mod data;
mod linear;
mod path;
mod plain;
mod power;
mod result;
#[cfg(test)]
mod simulation;
mod tuning;
mod verdict;
#[cfg(test)]
mod world;

use anyhow::Result;

pub use crate::inference::Variances;
pub use data::{Answers, Checkpoint, Measure, ProblemCounts, Request, RunPath};
pub use plain::plain;
pub use power::{POWER, plan};
pub use result::{BandPoint, BasePoint, Comparison, Curve, CurvePoint, Curves, Power, Verdict};
pub use tuning::{Tried, Tuning};
pub use verdict::power_line;
pub(crate) use verdict::{ONE_SEED, short};

use linear::Contender;
#[cfg(test)]
pub(crate) use world::study_of_three;

/// Fewest problems that a comparison is over.
pub const LEAST_PROBLEMS: usize = 10;

/// Compares the curves of `paths`, all of which begin at `base`.
///
/// # Errors
/// No paths; checkpoints on other problems than the base; a measure that too few problems have; two configurations of
/// one objective; a reference that is no objective.
pub fn curves(base: &[Answers], paths: &[RunPath], request: &Request) -> Result<Curves> {
    let gaps = |objective: &str, place: usize| data::gap(base, paths, (objective, place));
    let (base, contenders) = data::contenders(base, paths, request)?;
    let reference = data::reference(&contenders, request)?;
    let mut all = Curves {
        measure: request.measure,
        is_exact: request.is_exact,
        is_tested: request.is_tested,
        confidence: request.confidence,
        problems: base.len(),
        base: band::base(&base, request),
        reference: contenders[reference].objective.clone(),
        curves: contenders.iter().map(|one| band::curve(one, &base, request)).collect(),
        comparisons: comparisons(&contenders, &base, reference, request),
        verdict: Verdict { power: None, text: String::new() },
    };
    for curve in &mut all.curves {
        for (place, point) in curve.points.iter_mut().enumerate() {
            point.gap = gaps(&curve.objective, place);
        }
    }
    all.verdict = verdict::verdict(&all);
    Ok(all)
}

/// Every contender against the reference, then all other pairs; Holm's adjustment over those that are tested.
fn comparisons(
    contenders: &[Contender],
    base: &[(f64, f64)],
    reference: usize,
    request: &Request,
) -> Vec<Comparison> {
    let others = || (0..contenders.len()).filter(move |index| *index != reference);
    let pairs = others().flat_map(|first| {
        others().filter(move |second| first < *second).map(move |second| (first, second))
    });
    let all = others().map(|first| (first, reference)).chain(pairs);
    let compared = |(first, second): (usize, usize)| {
        let [one, other] = [first, second].map(|index| &contenders[index]);
        let is_primary = request.is_tested && second == reference && one.is_trained();
        linear::comparison(one, other, base, is_primary, request)
    };
    let mut all: Vec<Comparison> = all.map(compared).collect();
    // Only the declared tests are adjusted for; descriptive differences have no p-value.
    let p_values: Vec<f64> = all.iter().filter_map(|one| one.p_value).collect();
    let mut adjusted = crate::inference::holm(&p_values).into_iter();
    for one in all.iter_mut().filter(|one| one.p_value.is_some()) {
        one.p_holm = adjusted.next();
        let is_small = one.p_holm.is_some_and(|p| p < 1.0 - request.confidence);
        one.is_significant = is_small && one.seeds != 1;
    }
    all
}
