//! Policies of a restricted class on the host: parameters to log-probabilities of whole outputs, and back to
//! gradients.
//!
//! A class is a table of next-token logits ([`Class`]), or the base's table over all contexts plus a product of two
//! thin matrices, `logits = base + A B` with `A [C, r]` and `B [r, V]`: what an adapter of rank r is to a matrix that
//! has a row for each context. `A` starts random and `B` at 0, so that the policy starts at the base, as LoRA does. A
//! row of logits is a distribution up to a constant: rank V - 1 is every policy.
//!
//! Letters: X prompts, Y outputs, C contexts, V tokens. Rows are pairs of prompt and output, prompt by prompt.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::ValueEnum;

use super::{Class, Table, World};
use tealight_nn::generate::RngKey;

/// Lowest logit of a projected table below the largest of its row: a start from which gradients still lead away.
const FLOOR: f64 = -25.0;

/// The families of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Every table of the class.
    Class(Class),
    /// The base plus an update of this rank.
    Rank(usize),
}

/// Largest rank of an update: worlds have fewer tokens, and from V - 1 on a rank is every policy.
const MAX_RANK: usize = 256;

impl FromStr for Family {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Ok(rank) = text.trim().parse::<usize>() {
            if rank == 0 {
                bail!("rank 0 is the base alone; a rank is at least 1");
            }
            if rank > MAX_RANK {
                bail!(
                    "rank {rank} is more than any policy of the laboratory has; at most {MAX_RANK}"
                );
            }
            return Ok(Self::Rank(rank));
        }
        match Class::from_str(text.trim(), true) {
            Ok(class) => Ok(Self::Class(class)),
            Err(_) => {
                bail!("`{text}` is neither a rank nor one of unigram, bigram, trigram, full")
            }
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Family::Class(class) => class.fmt(f),
            Family::Rank(rank) => write!(f, "rank {rank}"),
        }
    }
}

impl Family {
    /// N-gram tables, ranks by powers of two below V - 1, and every policy.
    pub fn all(world: &World) -> Vec<Self> {
        let ranks = std::iter::successors(Some(1), |rank| Some(rank * 2));
        let ranks = ranks.take_while(|rank| rank + 1 < world.vocabulary).map(Family::Rank);
        [Class::Bigram, Class::Trigram]
            .map(Family::Class)
            .into_iter()
            .chain(ranks)
            .chain([Family::Class(Class::Full)])
            .collect()
    }
}

/// A family in a world: what its parameters mean.
pub(super) struct Member<'a> {
    pub(super) world: &'a World,
    pub(super) family: Family,
    /// Logits `[C, V]` of the base.
    base: Vec<f64>,
    /// The cell `context V + token` of every token of every row.
    cells: Vec<Vec<u32>>,
}

/// A policy: its next-token distributions `[C, V]`, and the log-probability of every row.
pub(super) struct Policy {
    next: Vec<f64>,
    pub(super) logp: Vec<f64>,
}

impl<'a> Member<'a> {
    pub(super) fn new(world: &'a World, family: Family) -> Result<Self> {
        let class = match family {
            Family::Class(class) => class,
            Family::Rank(_) => Class::Full,
        };
        let table = Table::base(world, class)?;
        let base = table.logits.flatten_all()?.to_vec1()?;
        Ok(Self { world, family, base, cells: table.cell_rows()? })
    }

    /// Where training starts: the base, with the random matrix of `seed` where there is one.
    pub(super) fn start(&self, seed: u64) -> Vec<f64> {
        let Family::Rank(rank) = self.family else { return self.base.clone() };
        let mut stream = RngKey { seed, step: 0 }.stream(u64::MAX, rank as u64);
        let mut normal = || {
            let (radius, angle) =
                (1.0 - stream.uniform(), std::f64::consts::TAU * stream.uniform());
            // Box and Muller.
            (-2.0 * radius.ln()).sqrt() * angle.cos()
        };
        let scale = 1.0 / (rank as f64).sqrt();
        let mut parameters: Vec<f64> =
            (0..self.contexts() * rank).map(|_| scale * normal()).collect();
        parameters.resize((self.contexts() + self.world.vocabulary) * rank, 0.0);
        parameters
    }

    /// The table that is nearest to `towards`, one distribution a prompt, in forward KL; none of low rank.
    pub(super) fn projected(&self, towards: &[Vec<f64>]) -> Result<Option<Vec<f64>>> {
        let Family::Class(class) = self.family else { return Ok(None) };
        let table = Table::project(self.world, class, towards)?;
        Ok(Some(table.logits.flatten_all()?.to_vec1()?))
    }

    /// Parameters of a table from which gradients lead everywhere.
    pub(super) fn softened(&self, mut logits: Vec<f64>) -> Vec<f64> {
        for row in logits.chunks_mut(self.world.vocabulary) {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter_mut().for_each(|logit| *logit = logit.max(top + FLOOR));
        }
        logits
    }

    fn contexts(&self) -> usize {
        self.base.len() / self.world.vocabulary
    }

    /// The two matrices of a low rank, `[C, r]` and `[r, V]`.
    fn matrices<'p>(&self, parameters: &'p [f64], rank: usize) -> (&'p [f64], &'p [f64]) {
        parameters.split_at(self.contexts() * rank)
    }

    fn logits(&self, parameters: &[f64]) -> Vec<f64> {
        let Family::Rank(rank) = self.family else { return parameters.to_vec() };
        let (a, b) = self.matrices(parameters, rank);
        let vocabulary = self.world.vocabulary;
        let mut logits = self.base.clone();
        for (row, a) in logits.chunks_mut(vocabulary).zip(a.chunks(rank)) {
            for (a, b) in a.iter().zip(b.chunks(vocabulary)) {
                row.iter_mut().zip(b).for_each(|(logit, b)| *logit += a * b);
            }
        }
        logits
    }

    /// The policy of some parameters.
    pub(super) fn policy(&self, parameters: &[f64]) -> Policy {
        let mut logp = self.logits(parameters);
        for row in logp.chunks_mut(self.world.vocabulary) {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mass = top + row.iter().map(|logit| (logit - top).exp()).sum::<f64>().ln();
            row.iter_mut().for_each(|logit| *logit -= mass);
        }
        // log pi(y) = sum_t log pi(y_t | context): the table's cells that a row passes.
        let row_logp = |cells: &Vec<u32>| cells.iter().map(|cell| logp[*cell as usize]).sum();
        let rows = self.cells.iter().map(row_logp).collect();
        logp.iter_mut().for_each(|logp| *logp = logp.exp());
        Policy { next: logp, logp: rows }
    }

    /// The gradient in the parameters of `sum_rows coefficient log pi(row)`.
    pub(super) fn gradient(
        &self,
        parameters: &[f64],
        policy: &Policy,
        coefficients: &[f64],
    ) -> Vec<f64> {
        let vocabulary = self.world.vocabulary;
        let mut slope = vec![0.0; self.base.len()];
        for (cells, coefficient) in self.cells.iter().zip(coefficients) {
            cells.iter().for_each(|cell| slope[*cell as usize] += coefficient);
        }
        for (slope, next) in slope.chunks_mut(vocabulary).zip(policy.next.chunks(vocabulary)) {
            // d log softmax: the coefficient of a token less pi times those of all tokens of its context.
            let all: f64 = slope.iter().sum();
            slope.iter_mut().zip(next).for_each(|(slope, next)| *slope -= all * next);
        }
        let Family::Rank(rank) = self.family else { return slope };
        let (a, b) = self.matrices(parameters, rank);
        let mut gradient = vec![0.0; parameters.len()];
        let (to_a, to_b) = gradient.split_at_mut(a.len());
        for ((slope, a), to_a) in
            slope.chunks(vocabulary).zip(a.chunks(rank)).zip(to_a.chunks_mut(rank))
        {
            for (number, b) in b.chunks(vocabulary).enumerate() {
                // logits = base + A B: dA = S B^T, dB = A^T S.
                to_a[number] = slope.iter().zip(b).map(|(slope, b)| slope * b).sum();
                let to_b = &mut to_b[number * vocabulary..(number + 1) * vocabulary];
                to_b.iter_mut().zip(slope).for_each(|(to_b, slope)| *to_b += a[number] * slope);
            }
        }
        gradient
    }
}

impl Policy {
    /// The probability of every output, prompt by prompt.
    pub(super) fn distributions(&self, world: &World) -> Vec<Vec<f64>> {
        let probabilities = |logp: &[f64]| logp.iter().map(|logp| logp.exp()).collect();
        self.logp.chunks(world.outputs.len()).map(probabilities).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_every_family_are_those_of_finite_differences() {
        let world = World::named("walk").unwrap();
        for family in [Family::Class(Class::Bigram), Family::Rank(2), Family::Class(Class::Full)] {
            let member = Member::new(&world, family).unwrap();
            // Off the start, where half of a low rank's gradient is 0.
            let at: Vec<f64> = member.start(3).iter().map(|x| x + 0.3 * (5.0 * x).sin()).collect();
            let at: Vec<f64> =
                at.iter().enumerate().map(|(i, x)| x + 0.2 * (1.3 * i as f64).cos()).collect();
            let policy = member.policy(&at);
            let weights: Vec<f64> =
                (0..policy.logp.len()).map(|row| (0.7 * row as f64).sin()).collect();
            let gradient = member.gradient(&at, &policy, &weights);
            let value = |parameters: &[f64]| -> f64 {
                let logp = member.policy(parameters).logp;
                logp.iter().zip(&weights).map(|(logp, weight)| logp * weight).sum()
            };
            for place in (0..at.len()).step_by(1 + at.len() / 40) {
                let moved = |by: f64| {
                    let mut moved = at.clone();
                    moved[place] += by;
                    value(&moved)
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let size = 1.0 + slope.abs();
                assert!((slope - gradient[place]).abs() < 1e-5 * size, "{family} {place}");
            }
        }
    }

    #[test]
    fn every_family_starts_at_the_base() {
        for name in ["ends", "walk"] {
            let world = World::named(name).unwrap();
            for family in Family::all(&world) {
                let member = Member::new(&world, family).unwrap();
                for q in member.policy(&member.start(1)).distributions(&world) {
                    for (q, a) in q.iter().zip(&world.base) {
                        assert!((q - a).abs() < 1e-12, "{name} {family}");
                    }
                }
            }
        }
        assert_eq!(Family::all(&World::named("ends").unwrap()).len(), 4);
        assert!("0".parse::<Family>().is_err() && "pentagram".parse::<Family>().is_err());
        assert_eq!("4".parse::<Family>().unwrap(), Family::Rank(4));
    }
}
