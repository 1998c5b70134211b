//! The guard around readers of untrusted files that may panic, or take all memory for a file of some kilobytes: work
//! in a thread of its own. A program that counts the memory of its threads installs its guard; without one, panics
//! alone are caught.

use crate::display::{one_spaced, shortened};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Once, OnceLock};
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
    let guard = INSTALLED.get().copied().unwrap_or(in_a_thread);
    guard(what, bytes, time, Box::new(move || drop(send.send(work())))).map_err(Refused)?;
    done.recv().map_err(|_| Refused(format!("{what}: {PANICKED}")))
}

/// The guard of a process that installed none.
fn in_a_thread(
    what: &str,
    _bytes: u64,
    _time: Duration,
    work: Box<dyn FnOnce() + Send>,
) -> Result<(), String> {
    quiet_panics();
    let thread = std::thread::Builder::new().name(THREAD.into()).spawn(work);
    let thread = thread.map_err(|error| format!("{what}: {error}"))?;
    thread.join().map_err(|_| format!("{what}: {PANICKED}"))
}

thread_local! {
    /// Whether a panic of this thread is an error of what it works on.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// The last panic of this thread while it was quiet.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does `work` in this thread; a panic is an error, and says nothing on the terminal. The error is the panic's text
/// with its place in the source.
///
/// # Errors
/// The work panics.
pub fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // A program that aborts shows its panics: it has no later moment to report them.
    if cfg!(not(panic = "unwind")) {
        return Ok(work());
    }
    quiet_panics();
    let outer = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    result.map_err(|_| PANIC.take())
}

/// Keeps panics silent of which the caller learns: those in [`caught`], and those of threads of the name [`THREAD`].
pub fn quiet_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PANIC.set(described(info));
            } else if std::thread::current().name() != Some(THREAD) {
                usual(info);
            }
        }));
    });
}

/// A panic in one line: its text, and the file and line of the source.
fn described(info: &PanicHookInfo<'_>) -> String {
    const MAX_TEXT: usize = 200;
    let text = info.payload_as_str().unwrap_or("a panic without a text");
    let text = shortened(&one_spaced(text), MAX_TEXT);
    let Some(place) = info.location() else { return text };
    let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{text} ({file}:{})", place.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_is_its_text_and_place() {
        assert_eq!(caught(|| 3), Ok(3));
        let error = caught(|| -> u8 { panic!("a\n{}", "b") }).unwrap_err();
        assert!(error.starts_with("a b (guard.rs:"), "{error}");
        // One inside another's work leaves the outer one quiet.
        let outer = caught(|| -> u8 {
            assert!(caught(|| -> u8 { panic!("inner") }).unwrap_err().starts_with("inner"));
            panic!("outer")
        });
        assert!(outer.unwrap_err().starts_with("outer"));
    }

    #[test]
    fn panics_become_errors_of_the_input() {
        let time = Duration::from_secs(60);
        assert_eq!(guarded("x", 1 << 20, time, || 3), Ok(3));
        let refused = guarded("x", 1 << 20, time, || -> u8 { panic!("not shown") });
        assert!(refused.unwrap_err().to_string().starts_with("x: it is malformed"));
    }
}
