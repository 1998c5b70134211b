//! The process of a command: who may stop it, and which of several it is.

use anyhow::{Context, Result, bail};

use crate::ranks::{Ranks, tcp};
use crate::stop::Stop;

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
pub fn refuse_several(why: &str) -> Result<()> {
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

/// The environment variable of processes that `tealight launch` starts: their place in it.
pub const PLACE: &str = "TEALIGHT_LAUNCHED";
/// The key that they share.
pub const KEY: &str = "TEALIGHT_LAUNCH_KEY";

/// The other processes of this command, while it runs.
pub struct Launched {
    /// All of them, and the place of this one.
    pub ranks: Ranks,
    /// Whether `tealight launch` started them: the launcher says on standard input which signals it got.
    pub has_launcher: bool,
    #[cfg(feature = "mpi")]
    mpi: Option<crate::ranks::Launched>,
}

/// Joins the other processes of this command, where a launcher started any.
///
/// # Errors
/// They cannot be joined; a launcher of MPI started several, and this build has no MPI.
pub fn launch() -> Result<Option<Launched>> {
    if let Ok(place) = std::env::var(PLACE) {
        let key = tcp::Key::new(std::env::var(KEY).unwrap_or_default()).context(KEY)?;
        let place =
            serde_json::from_str(&place).with_context(|| format!("{PLACE} is set, and wrong"))?;
        return Ok(Some(Launched {
            ranks: tcp::join(&place, &key).context("the ranks of `tealight launch`")?,
            has_launcher: true,
            #[cfg(feature = "mpi")]
            mpi: None,
        }));
    }
    launch_by_mpi()
}

#[cfg(feature = "mpi")]
fn launch_by_mpi() -> Result<Option<Launched>> {
    if number(&STARTED).is_none() {
        if number(&TASKS).is_some_and(|tasks| tasks > 1) {
            tracing::info!("one of several tasks of Slurm, alone: `srun --mpi=pmix` joins them");
        }
        return Ok(None);
    }
    let mpi = crate::ranks::launch()?;
    Ok(Some(Launched { ranks: mpi.ranks.clone(), has_launcher: false, mpi: Some(mpi) }))
}

#[cfg(not(feature = "mpi"))]
fn launch_by_mpi() -> Result<Option<Launched>> {
    refuse_several(
        "this build has no MPI; use `tealight launch`, or build with `--features mpi` (docs/how-to/cluster.md)",
    )?;
    Ok(None)
}

impl Launched {
    /// Waits until all ranks end.
    pub fn finish(self) {
        #[cfg(feature = "mpi")]
        if let Some(mpi) = self.mpi {
            mpi.finish();
            return;
        }
        // Who is gone has said why itself.
        let _ = self.ranks.wait();
    }
}
