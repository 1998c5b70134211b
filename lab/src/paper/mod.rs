//! The six claims of arXiv 2605.02375 (Dymetman) on a world of one prompt -> their numbers, by enumeration and by the
//! closed form where there is one.
//!
//! `v` is 1 for a correct output, `a` the base, `A` its validity, `p* = a(. | v = 1)`, and `p_beta` is proportional to
//! `a e^(v / beta)`. The paper's own toy is not public, so the worlds and the grids are ours.

mod collapse;
mod degeneracy;
mod limit;
mod link;

use anyhow::{Result, bail};
use serde::Serialize;

use super::fixed_mu::{FixedMu, fixed_mu};
use super::measure::kl;
use super::{Class, Measures, World};

pub use collapse::{Collapse, EqualValidity, Row};
pub use degeneracy::{Degeneracy, Maximiser};
pub use limit::{LimitRow, Model};
pub use link::LinkRow;

/// The world's own base, and bases that are correct so much more rarely: in the claims (d) and (e).
const WEAKER: [f64; 3] = [1.0, 10.0, 100.0];

/// The experiment.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The world, of one prompt.
    pub world: &'a World,
    /// The restricted class of policies.
    pub class: Class,
    /// Seed of the random policies of [`Degeneracy`].
    pub seed: u64,
    /// Target validity of the claim (e).
    pub target_validity: f64,
}

/// The numbers of all six claims.
#[derive(Debug, Clone, Serialize)]
pub struct Claims {
    /// Many policies maximise the reward.
    pub degeneracy: Degeneracy,
    /// `p_beta` tends to p* in forward KL.
    pub limit: Vec<LimitRow>,
    /// `KL(q || p*)` is infinite.
    pub direction: Vec<Model>,
    /// beta and validity determine each other.
    pub link: Vec<LinkRow>,
    /// Weaker bases at one target validity, series by series, from the best base down.
    pub fixed_target: Vec<FixedMu>,
    /// The collapse in a class that cannot represent `p_beta`, beside divergences to p*.
    pub collapse: Collapse,
}

/// Computes the numbers of every claim.
///
/// # Errors
/// A world of several prompts, a target validity that is not above the base's, a search that fails.
pub fn claims(request: &Request<'_>) -> Result<Claims> {
    if request.world.is_right.len() > 1 {
        bail!("--paper needs a world with a single prompt: ends or dyck");
    }
    let world = request.world;
    let validities = WEAKER.map(|weaker| world.base_validity(0) / weaker);
    let collapse = Collapse::new(request)?;
    Ok(Claims {
        degeneracy: Degeneracy::new(request)?,
        limit: limit::limit(world),
        direction: limit::direction(request, &collapse)?,
        link: link::link(world)?,
        fixed_target: fixed_mu(world, request.class, request.target_validity, &validities)?,
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
