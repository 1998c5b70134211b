//! The guard around readers of untrusted files that may panic, or take all memory for a file of some kilobytes: work
//! in a thread of its own. A program that counts the memory of its threads installs its guard; without one, panics
//! alone are caught.

use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Does work in a thread of its own with at most so many bytes of memory and so much time; the text is what messages
/// call the work. An error says that the work panicked or took more.
pub type Guard = fn(&str, u64, Duration, Box<dyn FnOnce() + Send>) -> Result<(), String>;

/// The name of the threads that work under a guard: their panics are errors of what they read.
pub const THREAD: &str = "budgeted";

static INSTALLED: OnceLock<Guard> = OnceLock::new();

/// Work that panicked, or took more than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// What a guard says of work that panicked.
pub const PANICKED: &str = "it is malformed in a way that its reader does not survive";

/// Makes `guard` the guard of this process; the first one that is installed stays.
pub fn install(guard: Guard) {
    INSTALLED.get_or_init(|| guard);
}

/// The memory that reading a file of `size` bytes may take.
pub fn memory_for(size: u64) -> u64 {
    const LEAST: u64 = 2 << 30;
    const BYTES_A_BYTE: u64 = 64;
    size.saturating_mul(BYTES_A_BYTE).max(LEAST)
}

/// Does `work` under the guard. `what` is what the message calls it.
///
/// # Errors
/// The work panics, or takes more than `bytes` of memory or than `time`.
pub fn guarded<R: Send + 'static>(
    what: &str,
    bytes: u64,
    time: Duration,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Refused> {
    let (send, done) = channel();
    let guard = INSTALLED.get().copied().unwrap_or(caught);
    guard(what, bytes, time, Box::new(move || drop(send.send(work())))).map_err(Refused)?;
    done.recv().map_err(|_| Refused(format!("{what}: {PANICKED}")))
}

/// The guard of a process that installed none.
fn caught(
    what: &str,
    _bytes: u64,
    _time: Duration,
    work: Box<dyn FnOnce() + Send>,
) -> Result<(), String> {
    let thread = std::thread::Builder::new().name(THREAD.into()).spawn(work);
    let thread = thread.map_err(|error| format!("{what}: {error}"))?;
    thread.join().map_err(|_| format!("{what}: {PANICKED}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors_of_the_input() {
        let time = Duration::from_secs(60);
        assert_eq!(guarded("x", 1 << 20, time, || 3), Ok(3));
        let refused = guarded("x", 1 << 20, time, || -> u8 { panic!("not shown") });
        assert!(refused.unwrap_err().to_string().starts_with("x: it is malformed"));
    }
}
