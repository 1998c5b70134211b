//! p_beta tends to p* in forward KL as beta falls, while `KL(q || p*)` is infinite for every policy of full support.

use anyhow::Result;
use serde::Serialize;

use super::super::{Table, World};
use super::{Collapse, Request, kl, tilted, total_variation};
use tealight_learn::objective::target::validity_of;

/// The betas at which `p_beta` is compared with p*, from the largest down.
const BETAS: [f64; 9] = [2.0, 1.0, 0.5, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05];
/// Shares of the base that are mixed into p*, so that `KL(q || p*)` becomes finite.
const SHARES: [f64; 12] =
    [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12];

/// A validity this near to 1 is 1.
const ROUNDING: f64 = 1e-9;

/// `p_beta` beside p*, by enumeration and by the closed form.
#[derive(Debug, Clone, Serialize)]
pub struct LimitRow {
    /// Temperature of `p_beta`.
    pub beta: f64,
    /// The chance of a correct output.
    pub validity: f64,
    /// `KL(p* || p_beta)`, in nats, summed over outputs.
    pub forward_kl: f64,
    /// `-log mu`, mu by the closed form.
    pub forward_kl_closed: f64,
    /// Total variation, summed over outputs; `1 - mu` in closed form.
    pub distance: f64,
    /// The largest difference of an output's probability.
    pub pointwise: f64,
}

/// The claim (b): `p_beta` tends to p* in forward KL; from the largest beta to the smallest.
pub(super) fn limit(world: &World) -> Vec<LimitRow> {
    let pstar = world.filtered(0);
    let row = |beta: f64| {
        let q = tilted(world, beta);
        // p_beta is mu p* on correct outputs, so that KL(p* || p_beta) = -log mu and the total variation is 1 - mu.
        let apart = q.iter().zip(&pstar).map(|(q, p)| (q - p).abs());
        LimitRow {
            beta,
            validity: world.mass(0, &q),
            forward_kl: kl(&pstar, &q),
            forward_kl_closed: -validity_of(world.base_validity(0), beta).ln(),
            distance: total_variation(&pstar, &q),
            pointwise: apart.fold(0.0, f64::max),
        }
    };
    BETAS.map(row).to_vec()
}

/// A policy of full support and its distances from p* in both directions.
#[derive(Debug, Clone, Serialize)]
pub struct Model {
    /// The policy in words, such as `the base`.
    pub policy: String,
    /// Outputs to which it gives mass, of all.
    pub support: [usize; 2],
    /// The chance of an incorrect output.
    pub incorrect: f64,
    /// `KL(p* || q)`, in nats.
    pub forward_kl: f64,
    /// `KL(q || p*)`, in nats; none where it is infinite.
    pub reverse_kl: Option<f64>,
    /// `KL(q || (1 - share) p* + share a)` in nats, by falling share.
    pub smoothed: Vec<(f64, f64)>,
}

impl Model {
    fn new(world: &World, policy: &str, q: &[f64]) -> Self {
        let pstar = world.filtered(0);
        let smoothed = |share: f64| {
            let mixed = pstar.iter().zip(&world.base).map(|(p, a)| (1.0 - share) * p + share * a);
            (share, kl(q, &mixed.collect::<Vec<_>>()))
        };
        let wrong = q.iter().zip(&world.is_right[0]).filter(|(_, right)| !**right);
        Self {
            policy: policy.to_owned(),
            support: [q.iter().filter(|q| **q > 0.0).count(), q.len()],
            incorrect: wrong.map(|(q, _)| q).sum(),
            forward_kl: kl(&pstar, q),
            reverse_kl: Some(kl(q, &pstar)).filter(|kl| kl.is_finite()),
            smoothed: SHARES.map(smoothed).to_vec(),
        }
    }

    /// The growth of the smoothed KL over the last tenfold fall of the share, in units of `(1 - m) log 10`: 1 where it
    /// has no bound.
    pub fn growth(&self) -> f64 {
        let [.., before, last] = self.smoothed.as_slice() else { return 0.0 };
        // On incorrect outputs the mixture is share a: KL grows by (1 - m) log of the factor by which the share falls.
        (last.1 - before.1) / (self.incorrect * (before.0 / last.0).ln())
    }
}

/// The claim (c): `KL(q || p*)` is infinite for policies of full support.
pub(super) fn direction(request: &Request<'_>, collapse: &Collapse) -> Result<Vec<Model>> {
    let Request { world, class, .. } = *request;
    let uniform = vec![1.0 / world.base.len() as f64; world.base.len()];
    let nearest = Table::project(world, class, &[world.filtered(0)])?;
    let nearest = nearest.distributions(world)?.remove(0);
    let mut models = vec![
        Model::new(world, "the base", &world.base),
        Model::new(world, "uniform on all outputs", &uniform),
    ];
    // In a class that represents p* the nearest policy is p* itself, which has no full support.
    if world.mass(0, &nearest) < 1.0 - ROUNDING {
        models.push(Model::new(world, &format!("nearest {class} to p*"), &nearest));
    }
    models.extend(
        [0.5, 0.2]
            .map(|beta| Model::new(world, &format!("p_beta, beta {beta}"), &tilted(world, beta))),
    );
    let trained = collapse.rows.iter().find(|row| row.beta == Some(0.2));
    models.extend(trained.map(|row| {
        let name = format!("{class}, reverse KL, beta 0.2");
        Model::new(world, &name, &row.distribution)
    }));
    Ok(models)
}
