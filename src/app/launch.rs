//! `tealight launch`: a command in several processes of this machine, without MPI.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::system::process::{KEY, PLACE};
use crate::system::ranks::tcp::{Key, Membership, rendezvous};
use crate::system::stop::Stop;

/// How long the other ranks may go on after one has failed. It is less than they wait for the first to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Processes to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Number of processes.
    pub processes: usize,
    /// The command and its options.
    pub command: Vec<String>,
}

/// A rank failed, and has said why; its exit code.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a rank failed")]
pub struct RankFailed(pub u8);

/// The processes of a launch; those that are left are killed with it.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    /// Hands the exit code of a signal to all: a rank takes the signal for its own.
    fn signal(&mut self, code: u8) {
        for child in &mut self.0 {
            if let Some(input) = &mut child.stdin {
                // One that has ended reads nothing.
                let _ = input.write_all(&[code]).and_then(|()| input.flush());
            }
        }
    }

    /// How they ended, of those that have.
    fn ended(&mut self) -> Result<Vec<Option<ExitStatus>>> {
        self.0.iter_mut().map(|child| Ok(child.try_wait()?)).collect()
    }
}

/// Where all ranks meet.
type Meeting = JoinHandle<Result<()>>;

/// Runs the command and waits for all of its processes.
///
/// # Errors
/// A process cannot be started; [`RankFailed`] where one failed; ranks do not come.
pub fn run(launch: &Launch, stop: &Stop) -> Result<()> {
    let (size, key) = (launch.processes, Key::random()?);
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("ranks cannot be awaited")?;
    let place = listener.local_addr()?;
    let meeting = {
        let key = key.clone();
        std::thread::spawn(move || rendezvous(&listener, size, &key))
    };
    stop.saves();
    let mut processes = Processes(Vec::new());
    for rank in 0..size {
        processes.0.push(start(launch, &Membership { rank, size, rendezvous: place }, &key)?);
    }
    wait(processes, Some(meeting), stop)
}

/// Waits for the processes. Signals go to them; before they have met, a signal ends them.
fn wait(mut processes: Processes, mut meeting: Option<Meeting>, stop: &Stop) -> Result<()> {
    let mut stop_code: Option<u8> = None;
    let mut failed: Option<(Instant, u8)> = None;
    loop {
        if let Some(thread) = meeting.take_if(|thread| thread.is_finished()) {
            thread.join().map_err(|_| anyhow::anyhow!("the rendezvous panicked"))??;
        }
        let request = stop.exit_code().and_then(|code| u8::try_from(code).ok());
        if let (Some(code), None) = (request, stop_code) {
            if meeting.is_some() {
                // Nothing has begun that could be saved.
                return Err(RankFailed(code).into());
            }
            processes.signal(code);
            stop_code = Some(code);
        }
        let ended = processes.ended()?;
        // Who was asked to stop ends with the signal's code, and others may take the time that saving takes.
        let is_stopped = |status: &ExitStatus| stop_code.is_some_and(|code| is_code(status, code));
        if failed.is_none() {
            let is_wrong = |status: &ExitStatus| !status.success() && !is_stopped(status);
            let wrong = ended.iter().position(|status| status.as_ref().is_some_and(is_wrong));
            failed = wrong.map(|rank| (Instant::now(), code(rank, ended[rank])));
        }
        if failed.is_some_and(|(at, _)| at.elapsed() > LAST_WORDS)
            || ended.iter().all(Option::is_some)
        {
            let stopped = stop_code.filter(|_| ended.iter().flatten().any(is_stopped));
            let code = failed.map(|(_, code)| code).or(stopped);
            return code.map_or(Ok(()), |code| Err(RankFailed(code).into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_code(status: &ExitStatus, code: u8) -> bool {
    status.code() == Some(i32::from(code))
}

/// The exit code of a rank that failed; one that a signal killed cannot have said so.
fn code(rank: usize, status: Option<ExitStatus>) -> u8 {
    match status.and_then(|status| status.code()) {
        Some(code) => u8::try_from(code).unwrap_or(1),
        None => {
            tracing::error!("rank {rank} was killed; its last checkpoint is whole");
            1
        }
    }
}

fn start(launch: &Launch, membership: &Membership, key: &Key) -> Result<Child> {
    let program = std::env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command
        .args(&launch.command)
        .env(PLACE, serde_json::to_string(membership)?)
        .env(KEY, key.text())
        .stdin(Stdio::piped());
    // A terminal's Ctrl-C is for the launcher, which hands it on: a rank would get it twice.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().context("a rank cannot be started")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_rank_that_fails_after_a_stop_ends_the_others_and_one_that_saves_has_time() {
        let shell = |script: &str| {
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("starts")
        };
        let ended = |scripts: [&str; 2]| {
            let stop = Stop::default();
            stop.cell().store(143, std::sync::atomic::Ordering::SeqCst);
            let begun = Instant::now();
            let error = wait(Processes(scripts.map(shell).into()), None, &stop).expect_err("fails");
            (error.downcast::<RankFailed>().expect("a rank failed").0, begun.elapsed())
        };
        let (code, time) = ended(["exit 7", "exec sleep 600"]);
        assert!(code == 7 && time < Duration::from_secs(60), "{code} after {time:?}");
        let (code, time) = ended(["exit 143", "sleep 3; exit 143"]);
        assert!(code == 143 && time >= Duration::from_secs(3), "{code} after {time:?}");
    }
    #[cfg(unix)]
    #[test]
    fn a_signal_before_the_ranks_have_met_ends_them() {
        let child = Command::new("sh").args(["-c", "exec sleep 600"]).stdin(Stdio::piped()).spawn();
        let processes = Processes(vec![child.expect("starts")]);
        let pid = processes.0[0].id().to_string();
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        let meeting = std::thread::spawn(move || {
            ended.recv().unwrap_or_default();
            Ok(())
        });
        let stop = Stop::default();
        stop.cell().store(143, std::sync::atomic::Ordering::SeqCst);
        let error = wait(processes, Some(meeting), &stop).expect_err("it was stopped");
        assert_eq!(error.downcast::<RankFailed>().expect("a code").0, 143);
        let is_there = Command::new("kill").args(["-0", &pid]).stderr(Stdio::null()).status();
        assert!(!is_there.expect("kill").success(), "the rank goes on");
        drop(ends);
    }
}
