//! Optima of a class that cannot represent p_beta: reverse KL along beta, and divergences to p* along alpha.

use anyhow::Result;
use serde::Serialize;

use super::super::{Class, Measures, Point, Search, World};
use super::{Request, measures};
use tealight_learn::objective::Divergence;

/// The betas of reverse KL, from the largest down.
const BETAS: [f64; 14] =
    [2.0, 1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.08, 0.06, 0.04, 0.02];
/// The alphas of divergences to p*: 0 is forward KL.
const ALPHAS: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9];
/// Halvings of the interval in which the beta of equal validity is sought.
const HALVINGS: usize = 20;
/// Largest difference of two validities that count as equal.
const EQUAL: f64 = 1e-4;

/// An optimum in the class.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The objective in words, such as `reverse KL, beta 0.2`.
    pub objective: String,
    /// beta of `E[v] - beta KL(q || a)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// alpha of the divergence to p*.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Validity, effective number of correct outputs and divergences, exactly.
    #[serde(flatten)]
    pub measures: Measures,
    /// Its effective number of correct outputs as a share of p*'s.
    pub share: f64,
    /// Probability of each output.
    #[serde(skip)]
    pub distribution: Vec<f64>,
}

/// A divergence to p* beside the optimum of reverse KL with the same validity.
#[derive(Debug, Clone, Serialize)]
pub struct EqualValidity {
    /// alpha of the divergence to p*.
    pub alpha: f64,
    /// The beta of reverse KL.
    pub beta: f64,
    /// The chance of a correct output, of the divergence to p* and of reverse KL.
    pub validity: [f64; 2],
    /// Effective number of correct outputs of the same.
    pub effective_valid: [f64; 2],
}

/// The claims (f): a falling beta collapses a restricted class, divergences to p* keep coverage.
#[derive(Debug, Clone, Serialize)]
pub struct Collapse {
    /// The restricted class.
    pub class: Class,
    /// Effective number of correct outputs of p*, and of every `p_beta`.
    pub effective_pstar: f64,
    /// Reverse KL from the largest beta down, then divergences to p* from alpha 0 up.
    pub rows: Vec<Row>,
    /// Divergences to p* beside reverse KL, where a beta with the same validity was found.
    pub equal_validity: Vec<EqualValidity>,
}

/// The search in the class, and the world of one prompt.
struct Optima<'a> {
    world: &'a World,
    search: Search<'a>,
}

impl Optima<'_> {
    fn at_beta(&self, beta: f64) -> Result<Vec<f64>> {
        Ok(self.search.optimum(Point::Beta(beta))?.distributions.remove(0))
    }

    fn at_alpha(&self, alpha: f64) -> Result<Vec<f64>> {
        let point = Point::Filtered(Divergence::alpha(alpha));
        Ok(self.search.optimum(point)?.distributions.remove(0))
    }

    /// The optimum of reverse KL with the validity of an optimum of a divergence to p*; none where validity jumps past
    /// it, or where no beta of the sweep is on either side.
    fn equal(&self, alpha: f64, aimed: &Row, sweep: &[Row]) -> Result<Option<EqualValidity>> {
        let wanted = aimed.measures.validity;
        let around = sweep.windows(2).find_map(|pair| {
            let [above, below] = [&pair[0], &pair[1]];
            let is_between = above.measures.validity <= wanted && wanted <= below.measures.validity;
            is_between.then_some((above.beta?, below.beta?))
        });
        let Some((mut high, mut low)) = around else { return Ok(None) };
        for _ in 0..HALVINGS {
            // Bisection in log beta, in which validity falls about evenly.
            let beta = (high * low).sqrt();
            let reached = measures(self.world, &self.at_beta(beta)?);
            if (reached.validity - wanted).abs() <= EQUAL {
                return Ok(Some(EqualValidity {
                    alpha,
                    beta,
                    validity: [wanted, reached.validity],
                    effective_valid: [aimed.measures.effective_valid, reached.effective_valid],
                }));
            }
            if reached.validity < wanted { high = beta } else { low = beta }
        }
        Ok(None)
    }
}

impl Collapse {
    pub(super) fn new(request: &Request<'_>) -> Result<Self> {
        let world = request.world;
        let search = Search::new(world, request.class)?;
        let optima = Optima { world, search };
        let effective_pstar = measures(world, &world.filtered(0)).effective_valid;
        let row = |objective: String, beta, alpha, distribution: Vec<f64>| {
            let measures = measures(world, &distribution);
            let share = measures.effective_valid / effective_pstar;
            Row { objective, beta, alpha, measures, share, distribution }
        };
        let mut rows = Vec::new();
        for beta in BETAS {
            let name = format!("reverse KL, beta {beta}");
            rows.push(row(name, Some(beta), None, optima.at_beta(beta)?));
        }
        let mut equal_validity = Vec::new();
        for alpha in ALPHAS {
            let name = match alpha {
                0.0 => "forward KL to p* (alpha 0)".to_owned(),
                alpha => format!("alpha {alpha} to p*"),
            };
            let aimed = row(name, None, Some(alpha), optima.at_alpha(alpha)?);
            equal_validity.extend(optima.equal(alpha, &aimed, &rows[..BETAS.len()])?);
            rows.push(aimed);
        }
        Ok(Self { class: request.class, effective_pstar, rows, equal_validity })
    }

    /// The optima of reverse KL, from the largest beta down.
    pub fn along_beta(&self) -> impl Iterator<Item = (f64, &Row)> {
        self.rows.iter().filter_map(|row| Some((row.beta?, row)))
    }

    /// The optima of divergences to p*, from alpha 0 up.
    pub fn along_alpha(&self) -> impl Iterator<Item = (f64, &Row)> {
        self.rows.iter().filter_map(|row| Some((row.alpha?, row)))
    }
}
