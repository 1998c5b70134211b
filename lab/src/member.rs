//! Policies of a restricted class on the host: logits to log-probabilities of whole outputs, and back to gradients.
//!
//! Letters: X prompts, Y outputs, C contexts, V tokens. Rows are pairs of prompt and output, prompt by prompt.

use anyhow::Result;

use super::{Class, Table, World};

/// Lowest logit of a projected table below the largest of its row: a start from which gradients still lead away.
const FLOOR: f64 = -25.0;

/// A class in a world: what its logits mean.
pub(super) struct Member<'a> {
    pub(super) world: &'a World,
    pub(super) class: Class,
    /// Logits `[C, V]` of the base.
    base: Vec<f64>,
    /// The cell `context V + token` of every token of every row.
    cells: Vec<Vec<u32>>,
}

/// A policy: its next-token distributions `[C, V]`, and the log-probability of every row.
pub(super) struct Policy {
    pub(super) next: Vec<f64>,
    pub(super) logp: Vec<f64>,
}

impl<'a> Member<'a> {
    pub(super) fn new(world: &'a World, class: Class) -> Result<Self> {
        let table = Table::base(world, class)?;
        let base = table.logits.flatten_all()?.to_vec1()?;
        Ok(Self { world, class, base, cells: table.cell_rows()? })
    }

    /// Where training starts: the base.
    pub(super) fn start(&self) -> Vec<f64> {
        self.base.clone()
    }

    /// The table that is nearest to `towards`, one distribution a prompt, in forward KL, with logits from which
    /// gradients lead everywhere.
    pub(super) fn projected(&self, towards: &[Vec<f64>]) -> Result<Vec<f64>> {
        let table = Table::project(self.world, self.class, towards)?;
        let mut logits: Vec<f64> = table.logits.flatten_all()?.to_vec1()?;
        for row in logits.chunks_mut(self.world.vocabulary) {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter_mut().for_each(|logit| *logit = logit.max(top + FLOOR));
        }
        Ok(logits)
    }

    /// The policy of some logits.
    pub(super) fn policy(&self, logits: &[f64]) -> Policy {
        let mut logp = logits.to_vec();
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

    /// The sum of the coefficients of the rows that pass each cell.
    pub(super) fn totals(&self, coefficients: &[f64]) -> Vec<f64> {
        let mut totals = vec![0.0; self.base.len()];
        for (cells, coefficient) in self.cells.iter().zip(coefficients) {
            cells.iter().for_each(|cell| totals[*cell as usize] += coefficient);
        }
        totals
    }

    /// The gradient in the logits of `sum_rows coefficient log pi(row)`.
    pub(super) fn gradient(&self, policy: &Policy, coefficients: &[f64]) -> Vec<f64> {
        let vocabulary = self.world.vocabulary;
        let mut slope = self.totals(coefficients);
        for (slope, next) in slope.chunks_mut(vocabulary).zip(policy.next.chunks(vocabulary)) {
            // d log softmax: the coefficient of a token less pi times those of all tokens of its context.
            let all: f64 = slope.iter().sum();
            slope.iter_mut().zip(next).for_each(|(slope, next)| *slope -= all * next);
        }
        slope
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
    fn gradients_of_every_class_are_those_of_finite_differences() {
        let world = World::named("walk").unwrap();
        for class in [Class::Bigram, Class::Full] {
            let member = Member::new(&world, class).unwrap();
            let off = |(i, x): (usize, &f64)| x + 0.2 * (1.3 * i as f64).cos();
            let at: Vec<f64> = member.start().iter().enumerate().map(off).collect();
            let policy = member.policy(&at);
            let weights: Vec<f64> =
                (0..policy.logp.len()).map(|row| (0.7 * row as f64).sin()).collect();
            let gradient = member.gradient(&policy, &weights);
            let value = |logits: &[f64]| -> f64 {
                let logp = member.policy(logits).logp;
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
                assert!((slope - gradient[place]).abs() < 1e-5 * size, "{class} {place}");
            }
        }
    }
}
