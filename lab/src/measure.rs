//! Measures of a policy of a world, exactly.

use std::collections::BTreeMap;

use serde::Serialize;

use super::World;

/// The k of Pass@k.
pub const KS: [u32; 7] = [1, 2, 4, 8, 16, 64, 256];

/// Measures of a policy, averaged over prompts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures {
    /// The chance `m` of a correct output.
    pub validity: f64,
    /// `exp H(q1)`, `q1` the policy given that it is correct: the effective number of correct outputs.
    pub effective_valid: f64,
    /// The largest probability of any output.
    pub max_mass: f64,
    /// Expected distinct correct outputs among 256 samples.
    pub unique_valid_256: f64,
    /// `KL(p* || q)`, in nats.
    pub kl_pstar_q: f64,
    /// `KL(q1 || p*)`, in nats; `KL(q || p*)` itself is infinite for a policy that can be incorrect.
    pub kl_q1_pstar: f64,
    /// `KL(q || a)`, in nats.
    pub kl_q_base: f64,
    /// The chance of a correct output in k samples, by k.
    pub pass_at_k: BTreeMap<u32, f64>,
}

impl Measures {
    /// The measures of the distributions `q`, one a prompt.
    pub fn new(world: &World, q: &[Vec<f64>]) -> Self {
        let prompts = world.is_right.len() as f64;
        let mean = |value: &dyn Fn(usize, &[f64]) -> f64| {
            q.iter().enumerate().map(|(prompt, q)| value(prompt, q)).sum::<f64>() / prompts
        };
        let validity = |prompt: usize, q: &[f64]| world.mass(prompt, q);
        let right = |prompt: usize, q: &[f64]| -> Vec<f64> {
            let m = world.mass(prompt, q);
            let pick = |(q, right): (&f64, &bool)| right.then_some(*q / m);
            q.iter().zip(&world.is_right[prompt]).filter_map(pick).collect()
        };
        Self {
            validity: mean(&validity),
            effective_valid: mean(&|prompt, q| {
                right(prompt, q).iter().map(|q| -relative(*q, 1.0)).sum::<f64>().exp()
            }),
            max_mass: mean(&|_, q| q.iter().copied().fold(0.0, f64::max)),
            unique_valid_256: mean(&|prompt, q| {
                let m = world.mass(prompt, q);
                right(prompt, q).iter().map(|share| seen(share * m, 256)).sum()
            }),
            kl_pstar_q: mean(&|prompt, q| kl(&world.filtered(prompt), q)),
            kl_q1_pstar: mean(&|prompt, q| {
                kl(&right(prompt, q), &right(prompt, &world.filtered(prompt)))
            }),
            kl_q_base: mean(&|_, q| kl(q, &world.base)),
            pass_at_k: KS
                .into_iter()
                .map(|k| (k, mean(&|prompt, q| seen(world.mass(prompt, q), k))))
                .collect(),
        }
    }
}

/// `KL(p || q)` in nats, infinite where p gives mass to an output that q excludes.
pub(super) fn kl(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| relative(*p, *q)).sum()
}

/// `p log(p / q)`, 0 where p is 0.
pub(super) fn relative(p: f64, q: f64) -> f64 {
    if p == 0.0 { 0.0 } else { p * (p / q).ln() }
}

/// The chance that something of probability `p` is among k samples.
fn seen(p: f64, k: u32) -> f64 {
    -(f64::from(k) * (-p.min(1.0)).ln_1p()).exp_m1()
}
