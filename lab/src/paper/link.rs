//! beta and the validity of p_beta determine each other: `1 / beta = logit mu - logit A`.

use anyhow::Result;
use serde::Serialize;

use super::{WEAKER, World, kl, tilted};
use tealight_learn::objective::target::{beta_for, cost};

/// Targets between the base's validity (0) and 1.
const TARGETS: [f64; 8] = [0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 0.999];
/// Step of the finite difference of the KL cost in mu.
const STEP: f64 = 1e-6;

/// A target validity, the beta that the closed form gives for it, and what that beta leads to by enumeration.
#[derive(Debug, Clone, Serialize)]
pub struct LinkRow {
    /// The base's validity A.
    pub base_validity: f64,
    /// Target validity mu.
    pub target: f64,
    /// `1 / (logit mu - logit A)`.
    pub beta: f64,
    /// The validity of `p_beta`, summed over outputs.
    pub validity: f64,
    /// `KL(p_beta || a)` in nats, summed over outputs.
    pub kl_cost: f64,
    /// The Bernoulli KL of mu and A.
    pub kl_cost_closed: f64,
    /// The slope of the KL cost in mu, by finite differences; `1 / beta` in closed form.
    pub slope: f64,
}

/// The claim (d), base by base, from the smallest target up.
pub(super) fn link(world: &World) -> Result<Vec<LinkRow>> {
    let mut rows = Vec::new();
    for weaker in WEAKER {
        let base_validity = world.base_validity(0) / weaker;
        let world = world.tilted(base_validity);
        for between in TARGETS {
            let target = base_validity + between * (1.0 - base_validity);
            let beta = beta_for(base_validity, target)?;
            let q = tilted(&world, beta);
            // d kl(mu, A) / d mu = logit mu - logit A = 1 / beta: a central difference of the cost shows it.
            let step = STEP * (1.0 - target);
            let [above, below] = [step, -step].map(|step| cost(base_validity, target + step));
            rows.push(LinkRow {
                base_validity,
                target,
                beta,
                validity: world.mass(0, &q),
                kl_cost: kl(&q, &world.base),
                kl_cost_closed: cost(base_validity, target),
                slope: (above - below) / (2.0 * step),
            });
        }
    }
    Ok(rows)
}
