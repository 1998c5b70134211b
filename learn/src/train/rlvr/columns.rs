//! The flat columns that the loss of rollouts reads: one number a token, completions one after the other.

use crate::objective::Offsets;

/// One entry a completion, and one a token, of some completions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Columns {
    pub(super) offsets: Offsets,
    /// Log-probabilities under the policy before the step, or under the sampler where nothing corrects for it.
    pub(super) behavior_logp: Vec<f32>,
    /// Log-probabilities under the base, where the objective reads them.
    pub(super) base_logp: Option<Vec<f32>>,
    pub(super) advantage: Vec<f64>,
    /// Weight of each token in the step's loss.
    pub(super) weight: Vec<f64>,
}

impl Columns {
    /// The columns of some completions, in the order given.
    pub(super) fn gather(&self, completions: &[usize]) -> Self {
        let tokens = |column: &Vec<f64>| self.offsets.gather(column, completions);
        Self {
            offsets: self.offsets.select(completions),
            behavior_logp: self.offsets.gather(&self.behavior_logp, completions),
            base_logp: self.base_logp.as_ref().map(|x| self.offsets.gather(x, completions)),
            advantage: tokens(&self.advantage),
            weight: tokens(&self.weight),
        }
    }

    /// The tokens' values of one completion in a flat column.
    pub(super) fn completion_values<'a>(&self, column: &'a [f64], completion: usize) -> &'a [f64] {
        &column[self.offsets.span(completion..completion + 1)]
    }
}
