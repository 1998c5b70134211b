//! How much of what a model writes is thought.

use serde::{Deserialize, Serialize};

use crate::Tally;

/// How completions think.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ThinkingShare {
    /// Share of completions with a thought.
    pub share: f64,
    /// Share of those that finished it: the others have no answer.
    pub finished: f64,
    /// Mean tokens up to the end of a thought; 0 where tokens are not known.
    pub tokens: f64,
}

impl ThinkingShare {
    pub(crate) fn from_tallies(tallies: &[Tally]) -> Option<Self> {
        let sum = |field: fn(&Tally) -> usize| tallies.iter().map(field).sum::<usize>() as f64;
        let (samples, count) = (sum(|tally| tally.samples), sum(|tally| tally.thoughts.count));
        (count > 0.0).then(|| Self {
            share: count / samples,
            finished: sum(|tally| tally.thoughts.finished) / count,
            tokens: sum(|tally| tally.thoughts.tokens) / count,
        })
    }
}

impl std::fmt::Display for ThinkingShare {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (share, finished) = (100.0 * self.share, 100.0 * self.finished);
        write!(out, "thinking: {share:.1} % of completions, {finished:.1} % of them to an end")?;
        if self.tokens > 0.0 {
            write!(out, ", {:.1} tokens each on average", self.tokens)?;
        }
        Ok(())
    }
}
