//! Ranks that are threads of one process: for tests of what ranks do together, where there is no MPI.

use std::sync::{Arc, Barrier, Mutex, PoisonError};

use anyhow::Result;

use super::{Link, Ranks};

/// Where all of them put their bytes.
struct Board {
    slots: Mutex<Vec<Vec<u8>>>,
    barrier: Barrier,
}

struct Thread {
    rank: usize,
    size: usize,
    board: Arc<Board>,
}

/// So many ranks, one for each thread that takes one. All of them must make the same calls: one that fails leaves the
/// others waiting.
pub fn threads(size: usize) -> Vec<Ranks> {
    let slots = Mutex::new(vec![Vec::new(); size]);
    let board = Arc::new(Board { slots, barrier: Barrier::new(size) });
    let one = |rank| Ranks::joined(Arc::new(Thread { rank, size, board: board.clone() }));
    (0..size).map(one).collect()
}

impl Link for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn local(&self) -> (usize, usize) {
        (self.rank, self.size)
    }

    fn all_gather(&self, local: &[u8]) -> Result<Vec<Vec<u8>>> {
        let slots = || self.board.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots()[self.rank] = local.to_vec();
        self.board.barrier.wait();
        let all = slots().clone();
        // Nobody writes again before all have read.
        self.board.barrier.wait();
        Ok(all)
    }

    fn exchange(&self, local: &[f32], parts: &mut [f32]) -> Result<()> {
        let part = local.len() / self.size;
        let all = self.all_gather(bytemuck::cast_slice(local))?;
        for (part, other) in parts.chunks_mut(part).zip(&all) {
            let other: Vec<f32> = bytemuck::pod_collect_to_vec(other);
            part.copy_from_slice(&other[part.len() * self.rank..][..part.len()]);
        }
        Ok(())
    }

    fn concatenate(&self, local: &[f32], all: &mut [f32]) -> Result<()> {
        let parts = self.all_gather(bytemuck::cast_slice(local))?;
        for (part, other) in all.chunks_mut(local.len()).zip(&parts) {
            part.copy_from_slice(&bytemuck::pod_collect_to_vec::<u8, f32>(other));
        }
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
}
