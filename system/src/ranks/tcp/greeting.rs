//! Who may join a launch: both ends of a connection prove that they know its key, the end that connects first. So a
//! stranger who connects gets nothing that depends on the key.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// How long a connection may take until both ends have proved the key, and each message about addresses after that.
const GREETING: Duration = Duration::from_secs(20);
/// Most connections that are greeted at a time; beyond them, the oldest is closed.
const MOST_GREETINGS: usize = 64;
/// Most connections that are accepted before those that are there are looked at again.
const MOST_AT_ONCE: usize = 16;
/// Bytes of a challenge and of a proof.
const SIZE: usize = 32;
/// What a listener answers to a wrong proof, so that the other end need not try again. It is no proof of any key.
const REFUSAL: [u8; SIZE] = [0; SIZE];

/// The secret that all processes of a launch share.
#[derive(Clone)]
pub struct Key(String);

/// The two ends have different keys; trying again does not help.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the other end does not know the key of this launch")]
pub(super) struct OtherKey;

impl Key {
    /// A new one.
    pub fn random() -> Result<Self> {
        let bytes = challenge()?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The launcher's, as a variable of the environment has it.
    ///
    /// # Errors
    /// It is empty.
    pub fn new(text: String) -> Result<Self> {
        ensure!(!text.is_empty(), "it is empty");
        Ok(Self(text))
    }

    /// As a variable of the environment has it.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The proof of one end, for the challenges of the listening and of the connecting one.
    fn proof(&self, is_listener: bool, listener: &[u8], connector: &[u8]) -> [u8; SIZE] {
        let mut hash = Sha256::new();
        hash.update([u8::from(is_listener)]);
        hash.update(listener);
        hash.update(connector);
        hash.update(self.0.as_bytes());
        hash.finalize().into()
    }
}

/// Looks at all bytes, wherever they differ.
fn are_equal(a: &[u8], b: &[u8; SIZE]) -> bool {
    a.len() == SIZE && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn challenge() -> Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
    Ok(bytes)
}

/// For messages after the greeting.
fn set_timeouts(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(GREETING))?;
    stream.set_write_timeout(Some(GREETING))
}

/// A listener that greets many connections side by side: those that say nothing, or say it slowly, hold up nobody.
pub(super) struct Door<'a> {
    listener: &'a TcpListener,
    key: &'a Key,
    /// The oldest first.
    greetings: Vec<Greeting>,
}

impl<'a> Door<'a> {
    pub(super) fn open(listener: &'a TcpListener, key: &'a Key) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, key, greetings: Vec::new() })
    }

    /// The next connection from a process that knows the key; others are closed.
    pub(super) fn next(&mut self, deadline: Instant) -> Result<TcpStream> {
        loop {
            let failed = self.accept();
            let mut index = 0;
            while index < self.greetings.len() {
                match self.greetings[index].has_proved(self.key) {
                    Ok(false) => index += 1,
                    Ok(true) => return Ok(self.greetings.remove(index).stream),
                    Err(_) => drop(self.greetings.remove(index)),
                }
            }
            if Instant::now() > deadline {
                failed?;
                bail!("nobody else has come until the deadline");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Begins to greet those that have connected. An error says that one could not be accepted, which need not be so
    /// for the next: a stranger may have gone at once.
    fn accept(&mut self) -> std::io::Result<()> {
        for _ in 0..MOST_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            if self.greetings.len() == MOST_GREETINGS {
                self.greetings.remove(0);
            }
            self.greetings.extend(Greeting::begin(stream).ok());
        }
        Ok(())
    }
}

/// A connection whose other end has not yet proved the key.
struct Greeting {
    stream: TcpStream,
    challenge: [u8; SIZE],
    /// The other end's challenge and proof, of which so many bytes have come.
    answer: [u8; 2 * SIZE],
    length: usize,
    deadline: Instant,
}

impl Greeting {
    fn begin(mut stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let challenge = challenge()?;
        // A new connection takes a few bytes at once.
        stream.write_all(&challenge)?;
        let deadline = Instant::now() + GREETING;
        Ok(Self { stream, challenge, answer: [0; 2 * SIZE], length: 0, deadline })
    }

    /// Whether the other end has proved the key; an error where it never will.
    fn has_proved(&mut self, key: &Key) -> Result<bool> {
        while self.length < self.answer.len() {
            match self.stream.read(&mut self.answer[self.length..]) {
                Ok(0) => bail!("the other end has gone"),
                Ok(count) => self.length += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ensure!(Instant::now() < self.deadline, "the other end takes too long");
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (other, proof) = self.answer.split_at(SIZE);
        if !are_equal(proof, &key.proof(false, &self.challenge, other)) {
            self.stream.write_all(&REFUSAL)?;
            return Err(OtherKey.into());
        }
        self.stream.write_all(&key.proof(true, &self.challenge, other))?;
        self.stream.set_nonblocking(false)?;
        set_timeouts(&self.stream)?;
        Ok(true)
    }
}

/// A connection to `address`, where somebody listens or will soon, whatever comes between until the deadline.
///
/// # Errors
/// The deadline has passed, or the other end has another key.
pub(super) fn connect(address: SocketAddr, key: &Key, deadline: Instant) -> Result<TcpStream> {
    loop {
        match greet(address, key) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.is::<OtherKey>() => return Err(error.context(address.to_string())),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("{address}: no connection")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// The connecting end of a greeting.
fn greet(address: SocketAddr, key: &Key) -> Result<TcpStream> {
    let deadline = Instant::now() + GREETING;
    let mut stream = TcpStream::connect_timeout(&address, GREETING)?;
    // Who connects to a free port of its own machine again and again can meet itself, and then keeps the port.
    ensure!(stream.local_addr()? != stream.peer_addr()?, "nobody listens there");
    stream.set_nodelay(true)?;
    set_timeouts(&stream)?;
    let (local, mut other, mut proof) = (challenge()?, [0; SIZE], [0; SIZE]);
    read_by(&mut stream, &mut other, deadline)?;
    stream.write_all(&[local, key.proof(false, &other, &local)].concat())?;
    read_by(&mut stream, &mut proof, deadline)?;
    if !are_equal(&proof, &key.proof(true, &other, &local)) {
        return Err(OtherKey.into());
    }
    set_timeouts(&stream)?;
    Ok(stream)
}

/// Reads all of `bytes` before the deadline: a timeout of the stream is one of each read.
fn read_by(stream: &mut TcpStream, bytes: &mut [u8], deadline: Instant) -> std::io::Result<()> {
    let mut length = 0;
    while length < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[length..]) {
            Ok(0) => return Err(Error::new(ErrorKind::UnexpectedEof, "the other end has gone")),
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
