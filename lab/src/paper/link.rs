//! beta and the validity of p_beta determine each other: `1 / beta = logit mu - logit A`.

use anyhow::Result;
use serde::Serialize;

use super::{Request, Rules, Verdict, WEAKER, kl, short, tilted};
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

/// The claim (d): `1 / beta = logit mu - logit A`.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// Base by base, from the smallest target up.
    pub rows: Vec<LinkRow>,
    /// The one verdict, on the claim.
    pub verdicts: Vec<Verdict>,
}

impl Link {
    pub(super) fn new(request: &Request<'_>) -> Result<Self> {
        let mut rows = Vec::new();
        for weaker in WEAKER {
            let base_validity = request.world.base_validity(0) / weaker;
            let world = request.world.tilted(base_validity);
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
        let mut link = Self { rows, verdicts: Vec::new() };
        link.verdicts = vec![link.judge(&request.rules)];
        Ok(link)
    }

    /// The verdict that the rules draw from the numbers.
    pub fn judge(&self, rules: &Rules) -> Verdict {
        let largest = |value: fn(&LinkRow) -> f64| self.rows.iter().map(value).fold(0.0, f64::max);
        let validity = largest(|row| (row.validity - row.target).abs());
        let cost = largest(|row| (row.kl_cost - row.kl_cost_closed).abs());
        let slope = largest(|row| (row.slope * row.beta - 1.0).abs());
        let bases = WEAKER.len();
        Verdict::new(
            "beta and the target validity mu determine each other: 1 / beta = logit mu - logit A.",
            format!(
                "at the beta of every target the enumerated p_beta has validity mu and KL(p_beta || a) = kl(mu, A) up to \
                 {:.0e}, and the slope of that cost in mu is 1 / beta up to {:.0} %",
                rules.rounding,
                100.0 * rules.relative
            ),
            validity <= rules.rounding && cost <= rules.rounding && slope <= rules.relative,
            &format!(
                "over {} targets and {bases} bases the largest error is {} in validity, {} nats in KL cost and {} of the \
                 slope.",
                self.rows.len() / bases,
                short(validity),
                short(cost),
                short(slope)
            ),
        )
    }
}
