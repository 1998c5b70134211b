//! The ranks of a run as the processes that evaluate together.

use anyhow::Result;
use tealight_eval::evaluate::{SampleBatch, Team};

use crate::ranks::Ranks;

impl Team for Ranks {
    fn is_first(&self) -> bool {
        Ranks::is_first(self)
    }

    fn shares(&self, items: &[usize], each: usize) -> Vec<Vec<usize>> {
        Ranks::shares(self, items, each)
    }

    fn gather(&self, batches: Vec<SampleBatch>) -> Result<Vec<SampleBatch>> {
        Ok(Ranks::gather(self, batches)?.into_iter().flatten().collect())
    }

    fn is_alone(&self) -> bool {
        self.size() == 1
    }

    fn on_first(&self, work: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        self.first(work)
    }
}
