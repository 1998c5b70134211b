//! Ranks that `tealight launch` started, joined by TCP: a connection between every two of them.
//!
//! The launcher of the first node waits at the rendezvous. Every rank tells it where it listens and gets the addresses
//! of all; of two ranks the higher one connects. Both ends of a connection prove that they know the launch's key before
//! anything else is read. What is sent afterwards is neither encrypted nor signed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytemuck::{cast_slice, cast_slice_mut};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use socket2::{SockRef, TcpKeepalive};

use super::{Link, Ranks};

/// How long ranks wait for each other at the start.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the other end may take to prove that it knows the key.
const GREETING: Duration = Duration::from_secs(20);
/// Most bytes of a message about addresses.
const MAX_ADDRESSES: usize = 1 << 20;
/// Fewest characters of a key.
const LEAST_KEY: usize = 16;

/// One rank's place in a launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Membership {
    /// Which one it is, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// Which one it is on its machine, and how many are there.
    pub local: (usize, usize),
    /// Where the first node's launcher waits, as `host:port`.
    pub rendezvous: String,
}

/// The secret that all processes of a launch share.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// A new one.
    pub fn random() -> Result<Self> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// One that somebody chose.
    ///
    /// # Errors
    /// It is too short.
    pub fn new(text: String) -> Result<Self> {
        ensure!(
            text.len() >= LEAST_KEY,
            "TEALIGHT_LAUNCH_KEY has fewer than {LEAST_KEY} characters"
        );
        Ok(Self(text))
    }

    /// As a variable of the environment has it.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The proof of one end, for the numbers that both drew for this connection.
    fn proof(&self, is_server: bool, local: &[u8; 32], other: &[u8; 32]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update([u8::from(is_server)]);
        hash.update(local);
        hash.update(other);
        hash.update(self.0.as_bytes());
        hash.finalize().into()
    }

    /// Proves the key to the other end, and has it prove that it knows the key too.
    fn greet(&self, stream: &mut TcpStream, is_server: bool) -> Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING))?;
        stream.set_write_timeout(Some(GREETING))?;
        let (mut local, mut other, mut proof) = ([0; 32], [0; 32], [0; 32]);
        getrandom::fill(&mut local).context("the system gives no random numbers")?;
        stream.write_all(&local)?;
        stream.read_exact(&mut other)?;
        stream.write_all(&self.proof(is_server, &local, &other))?;
        stream.read_exact(&mut proof)?;
        // All bytes are looked at, wherever they differ.
        let expected = self.proof(!is_server, &other, &local);
        let differ = proof.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
        ensure!(differ == 0, "the other end does not know the key of this launch");
        Ok(())
    }
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

/// The next connection from a process that knows the key; others are closed.
fn accept(listener: &TcpListener, key: &Key, deadline: Instant) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    while Instant::now() < deadline {
        match listener.accept() {
            Ok((mut stream, _)) => {
                if key.greet(&mut stream, true).is_ok() {
                    return Ok(stream);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("nobody came within {} s", PATIENCE.as_secs())
}

/// A connection to `address`, where somebody will listen soon.
fn connect(address: &str, key: &Key, deadline: Instant) -> Result<TcpStream> {
    loop {
        match TcpStream::connect(address) {
            Ok(mut stream) => {
                key.greet(&mut stream, false).with_context(|| address.to_owned())?;
                return Ok(stream);
            }
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("{address}: no connection"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Waits for all ranks of a launch and tells each where the others listen.
///
/// # Errors
/// Ranks that do not come within five minutes, two of one number.
pub fn rendezvous(listener: &TcpListener, size: usize, key: &Key) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut ranks: Vec<Option<(TcpStream, String)>> = (0..size).map(|_| None).collect();
    while let Some(missing) = ranks.iter().position(Option::is_none) {
        let stream = accept(listener, key, deadline)
            .with_context(|| format!("rank {missing} of {size} is missing"))?;
        let hello = receive(&stream, MAX_ADDRESSES)?;
        let (rank, address): (usize, String) = serde_json::from_slice(&hello)?;
        let place = ranks.get_mut(rank).with_context(|| format!("there is no rank {rank}"))?;
        ensure!(
            place.is_none(),
            "two processes are rank {rank}: each node has a --node-rank of its own"
        );
        *place = Some((stream, address));
    }
    let addresses: Vec<&String> = ranks.iter().flatten().map(|(_, address)| address).collect();
    let table = serde_json::to_vec(&addresses)?;
    ranks.iter().flatten().try_for_each(|(stream, _)| Ok(send(stream, &table)?))
}

/// Joins the other ranks of a launch.
///
/// # Errors
/// Others do not come, or do not know the key.
pub fn join(membership: &Membership, key: &Key) -> Result<Ranks> {
    let &Membership { rank, size, local, .. } = membership;
    ensure!(rank < size, "rank {rank} of {size}");
    let deadline = Instant::now() + PATIENCE;
    let meeting = connect(&membership.rendezvous, key, deadline)?;
    // The network on which the launcher is found is that of the others too.
    let listener = TcpListener::bind(SocketAddr::new(meeting.local_addr()?.ip(), 0))?;
    send(&meeting, &serde_json::to_vec(&(rank, listener.local_addr()?.to_string()))?)?;
    meeting.set_read_timeout(Some(PATIENCE))?;
    let table = receive(&meeting, MAX_ADDRESSES).context("the ranks did not all come")?;
    let addresses: Vec<String> = serde_json::from_slice(&table)?;
    ensure!(addresses.len() == size, "{} ranks came, {size} were to", addresses.len());
    let mut peers: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
    for other in 0..rank {
        let stream = connect(&addresses[other], key, deadline)?;
        send(&stream, &(rank as u64).to_le_bytes())?;
        peers[other] = Some(stream);
    }
    while peers[rank + 1..].iter().any(Option::is_none) {
        let stream = accept(&listener, key, deadline)?;
        let said = receive(&stream, 8)?;
        let other = said.try_into().map_or(usize::MAX, |said| u64::from_le_bytes(said) as usize);
        let is_expected = other > rank && peers.get(other).is_some_and(Option::is_none);
        ensure!(is_expected, "a connection of rank {other} was not expected");
        peers[other] = Some(stream);
    }
    for stream in peers.iter().flatten() {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        // A machine that is gone without a word is noticed.
        let alive = TcpKeepalive::new().with_time(Duration::from_secs(30));
        SockRef::from(stream).set_tcp_keepalive(&alive.with_interval(Duration::from_secs(10)))?;
    }
    Ok(Ranks::joined(Arc::new(Mesh { rank, local, peers, one_call: Mutex::default() })))
}

/// The connections of one rank.
struct Mesh {
    rank: usize,
    local: (usize, usize),
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
        self.local
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

    fn gather_to_first(&self, local: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![Vec::new(); self.peers.len()];
        self.swap(
            |rank| if rank == 0 { local } else { &[] },
            |rank, stream| {
                all[rank] = receive(stream, usize::MAX)?;
                Ok(())
            },
        )?;
        if self.rank > 0 {
            return Ok(Vec::new());
        }
        all[0] = local.to_vec();
        Ok(all)
    }

    fn exchange(&self, local: &[f32], parts: &mut [f32]) -> Result<()> {
        let part = local.len() / self.peers.len();
        let of = |rank: usize| part * rank..part * (rank + 1);
        parts[of(self.rank)].copy_from_slice(&local[of(self.rank)]);
        self.swap(
            |rank| cast_slice(&local[of(rank)]),
            |rank, stream| receive_numbers(stream, &mut parts[of(rank)]),
        )
    }

    fn concatenate(&self, local: &[f32], all: &mut [f32]) -> Result<()> {
        let of = |rank: usize| local.len() * rank..local.len() * (rank + 1);
        all[of(self.rank)].copy_from_slice(local);
        self.swap(|_| cast_slice(local), |rank, stream| receive_numbers(stream, &mut all[of(rank)]))
    }

    fn abort(&self, code: i32) -> ! {
        // Connections that close end the others.
        std::process::exit(code)
    }
}

#[cfg(test)]
mod tests;
