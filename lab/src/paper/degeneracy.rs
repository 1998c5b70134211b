//! Every policy that is always correct maximises the reward; of them p* is the nearest to the base.

use anyhow::Result;
use serde::Serialize;

use super::super::member::Member;
use super::super::{Class, Descent, World};
use super::{Request, kl, measures, total_variation};
use tealight_nn::generate::RngKey;

/// Policies that gradient ascent leads to, each from a start of its own.
const ASCENTS: u64 = 3;
/// Random policies that are always correct, beside which p* is the nearest to the base.
const RANDOM: u64 = 100;
/// Gradient ascent on the reward alone.
const ASCENT: Descent = Descent { iterations: 1000, learning_rate: 0.1 };
/// Names the random numbers of this experiment.
const STREAM: u64 = 2605;

/// A policy that maximises the expected reward.
#[derive(Debug, Clone, Serialize)]
pub struct Maximiser {
    /// The policy in words, such as `uniform on correct outputs`.
    pub policy: String,
    /// `E[v]`, the chance of a correct output.
    pub validity: f64,
    /// Effective number of correct outputs.
    pub effective_valid: f64,
    /// `KL(q || a)`, in nats.
    pub kl_q_base: f64,
    /// Total variation from p*.
    pub distance: f64,
    /// Probability of each output.
    #[serde(skip)]
    pub distribution: Vec<f64>,
}

/// The claims (a): the reward has many maximisers, of which p* is the nearest to the base.
#[derive(Debug, Clone, Serialize)]
pub struct Degeneracy {
    /// p*, other policies that are always correct, and where gradient ascent on the reward ends.
    pub maximisers: Vec<Maximiser>,
    /// The largest total variation between two of them.
    pub farthest: f64,
    /// The least `KL(q || a)` among random policies that are always correct, in nats.
    pub nearest_random: f64,
    /// The largest distance of `KL(q || a)` of the policies that are always correct from `-log A + KL(q || p*)`.
    pub error: f64,
}

impl Degeneracy {
    pub(super) fn new(request: &Request<'_>) -> Result<Self> {
        let world = request.world;
        let pstar = world.filtered(0);
        let mut policies = vec![
            ("p*".to_owned(), pstar.clone()),
            ("uniform on correct outputs".to_owned(), uniform(world)),
            ("the likeliest correct output alone".to_owned(), likeliest(&pstar)),
        ];
        let random: Vec<Vec<f64>> =
            (0..RANDOM).map(|number| random(world, request.seed, number)).collect();
        let valid = policies.iter().map(|(_, q)| q).chain(&random);
        // KL(q || a) = KL(q || p*) - log A for every q without incorrect outputs.
        let excess =
            |q: &Vec<f64>| kl(q, &world.base) - kl(q, &pstar) + world.base_validity(0).ln();
        let error = valid.map(|q| excess(q).abs()).fold(0.0, f64::max);
        let from_base = |q: &Vec<f64>| kl(q, &world.base);
        let nearest_random = random.iter().map(from_base).fold(f64::INFINITY, f64::min);
        for number in 0..ASCENTS {
            let seed = request.seed.wrapping_add(number);
            policies.push((format!("gradient ascent seed {seed}"), ascent(world, seed)?));
        }
        let maximisers: Vec<Maximiser> = policies
            .into_iter()
            .map(|(policy, q)| {
                let measures = measures(world, &q);
                Maximiser {
                    policy,
                    validity: measures.validity,
                    effective_valid: measures.effective_valid,
                    kl_q_base: measures.kl_q_base,
                    distance: total_variation(&q, &pstar),
                    distribution: q,
                }
            })
            .collect();
        let pairs = maximisers.iter().flat_map(|one| maximisers.iter().map(move |two| (one, two)));
        let distances =
            pairs.map(|(one, two)| total_variation(&one.distribution, &two.distribution));
        let farthest = distances.fold(0.0, f64::max);
        Ok(Self { maximisers, farthest, nearest_random, error })
    }
}

/// The same chance for every correct output.
fn uniform(world: &World) -> Vec<f64> {
    let share = 1.0 / world.total(0) as f64;
    world.is_right[0].iter().map(|right| if *right { share } else { 0.0 }).collect()
}

/// All mass on the output that is likeliest under p*.
fn likeliest(pstar: &[f64]) -> Vec<f64> {
    let best = (0..pstar.len()).max_by(|a, b| pstar[*a].total_cmp(&pstar[*b]));
    (0..pstar.len()).map(|y| f64::from(u8::from(Some(y) == best))).collect()
}

/// A policy that is always correct, drawn evenly from all of them.
fn random(world: &World, seed: u64, number: u64) -> Vec<f64> {
    let mut stream = RngKey { seed, step: STREAM }.stream(0, number);
    // Exponentials over their sum are uniform on the simplex (Dirichlet with parameters 1).
    let mut weight = || -(1.0 - stream.uniform()).ln();
    let weights: Vec<f64> =
        world.is_right[0].iter().map(|right| if *right { weight() } else { 0.0 }).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Where gradient ascent on `E[v]` leads a policy without restriction that starts at the base with random noise.
fn ascent(world: &World, seed: u64) -> Result<Vec<f64>> {
    let member = Member::new(world, Class::Full)?;
    let mut stream = RngKey { seed, step: STREAM }.stream(1, 0);
    let mut at: Vec<f64> =
        member.start().into_iter().map(|logit| logit + 4.0 * (stream.uniform() - 0.5)).collect();
    ASCENT.follow(&mut at, |at| {
        let policy = member.policy(at);
        let right = policy.logp.iter().zip(&world.is_right[0]);
        let slopes: Vec<f64> =
            // grad E[v] = sum_{v = 1} pi(y) grad log pi(y); descent follows minus that.
            right.map(|(logp, right)| if *right { -logp.exp() } else { 0.0 }).collect();
        Ok(member.gradient(&policy, &slopes))
    })?;
    Ok(member.policy(&at).distributions(world).remove(0))
}
