//! Work on untrusted input, with a budget of memory and time: a chat template or a tokenizer is a program, and
//! may ask for all the memory there is.
//!
//! No evaluator counts the bytes of every value that it makes, and an allocation that fails ends the process. So the
//! work is done in a thread of its own, and the allocator of the binary counts what that thread holds: where it asks
//! for more than its budget it never gets an answer, and whoever waits for it learns why. What such a thread holds
//! then, at most its budget, is lost until the process ends. A library without [`Counting`] as its allocator has the
//! limit of time alone.
//!
//! Two simpler designs do not hold. minijinja's fuel counts instructions and its output can be cut off, but `x ~ x` in
//! a loop doubles a text with every step, and no hook of minijinja sees it; tokenizers and Parquet readers have no
//! such limits at all. A child process would need a binary to start, which a library does not have, and would start
//! for every prompt: this is the path of rollouts.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tealight_core::guard;

/// How long the work may take.
const TIME: Duration = Duration::from_secs(60);
/// How often is looked whether it has asked for too much.
const LOOK: Duration = Duration::from_millis(20);
/// The name of the threads that work on untrusted input.
pub(crate) const THREAD: &str = guard::THREAD;
/// Bytes of its stack, of which the system gives what is touched: a template's values nest as deep as its fuel lasts.
const STACK: usize = 256 << 20;

thread_local! {
    /// Bytes that this thread may still ask for, where it has a budget, and where it says that it asked for more, or
    /// learns that its time is over.
    static LEFT: Cell<Option<(i64, &'static AtomicBool)>> = const { Cell::new(None) };
}

/// An allocator that counts what threads with a budget hold.
pub struct Counting<A>(pub A);

// SAFETY: every call goes to the allocator below as it is; what is counted beside it allocates nothing. A thread that
// is over its budget never returns from here, which no caller can tell from an allocator that takes long.
#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is that of the allocator below.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is that of the allocator below.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise is that of the allocator below.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is that of the allocator below.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

/// Counts bytes that this thread takes or gives back.
fn count(bytes: i64) {
    // A thread that ends has no budget any more.
    let _ = LEFT.try_with(|cell| {
        let Some((left, over)) = cell.get() else { return };
        let left = left.saturating_sub(bytes);
        cell.set(Some((left, over)));
        // What is late stops here too, as nobody waits for it any more.
        if bytes > 0 && (left < 0 || over.load(Ordering::Relaxed)) {
            over.store(true, Ordering::SeqCst);
            loop {
                std::thread::sleep(Duration::MAX);
            }
        }
    });
}

/// The error of work that takes more time than it may.
#[derive(Debug, thiserror::Error)]
#[error("{what}: it takes longer than {} s, the limit", time.as_secs())]
pub struct Late {
    what: String,
    time: Duration,
}

/// Does `work` with at most `bytes` of memory, its result included. `what` is what the message calls it.
///
/// # Errors
/// An error of the work; it takes more memory or time than it may; it panics.
pub fn within<R: Send + 'static>(
    what: &str,
    bytes: usize,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    within_time(what, bytes, TIME, work)
}

/// The same in a time of one's own.
pub fn within_time<R: Send + 'static>(
    what: &str,
    bytes: usize,
    time: Duration,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    let (send, done) = channel();
    // One byte a thread, which has to last as long as the thread, if need be for ever.
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    run(Box::new(move || {
        LEFT.set(Some((bytes as i64, over)));
        let result = catch_unwind(AssertUnwindSafe(work));
        LEFT.set(None);
        drop(send.send(result));
    }))?;
    let started = Instant::now();
    loop {
        match done.recv_timeout(LOOK) {
            Ok(Ok(result)) => return result,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(malformed(what));
            }
            Err(RecvTimeoutError::Timeout) if over.load(Ordering::SeqCst) => {
                bail!("{what}: it takes more than {} MB of memory, the limit", bytes >> 20)
            }
            Err(RecvTimeoutError::Timeout) if started.elapsed() > time => {
                over.store(true, Ordering::SeqCst);
                return Err(Late { what: what.to_owned(), time }.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Work for a thread.
type Job = Box<dyn FnOnce() + Send>;

/// Threads without work. Mapping and freeing such a stack costs more than to render most prompts.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Sender<Job>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job in an idle thread, or in a new one where there is none.
fn run(job: Job) -> std::io::Result<()> {
    let thread = idle().pop();
    if let Some(thread) = thread {
        // It holds a sender itself, so that it is there.
        return thread.send(job).map_err(|_| std::io::Error::other("a thread has ended"));
    }
    let (send, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name(THREAD.into()).stack_size(STACK);
    thread.spawn(move || {
        job();
        idle().push(send.clone());
        while let Ok(job) = jobs.recv() {
            job();
            idle().push(send.clone());
        }
    })?;
    Ok(())
}

/// Does `work`, in which a library reads untrusted input; a panic is an error, and says nothing on the terminal.
pub fn caught<R>(what: &str, work: impl FnOnce() -> R) -> Result<R> {
    guard::caught(work).map_err(|_| malformed(what))
}

fn malformed(what: &str) -> anyhow::Error {
    anyhow::anyhow!("{what}: it is malformed in a way that its reader does not survive")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn results_errors_and_panics_come_back() {
        assert_eq!(within("x", 1 << 20, || Ok(3)).unwrap(), 3);
        assert!(
            within("x", 1 << 20, || -> Result<()> { bail!("no") })
                .unwrap_err()
                .to_string()
                .contains("no")
        );
        let message = within("the file", 1 << 20, || -> Result<()> { panic!("{THREAD}") })
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("the file"), "{message}");
    }

    #[test]
    fn work_that_is_late_stops_where_it_next_asks_for_memory() {
        static STEPS: AtomicU64 = AtomicU64::new(0);
        let error = within_time("x", 1 << 20, Duration::from_millis(50), || -> Result<()> {
            loop {
                count(1);
                count(-1);
                STEPS.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(error.unwrap_err().is::<Late>());
        std::thread::sleep(Duration::from_millis(100));
        let steps = STEPS.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(STEPS.load(Ordering::SeqCst), steps);
    }

    #[test]
    fn bytes_that_are_given_back_may_be_taken_again() {
        static OVER: AtomicBool = AtomicBool::new(false);
        LEFT.set(Some((100, &OVER)));
        for _ in 0..10 {
            count(90);
            count(-90);
        }
        let left = LEFT.take().map(|(left, _)| left);
        assert_eq!((left, OVER.load(Ordering::SeqCst)), (Some(100), false));
    }
}
