//! The connections on which ranks met the launcher of the first node. They stay open: a signal that any launcher gets
//! goes to the first node's, and from there to all ranks; and ranks of other nodes learn that the first node has ended.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::keep_alive;

/// The first launcher's ends, in order of rank; none for a rank that has ended.
pub struct Controls(Vec<Option<TcpStream>>);

impl Controls {
    pub(super) fn new(streams: Vec<TcpStream>) -> Result<Self> {
        for stream in &streams {
            stream.set_nonblocking(true)?;
        }
        Ok(Self(streams.into_iter().map(Some).collect()))
    }

    /// The exit code of a signal that the launcher of some rank has got since the last call.
    pub fn requested(&mut self) -> Option<u8> {
        let mut requested = None;
        for place in &mut self.0 {
            let mut code = [0];
            match place.as_mut().map(|stream| stream.read(&mut code)) {
                Some(Ok(1)) => requested = Some(code[0]),
                Some(Err(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                _ => *place = None,
            }
        }
        requested
    }

    /// Hands the exit code of a signal to the ranks from `begin` on, as [`Control::next`].
    pub fn signal(&mut self, begin: usize, code: u8) {
        for stream in self.0.iter_mut().skip(begin).flatten() {
            // One that has ended reads nothing.
            let _ = stream.write_all(&[code]);
        }
    }
}

/// A rank's end.
pub struct Control {
    stream: TcpStream,
    is_finished: AtomicBool,
}

impl Control {
    pub(super) fn new(stream: TcpStream) -> Result<Self> {
        keep_alive(&stream)?;
        Ok(Self { stream, is_finished: AtomicBool::new(false) })
    }

    /// Tells the first node's launcher the exit code of a signal that this rank's launcher got.
    pub fn request(&self, code: u8) {
        // One that has ended has ended all.
        let _ = (&self.stream).write_all(&[code]);
    }

    /// Waits for the exit code of the next signal that any launcher got; `None` once the first node's has ended.
    pub fn next(&self) -> Option<u8> {
        let mut code = [0];
        (&self.stream).read_exact(&mut code).ok()?;
        Some(code[0])
    }

    /// From now on the first node's launcher may end before this rank does.
    pub fn finish(&self) {
        self.is_finished.store(true, Ordering::SeqCst);
    }

    /// Whether all work was done when [`Control::next`] said that the first node's launcher has ended.
    pub fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::SeqCst)
    }
}
