//! The process of a command: who may stop it, and which of several it is.

use anyhow::{Result, bail};

use crate::stop::Stop;
use tealight_core::ranks::Ranks;

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

/// Variables in which launchers of MPI and torchrun say how many processes they started.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"];
/// That of `srun`, which may have started them to work each for itself.
const TASKS: &str = "SLURM_STEP_NUM_TASKS";
/// That of `srun --mpi=pmix`, which starts them to work together.
const PMIX: &str = "PMIX_RANK";
/// Those in which they say that MPI can be started.
#[cfg(feature = "mpi")]
const STARTED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", PMIX, "PMI_RANK"];
/// Those with the number of a process.
const NUMBERS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", PMIX, "PMI_RANK", "RANK"];

/// The first of these variables that is a number.
fn number(names: &[&'static str]) -> Option<(usize, &'static str)> {
    names.iter().find_map(|name| Some((std::env::var(name).ok()?.trim().parse().ok()?, *name)))
}

/// Refuses to run in as many processes as a launcher started, all of which would do the same; `why` is the end of the
/// message, which the first of them gives.
pub fn refuse_several(why: &str) -> Result<()> {
    let tasks = || number(&[PMIX]).and_then(|_| number(&[TASKS]));
    let Some((size @ 2.., name)) = number(&SIZES).or_else(tasks) else { return Ok(()) };
    if number(&NUMBERS).is_some_and(|(number, _)| number > 0) {
        // The first says it; its launcher ends the others.
        std::thread::sleep(std::time::Duration::from_secs(3));
    }
    bail!("started as {size} processes ({name}={size}): {why}")
}

/// The other processes of this command, while it runs.
#[derive(Default)]
pub struct Launched {
    /// All of them, and the place of this one.
    pub ranks: Ranks,
    #[cfg(feature = "mpi")]
    mpi: Option<tealight_core::ranks::Launched>,
}

/// Joins the other processes of this command, where a launcher of MPI started any.
///
/// # Errors
/// They cannot be joined; a launcher started several, and this build has no MPI or the launcher is not MPI's.
pub fn launch() -> Result<Launched> {
    #[cfg(feature = "mpi")]
    if number(&STARTED).is_some() {
        let mpi = tealight_core::ranks::launch()?;
        return Ok(Launched { ranks: mpi.ranks.clone(), mpi: Some(mpi) });
    }
    refuse_several(match cfg!(feature = "mpi") {
        true => "mpirun or `srun --mpi=pmix` start ranks (docs/how-to/cluster.md)",
        false => {
            "Tealight was built without the feature mpi: build it with `--features mpi`, and start the ranks with mpirun \
             (docs/how-to/cluster.md)"
        }
    })?;
    if number(&[TASKS]).is_some_and(|(tasks, _)| tasks > 1) {
        tracing::info!("one of several tasks of Slurm, alone: `srun --mpi=pmix` joins them");
    }
    Ok(Launched::default())
}

impl Launched {
    /// Waits until all ranks end.
    pub fn finish(self) {
        #[cfg(feature = "mpi")]
        if let Some(mpi) = self.mpi {
            mpi.finish();
        }
    }
}
