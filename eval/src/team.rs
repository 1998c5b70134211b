//! The processes that do an evaluation together.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::Sample;

/// The judged samples of one problem, or of one block of a file, by its index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleBatch {
    /// Index of the problem or block.
    pub index: usize,
    /// Judged samples, in order.
    pub samples: Vec<Sample>,
}

/// The processes that do an evaluation together: each samples a share of the problems, and all know all samples. A
/// call fails where another process has disconnected.
pub trait Team {
    /// Whether this process is the one that reads directories and writes files.
    fn is_first(&self) -> bool;

    /// This process's share of `items`, in rounds: after each round the processes gather what they have. `each` is the
    /// number of samples of one item.
    fn shares(&self, items: &[usize], each: usize) -> Vec<Vec<usize>>;

    /// The batches of all processes, in order of rank, or none where batches are used as soon as they are there
    /// ([`Team::is_alone`]).
    fn gather(&self, batches: Vec<SampleBatch>) -> Result<Vec<SampleBatch>>;

    /// Whether there is no other process to wait for.
    fn is_alone(&self) -> bool;

    /// Does `work` on the first process alone; every process gets the result.
    ///
    /// # Errors
    /// An error of `work`, on every process.
    fn on_first(&self, work: &mut dyn FnMut() -> Result<bool>) -> Result<bool>;
}

/// A team of one process.
pub struct Alone;

impl Team for Alone {
    fn is_first(&self) -> bool {
        true
    }

    fn shares(&self, items: &[usize], _: usize) -> Vec<Vec<usize>> {
        vec![items.to_vec()]
    }

    fn gather(&self, batches: Vec<SampleBatch>) -> Result<Vec<SampleBatch>> {
        Ok(batches)
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn on_first(&self, work: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        work()
    }
}
