//! The six claims of arXiv 2605.02375 (Dymetman) on a world of one prompt -> numbers by enumeration, and for each a
//! verdict that a stated rule draws from them.
//!
//! `v` is 1 for a correct output, `a` the base, `A` its validity, `p* = a(. | v = 1)`, and `p_beta` is proportional to
//! `a e^(v / beta)`. The paper's own toy is not public, so the worlds, the grids and the rules are ours.

mod collapse;
mod degeneracy;
mod fixed_target;
mod limit;
mod link;

use anyhow::{Result, bail};
use serde::Serialize;

use super::measure::kl;
use super::{Class, Measures, World};

pub use collapse::{Collapse, EqualValidity, Row};
pub use degeneracy::{Degeneracy, Maximiser};
pub use fixed_target::FixedTarget;
pub use limit::{Direction, Limit, LimitRow, Model};
pub use link::{Link, LinkRow};

/// The world's own base, and bases that are correct so much more rarely: in the claims (d) and (e).
const WEAKER: [f64; 3] = [1.0, 10.0, 100.0];

/// The thresholds of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rules {
    /// Largest distance of an enumeration from its closed form.
    pub rounding: f64,
    /// Least total variation between two policies that count as different.
    pub different: f64,
    /// Largest chance of an incorrect output after gradient ascent on the reward alone.
    pub incorrect: f64,
    /// Largest `KL(p* || p_beta)` at the smallest beta, in nats.
    pub limit: f64,
    /// Least relative difference that counts.
    pub relative: f64,
    /// Largest share of p*'s effective number of correct outputs that counts as collapsed.
    pub collapsed: f64,
    /// Least share of p*'s effective number of correct outputs that counts as covered.
    pub covered: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            rounding: 1e-9,
            different: 0.1,
            incorrect: 1e-3,
            limit: 1e-6,
            relative: 0.05,
            collapsed: 0.1,
            covered: 0.8,
        }
    }
}

/// A claim, the rule that judges it, and what the rule says of the numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim as a sentence.
    pub claim: String,
    /// The rule, with its thresholds.
    pub rule: String,
    /// Whether the numbers satisfy the rule.
    pub holds: bool,
    /// "holds: ..." or "does not hold here: ...", with the numbers.
    pub sentence: String,
    /// Whether the claim is what we read into the paper, and not its own.
    pub is_reading: bool,
}

impl Verdict {
    /// The verdict of a rule; `numbers` says what was found, in words that fit both outcomes.
    fn new(claim: &str, rule: String, holds: bool, numbers: &str) -> Self {
        let outcome = if holds { "holds" } else { "does not hold here" };
        let sentence = format!("{outcome}: {numbers}");
        Self { claim: claim.to_owned(), rule, holds, sentence, is_reading: false }
    }
}

/// The experiment.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The world, of one prompt.
    pub world: &'a World,
    /// The restricted class of policies.
    pub class: Class,
    /// Seed of the random policies of [`Degeneracy`].
    pub seed: u64,
    /// Target validity of [`FixedTarget`].
    pub target_validity: f64,
    /// The thresholds of the rules.
    pub rules: Rules,
}

/// The numbers and verdicts of all six claims.
#[derive(Debug, Clone, Serialize)]
pub struct Claims {
    /// Many policies maximise the reward.
    pub degeneracy: Degeneracy,
    /// `p_beta` tends to p* in forward KL.
    pub limit: Limit,
    /// `KL(q || p*)` is infinite.
    pub direction: Direction,
    /// beta and validity determine each other.
    pub link: Link,
    /// Weaker bases at one target validity.
    pub fixed_target: FixedTarget,
    /// The collapse in a class that cannot represent `p_beta`, beside divergences to p*.
    pub collapse: Collapse,
}

/// Computes and judges every claim.
///
/// # Errors
/// A world of several prompts, a target validity that is not above the base's, a search that fails.
pub fn claims(request: &Request<'_>) -> Result<Claims> {
    if request.world.is_right.len() > 1 {
        bail!(
            "the claims are about one prompt: choose the world ends or dyck, or a FILE.toml with one `right`"
        );
    }
    let collapse = Collapse::new(request)?;
    Ok(Claims {
        degeneracy: Degeneracy::new(request)?,
        limit: Limit::new(request),
        direction: Direction::new(request, &collapse)?,
        link: Link::new(request)?,
        fixed_target: FixedTarget::new(request)?,
        collapse,
    })
}

/// `p_beta`, output by output: the base's weights times `e^(v / beta)`, divided by their sum.
fn tilted(world: &World, beta: f64) -> Vec<f64> {
    // e^((v - 1) / beta) does not overflow, and the sum takes the constant out.
    let weight = |(a, right): (&f64, &bool)| if *right { *a } else { a * (-1.0 / beta).exp() };
    let weights: Vec<f64> = world.base.iter().zip(&world.is_right[0]).map(weight).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// The total variation of two distributions.
fn total_variation(p: &[f64], q: &[f64]) -> f64 {
    0.5 * p.iter().zip(q).map(|(p, q)| (p - q).abs()).sum::<f64>()
}

fn measures(world: &World, q: &[f64]) -> Measures {
    Measures::new(world, &[q.to_vec()])
}

/// A number in a sentence.
fn short(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        size if size < 1e-3 => format!("{x:.0e}"),
        size if size < 10.0 => format!("{x:.3}"),
        _ => format!("{x:.1}"),
    }
}
