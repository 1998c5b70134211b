//! Ranks that a launcher of MPI started: `mpirun -np 4 tealight ...`, `srun --mpi=pmix ...`.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use anyhow::{Result, bail};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};

use super::{Link, Ranks};

/// Bytes of one message: counts are 32 bits wide in MPI.
const MESSAGE: usize = 1 << 28;

/// MPI, until it is finished. One that is only dropped leaves it as it is: a rank that failed must not wait for others.
pub struct Launched {
    /// This process's place.
    pub ranks: Ranks,
    universe: ManuallyDrop<Universe>,
}

impl Launched {
    /// Ends MPI, once all ranks do.
    pub fn finish(self) {
        drop(ManuallyDrop::into_inner(self.universe));
    }
}

/// Joins the processes that the launcher started. Calls may come from any thread, one at a time.
pub fn launch() -> Result<Launched> {
    let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
        bail!("MPI was started before");
    };
    if threading < Threading::Serialized {
        bail!("this MPI cannot be called from more than one thread");
    }
    let world = universe.world();
    let shared = world.split_shared(world.rank());
    let world = World {
        rank: world.rank() as usize,
        size: world.size() as usize,
        local: (shared.rank() as usize, shared.size() as usize),
    };
    let ranks = Ranks::joined(Arc::new(world));
    Ok(Launched { ranks, universe: ManuallyDrop::new(universe) })
}

/// All ranks.
struct World {
    rank: usize,
    size: usize,
    local: (usize, usize),
}

/// The communicator of all ranks, which is one in a process.
fn world() -> SimpleCommunicator {
    SimpleCommunicator::world()
}

impl Link for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn local(&self) -> (usize, usize) {
        self.local
    }

    fn all_gather(&self, local: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0u64; self.size];
        world().all_gather_into(&(local.len() as u64), &mut lengths[..]);
        let mut all: Vec<Vec<u8>> =
            lengths.iter().map(|length| vec![0; *length as usize]).collect();
        all[self.rank].copy_from_slice(local);
        for (rank, bytes) in all.iter_mut().enumerate() {
            for message in bytes.chunks_mut(MESSAGE) {
                world().process_at_rank(rank as i32).broadcast_into(message);
            }
        }
        Ok(all)
    }

    fn exchange(&self, local: &[f32], parts: &mut [f32]) -> Result<()> {
        world().all_to_all_into(local, parts);
        Ok(())
    }

    fn concatenate(&self, local: &[f32], all: &mut [f32]) -> Result<()> {
        world().all_gather_into(local, all);
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        world().abort(code)
    }
}
