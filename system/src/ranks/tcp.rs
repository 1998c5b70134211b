//! Ranks that `tealight launch` started on this machine, joined by TCP: a connection between every two of them.
//!
//! The launcher waits at the rendezvous. Every rank tells it where it listens and gets the addresses of all; of two
//! ranks the higher one connects. All addresses are the machine's own, 127.0.0.1. Other users of the machine can
//! connect there, so both ends of a connection prove that they know the launch's key before anything else is read
//! (`greeting`).

mod greeting;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytemuck::{cast_slice, cast_slice_mut};
use serde::{Deserialize, Serialize};

use super::{Link, Ranks};
pub use greeting::Key;
use greeting::{Door, connect};

/// How long ranks wait for each other at the start.
const PATIENCE: Duration = Duration::from_secs(300);
/// Most bytes of a message about addresses.
const MAX_ADDRESSES: usize = 1 << 20;

/// One rank's place in a launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Membership {
    /// Which one it is, from 0.
    pub rank: usize,
    /// Number of ranks in the launch.
    pub size: usize,
    /// Where the launcher waits.
    pub rendezvous: SocketAddr,
}

fn send(mut stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(bytes)
}

fn receive_length(mut stream: &TcpStream) -> std::io::Result<usize> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    usize::try_from(u64::from_le_bytes(length)).map_err(std::io::Error::other)
}

fn receive(mut stream: &TcpStream, most: usize) -> std::io::Result<Vec<u8>> {
    let length = receive_length(stream)?;
    if length > most {
        return Err(std::io::Error::other(format!("a message of {length} bytes")));
    }
    // Memory is taken as bytes come.
    let mut bytes = Vec::new();
    (&mut stream).take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Waits for all ranks of a launch and tells each where the others listen.
///
/// # Errors
/// Ranks that do not come within five minutes, two of one number.
pub fn rendezvous(listener: &TcpListener, size: usize, key: &Key) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut door = Door::open(listener, key)?;
    let mut ranks: Vec<Option<(TcpStream, SocketAddr)>> = (0..size).map(|_| None).collect();
    while let Some(missing) = ranks.iter().position(Option::is_none) {
        let stream =
            door.next(deadline).with_context(|| format!("rank {missing} of {size} is missing"))?;
        // Who is gone after the greeting comes again.
        let Ok(hello) = receive(&stream, MAX_ADDRESSES) else { continue };
        let (rank, address): (usize, SocketAddr) = serde_json::from_slice(&hello)?;
        let place = ranks.get_mut(rank).with_context(|| format!("there is no rank {rank}"))?;
        ensure!(place.is_none(), "two processes are rank {rank}");
        *place = Some((stream, address));
    }
    let addresses: Vec<SocketAddr> = ranks.iter().flatten().map(|(_, address)| *address).collect();
    let table = serde_json::to_vec(&addresses)?;
    ranks.iter().flatten().try_for_each(|(stream, _)| Ok(send(stream, &table)?))
}

/// Joins the other ranks of a launch.
///
/// # Errors
/// Others do not come, or do not know the key.
pub fn join(membership: &Membership, key: &Key) -> Result<Ranks> {
    let &Membership { rank, size, rendezvous } = membership;
    ensure!(rank < size, "rank {rank} of {size}");
    let deadline = Instant::now() + PATIENCE;
    let meeting = connect(rendezvous, key, deadline)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    send(&meeting, &serde_json::to_vec(&(rank, listener.local_addr()?))?)?;
    meeting.set_read_timeout(Some(PATIENCE))?;
    let table = receive(&meeting, MAX_ADDRESSES).context("the ranks did not all come")?;
    let addresses: Vec<SocketAddr> = serde_json::from_slice(&table)?;
    ensure!(addresses.len() == size, "{} ranks came, {size} were to", addresses.len());
    let mut peers: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
    for other in 0..rank {
        let stream = connect(addresses[other], key, deadline)?;
        send(&stream, &(rank as u64).to_le_bytes())?;
        peers[other] = Some(stream);
    }
    let mut door = Door::open(&listener, key)?;
    while let Some(missing) = (rank + 1..size).find(|other| peers[*other].is_none()) {
        let stream = door.next(deadline).with_context(|| format!("rank {missing} is missing"))?;
        let Ok(bytes) = receive(&stream, 8) else { continue };
        let other = bytes.try_into().map_or(usize::MAX, |bytes| u64::from_le_bytes(bytes) as usize);
        let is_expected = other > rank && peers.get(other).is_some_and(Option::is_none);
        ensure!(is_expected, "a connection of rank {other} was not expected");
        peers[other] = Some(stream);
    }
    for stream in peers.iter().flatten() {
        // From now on the other end may be silent for as long as it is there.
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
    }
    Ok(Ranks::joined(Arc::new(Mesh { rank, peers, one_call: Mutex::default() })))
}

/// The connections of one rank.
struct Mesh {
    rank: usize,
    /// None at its own place.
    peers: Vec<Option<TcpStream>>,
    /// Messages of two calls must not mix.
    one_call: Mutex<()>,
}

impl Mesh {
    /// Sends `to(rank)` to every other rank while `from(rank, stream)` reads what each of them sent.
    fn swap<'a>(
        &self,
        to: impl Fn(usize) -> &'a [u8],
        mut from: impl FnMut(usize, &TcpStream) -> std::io::Result<()>,
    ) -> Result<()> {
        let _one = self.one_call.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || {
            let streams = self.peers.iter().enumerate();
            streams.filter_map(|(rank, stream)| Some((rank, stream.as_ref()?)))
        };
        let gone = |rank: usize| format!("rank {rank} is gone");
        std::thread::scope(|scope| {
            // Each in a thread of its own: nobody reads before it has sent, and nobody waits for another to read.
            let sent: Vec<_> = others()
                .map(|(rank, stream)| {
                    let bytes = to(rank);
                    (rank, scope.spawn(move || send(stream, bytes)))
                })
                .collect();
            for (rank, stream) in others() {
                if let Err(error) = from(rank, stream) {
                    // Threads that still send to others must end too.
                    others()
                        .for_each(|(_, stream)| drop(stream.shutdown(std::net::Shutdown::Both)));
                    return Err(error).with_context(|| gone(rank));
                }
            }
            for (rank, thread) in sent {
                let sent = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("panicked")));
                sent.with_context(|| gone(rank))?;
            }
            Ok(())
        })
    }
}

/// Reads as many numbers as `into` has.
fn receive_numbers(mut stream: &TcpStream, into: &mut [f32]) -> std::io::Result<()> {
    let bytes: &mut [u8] = cast_slice_mut(into);
    let length = receive_length(stream)?;
    if length != bytes.len() {
        return Err(std::io::Error::other(format!("{length} bytes, {} were due", bytes.len())));
    }
    stream.read_exact(bytes)
}

impl Link for Mesh {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.peers.len()
    }

    fn local(&self) -> (usize, usize) {
        (self.rank, self.peers.len())
    }

    fn all_gather(&self, local: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![Vec::new(); self.peers.len()];
        all[self.rank] = local.to_vec();
        self.swap(
            |_| local,
            |rank, stream| {
                all[rank] = receive(stream, usize::MAX)?;
                Ok(())
            },
        )?;
        Ok(all)
    }

    fn exchange(&self, local: &[f32], parts: &mut [f32]) -> Result<()> {
        let part = local.len() / self.peers.len();
        let range = |rank: usize| part * rank..part * (rank + 1);
        parts[range(self.rank)].copy_from_slice(&local[range(self.rank)]);
        self.swap(
            |rank| cast_slice(&local[range(rank)]),
            |rank, stream| receive_numbers(stream, &mut parts[range(rank)]),
        )
    }

    fn concatenate(&self, local: &[f32], all: &mut [f32]) -> Result<()> {
        let range = |rank: usize| local.len() * rank..local.len() * (rank + 1);
        all[range(self.rank)].copy_from_slice(local);
        self.swap(
            |_| cast_slice(local),
            |rank, stream| receive_numbers(stream, &mut all[range(rank)]),
        )
    }

    fn abort(&self, code: i32) -> ! {
        // Connections that close end the others.
        std::process::exit(code)
    }
}

#[cfg(test)]
mod tests;
