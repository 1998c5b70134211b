//! What a command is told of the process it runs in: who may stop it, and which of several it is.

use anyhow::{Result, bail};

use crate::system::ranks::Ranks;
use crate::system::stop::Stop;

/// Who may stop a command, and the processes that do it together.
#[derive(Clone, Default)]
pub struct Process {
    /// Asked to stop from outside.
    pub stop: Stop,
    /// This process's place among them.
    pub ranks: Ranks,
}

impl Process {
    /// One process that nobody stops.
    pub fn alone() -> Self {
        Self::default()
    }
}

/// Variables in which launchers of MPI say how many processes they started.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// That of `srun`, which may have started them to work each for itself.
#[cfg(feature = "mpi")]
const TASKS: [&str; 1] = ["SLURM_STEP_NUM_TASKS"];
/// Those in which they say that MPI can be started.
#[cfg(feature = "mpi")]
const STARTED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_RANK"];
/// Those with the number of a process.
const NUMBERS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

fn number(names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// Refuses to run in as many processes as a launcher started, all of which would do the same; `why` is the end of the
/// message, which the first of them gives.
///
/// # Errors
/// There is more than one.
pub(crate) fn refuse_several(why: &str) -> Result<()> {
    let size = number(&SIZES).unwrap_or(1);
    if size < 2 {
        return Ok(());
    }
    if number(&NUMBERS).is_some_and(|number| number > 0) {
        // The first says it; its launcher ends the others.
        std::thread::sleep(std::time::Duration::from_secs(3));
    }
    bail!("started as {size} processes: {why}")
}

/// MPI, until it is dropped.
#[cfg(feature = "mpi")]
pub(crate) type Launched = crate::system::ranks::Launched;
/// No MPI in this build.
#[cfg(not(feature = "mpi"))]
pub(crate) struct Launched {
    pub(crate) ranks: Ranks,
}

/// Joins the other processes of this command, where a launcher started any.
///
/// # Errors
/// They cannot be joined.
#[cfg(feature = "mpi")]
pub(crate) fn launch() -> Result<Option<Launched>> {
    if number(&STARTED).is_none() {
        if number(&TASKS).is_some_and(|tasks| tasks > 1) {
            tracing::info!("one of several tasks of Slurm, alone: `srun --mpi=pmix` joins them");
        }
        return Ok(None);
    }
    crate::system::ranks::launch().map(Some)
}

/// Refuses to run in several processes.
///
/// # Errors
/// A launcher started several.
#[cfg(not(feature = "mpi"))]
pub(crate) fn launch() -> Result<Option<Launched>> {
    refuse_several(
        "this build has no MPI; build it with `--features mpi` (docs/how-to/cluster.md)",
    )?;
    Ok(None)
}

#[cfg(not(feature = "mpi"))]
impl Launched {
    pub(crate) fn finish(self) {}
}
