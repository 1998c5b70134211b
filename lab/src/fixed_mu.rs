//! One target validity mu, bases of falling validity: beta falls with them. What becomes of distinct answers, in a
//! class that can represent p_beta and in one that cannot.
//!
//! Bases get weaker in two ways ([`Series`]). Where only the mass of correct outputs falls, p* stays as it is, and so
//! does p_beta: with `logit A' = logit A - c`, `beta' = 1 / (logit mu - logit A')` and `J' = m - beta' KL(q || a')`
//! one finds `J' / beta' = (logit mu - logit A) m - KL(q || a) + constant`, which does not depend on c. In every
//! class the optimum is then the same at every base, however small beta has become.

use anyhow::{Result, bail};
use rayon::prelude::*;
use serde::Serialize;

use super::member::Member;
use super::search::{best, ends, log_target};
use super::{Class, Measures, World};
use tealight_learn::objective::Divergence;
use tealight_learn::objective::target::beta_for;

/// Halvings of the interval that the class's own beta is sought in.
const HALVINGS: usize = 24;

/// The way in which bases get weaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// Right outputs lose mass in proportion: the same p*.
    SameTarget,
    /// The likeliest correct outputs count as incorrect: the same base, another p*.
    RarerAnswers,
}

/// One base at the target validity. Pairs are of the class that can represent p_beta, then of the restricted one.
#[derive(Debug, Clone, Serialize)]
pub struct FixedMu {
    /// The world's name.
    pub world: String,
    /// The way in which bases get weaker.
    pub series: Series,
    /// Name of the restricted class.
    pub policies: String,
    /// The base's validity A.
    pub base_validity: f64,
    /// Target validity.
    pub mu: f64,
    /// The beta at which p_beta is correct with chance mu.
    pub beta: f64,
    /// Effective number of correct outputs of p*.
    pub effective_pstar: f64,
    /// The chance of a correct output at the optimum of beta.
    pub validity: [f64; 2],
    /// Effective number of correct outputs there.
    pub effective_valid: [f64; 2],
    /// Expected distinct correct outputs among 256 samples there.
    pub distinct: [f64; 2],
    /// The beta at which the restricted class itself is correct with chance mu; none where that was not found.
    pub class_beta: Option<f64>,
    /// The chance of a correct output at that beta; above mu where the optimum jumps.
    pub class_validity: Option<f64>,
    /// Effective number of correct outputs there.
    pub class_effective_valid: Option<f64>,
}

impl FixedMu {
    /// An effective number of correct outputs as a share of p*'s.
    pub fn share(&self, effective_valid: f64) -> f64 {
        effective_valid / self.effective_pstar
    }
}

/// Every base of both series at one target, in a world of one prompt.
///
/// # Errors
/// A target that no beta reaches.
pub fn fixed_mu(world: &World, class: Class, mu: f64, validities: &[f64]) -> Result<Vec<FixedMu>> {
    if let Some(other) = validities.iter().find(|validity| !(**validity > 0.0 && **validity < mu)) {
        bail!("base validities must be above 0 and below the target {mu}, not {other}");
    }
    let all = [Series::SameTarget, Series::RarerAnswers];
    let cells: Vec<(Series, f64)> =
        all.iter().flat_map(|series| validities.iter().map(|v| (*series, *v))).collect();
    cells
        .into_par_iter()
        .map(|(series, validity)| {
            let harder = match series {
                Series::SameTarget => world.tilted(validity),
                Series::RarerAnswers => world.rarer(validity),
            };
            row(world, &harder, (series, class), mu)
        })
        .collect()
}

fn row(
    easier: &World,
    world: &World,
    (series, class): (Series, Class),
    mu: f64,
) -> Result<FixedMu> {
    let base_validity = world.base_validity(0);
    let beta = beta_for(base_validity, mu)?;
    let measures = |q: Vec<f64>| Measures::new(world, &[q]);
    let target: Vec<f64> = log_target(world, beta).iter().map(|log_p| log_p.exp()).collect();
    let full = Member::new(world, Class::Full)?;
    let exact = full.projected(&[target])?;
    let full = measures(full.policy(&exact).distributions(world).remove(0));
    let restricted = ClassConstraint { member: Member::new(world, class)?, easier };
    let (at, optimum) = restricted.optimum(beta, Vec::new())?;
    let reached = restricted.reaching(mu, beta, at)?;
    let at_optimum =
        |value: fn(&Measures) -> f64| reached.as_ref().map(|(_, optimum)| value(optimum));
    Ok(FixedMu {
        world: world.name.clone(),
        series,
        policies: class.to_string(),
        base_validity,
        mu,
        beta,
        effective_pstar: measures(world.filtered(0)).effective_valid,
        validity: [full.validity, optimum.validity],
        effective_valid: [full.effective_valid, optimum.effective_valid],
        distinct: [full.unique_valid_256, optimum.unique_valid_256],
        class_beta: reached.as_ref().map(|(beta, _)| *beta),
        class_validity: at_optimum(|optimum| optimum.validity),
        class_effective_valid: at_optimum(|optimum| optimum.effective_valid),
    })
}

/// A class that is searched at several betas.
struct ClassConstraint<'a> {
    member: Member<'a>,
    /// The world before it was made harder, whose base may be in the class.
    easier: &'a World,
}

impl ClassConstraint<'_> {
    /// The optimum of `E[v] - beta KL(q || a)` in the class, sought from the base and from `starts`.
    fn optimum(&self, beta: f64, mut starts: Vec<Vec<f64>>) -> Result<(Vec<f64>, Measures)> {
        let (member, world) = (&self.member, self.member.world);
        let log_p = log_target(world, beta);
        starts.push(member.start());
        for towards in [self.easier.base.clone(), log_p.iter().map(|log_p| log_p.exp()).collect()] {
            starts.push(member.projected(&[towards])?);
        }
        let ends = ends(member, starts, (Divergence::ReverseKl, &log_p));
        let at = &best(&ends, Divergence::ReverseKl, member)?.at;
        let q = member.policy(at).distributions(world);
        Ok((at.clone(), Measures::new(world, &q)))
    }

    /// The largest beta found whose optimum is correct with chance `mu` or more: the class needs a smaller one than
    /// p_beta.
    fn reaching(&self, mu: f64, beta: f64, start: Vec<f64>) -> Result<Option<(f64, Measures)>> {
        let (mut high, mut low, mut at) = (beta, beta, start);
        let mut optimum = None;
        for _ in 0..12 {
            let (next, measures) = self.optimum(low, vec![at.clone()])?;
            at = next;
            if measures.validity >= mu {
                optimum = Some((low, measures));
                break;
            }
            high = low;
            low *= 0.5;
        }
        if optimum.is_none() || high == low {
            return Ok(optimum);
        }
        for _ in 0..HALVINGS {
            // Bisection in log beta: validity at the optimum falls with beta, by jumps where optima change.
            let middle = (high * low).sqrt();
            let (_, measures) = self.optimum(middle, vec![at.clone()])?;
            if measures.validity >= mu {
                (low, optimum) = (middle, Some((middle, measures)));
            } else {
                high = middle;
            }
        }
        Ok(optimum)
    }
}
