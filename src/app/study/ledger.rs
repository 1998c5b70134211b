//! The ledger of a study: the log-probability of every listed correct answer of some held-out problems, at the base
//! and at every checkpoint.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use tealight_eval::Tally;
use tealight_eval::ledger::{Ledger, Scored, csv};

use super::listed_set::ListedSet;
use crate::system::files::write_atomic;

/// A checkpoint that has been scored.
pub(crate) struct Checkpoint {
    pub(crate) step: usize,
    pub(crate) updates: usize,
    pub(crate) sampled: Option<f64>,
    pub(crate) logp: Vec<f64>,
}

/// Pass@1 on the problems of the ledger, by samples of its set.
pub(crate) fn sampled(set: &ListedSet, tallies: &[Tally]) -> Option<f64> {
    let problems: HashSet<&str> = set.modes().iter().map(|mode| &*mode.problem).collect();
    let of_ledger = tallies.iter().filter(|tally| problems.contains(tally.problem.as_str()));
    let rates: Vec<f64> = of_ledger
        .filter(|tally| tally.samples > 0)
        .map(|tally| tally.correct as f64 / tally.samples as f64)
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The ledger for a study's report; every line goes to `ledger.csv` in its folder.
pub(crate) fn report(
    set: (&ListedSet, f64),
    base: &Scored,
    all: &[Scored],
    output: &Path,
) -> Result<Ledger> {
    let (listed, temperature) = set;
    let lines: Vec<&Scored> = std::iter::once(base).chain(all).collect();
    write_atomic(&output.join("ledger.csv"), csv(listed.modes(), &lines).as_bytes())?;
    Ok(Ledger::new((&listed.dataset, temperature), listed.modes(), base, all))
}

impl Checkpoint {
    /// The same as one of a run.
    pub(crate) fn into_scored(self, objective: &str, seed: Option<u64>) -> Scored {
        let Self { step, updates, sampled, logp } = self;
        Scored { objective: objective.to_owned(), seed, step, updates, sampled, logp }
    }
}
