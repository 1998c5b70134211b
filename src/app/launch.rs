//! `tealight launch`: a command in several processes of this machine, or of several, without MPI.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::system::process::{KEY, PLACE};
use crate::system::ranks::tcp::{Controls, Key, Membership, listen_anywhere, rendezvous};
use crate::system::stop::Stop;

/// How long the other ranks may go on after one has failed. It is less than they wait for the first to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Processes to start, and where the others are.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Processes of this node.
    pub processes: usize,
    /// Nodes, each with as many processes.
    pub nodes: usize,
    /// Which of them this one is, from 0.
    pub node: usize,
    /// Where the first node waits for the others, as `host:port`.
    pub first_node: String,
    /// The command and its options.
    pub command: Vec<String>,
}

/// A rank failed, and has said why; its exit code.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a rank failed")]
pub struct RankFailed(pub u8);

/// The processes of this node; those that are left are killed with it.
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

/// The first node's meeting of all ranks, which gives connections to them.
type Meeting = JoinHandle<Result<Controls>>;

/// Runs the command and waits for all of its processes on this node.
///
/// # Errors
/// A process cannot be started; [`RankFailed`] where one failed; ranks do not come; no key for several nodes.
pub fn run(launch: &Launch, stop: &Stop) -> Result<()> {
    ensure!(launch.node < launch.nodes, "--node-rank {} of --nnodes {}", launch.node, launch.nodes);
    let (size, is_alone) = (launch.nodes * launch.processes, launch.nodes == 1);
    let key = match std::env::var(KEY) {
        Ok(key) => Key::new(key)?,
        Err(_) if is_alone => Key::random()?,
        Err(_) => bail!("set {KEY} to one secret text on all nodes: ranks admit only who knows it"),
    };
    let mut place = launch.first_node.clone();
    let mut meeting = None;
    if launch.node == 0 {
        let listener;
        (listener, place) = listen(&launch.first_node, is_alone)?;
        let key = key.clone();
        meeting = Some(std::thread::spawn(move || rendezvous(&listener, size, &key)));
    }
    stop.saves();
    let mut processes = Processes(Vec::new());
    for local in 0..launch.processes {
        let membership = Membership {
            rank: launch.node * launch.processes + local,
            size,
            local: (local, launch.processes),
            rendezvous: place.clone(),
        };
        processes.0.push(start(launch, &membership, &key)?);
    }
    wait(processes, meeting, stop)
}

/// Where the first node's launcher listens, and where that node's ranks find it. Other nodes find it by
/// `first_node`; a name may have another address there than here, where it may be 127.0.1.1.
fn listen(first_node: &str, is_alone: bool) -> Result<(TcpListener, String)> {
    let fail = || format!("{first_node}: ranks cannot be awaited there");
    let bind = |address: SocketAddr| {
        let listener = TcpListener::bind(address).with_context(fail)?;
        let place = listener.local_addr()?.to_string();
        Ok((listener, place))
    };
    if is_alone {
        return bind((Ipv4Addr::LOCALHOST, 0).into());
    }
    if let Ok(address) = first_node.parse::<SocketAddr>()
        && !address.ip().is_unspecified()
    {
        if address.ip().is_loopback() {
            tracing::warn!(
                "--master-addr {}: only processes of this machine can join there",
                address.ip()
            );
        }
        return bind(address);
    }
    let port = first_node.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let listener = listen_anywhere(port.with_context(fail)?).with_context(fail)?;
    let place = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr()?.port()));
    Ok((listener, place.to_string()))
}

/// Waits for this node's processes. Signals go to them, and where there is a `meeting` to those of other nodes, whose
/// launchers' signals come from there.
fn wait(mut processes: Processes, mut meeting: Option<Meeting>, stop: &Stop) -> Result<()> {
    let mut controls: Option<Controls> = None;
    let mut stop_code: Option<u8> = None;
    let mut failed: Option<(Instant, u8)> = None;
    loop {
        if let Some(thread) = meeting.take_if(|thread| thread.is_finished()) {
            let connections =
                thread.join().map_err(|_| anyhow::anyhow!("the rendezvous panicked"))??;
            let controls = controls.insert(connections);
            if let Some(code) = stop_code {
                controls.signal(processes.0.len(), code);
            }
        }
        let request = stop.exit_code().and_then(|code| u8::try_from(code).ok());
        let request = request.or_else(|| controls.as_mut()?.requested());
        if let (Some(code), None) = (request, stop_code) {
            processes.signal(code);
            if let Some(controls) = &mut controls {
                controls.signal(processes.0.len(), code);
            }
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
            tracing::error!("rank {rank} of this node was killed; what it saved is there");
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

    #[test]
    fn several_nodes_find_a_launcher_by_a_name_that_is_local_here() {
        for name in ["localhost:0", "0.0.0.0:0"] {
            let (listener, place) = listen(name, false).expect("listens");
            assert!(listener.local_addr().expect("an address").ip().is_unspecified(), "{name}");
            std::net::TcpStream::connect(&place).expect("this node's ranks connect");
        }
        for (address, is_alone) in [("127.0.0.1:0", false), ("no name here:0", true)] {
            let (listener, place) = listen(address, is_alone).expect("listens");
            let local = listener.local_addr().expect("an address");
            assert!(local.ip().is_loopback() && place == local.to_string(), "{place}");
        }
        assert!(listen("a name without a port", false).is_err());
    }

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
}
