//! Requests in flight: threads that ask servers, and one place that takes what they bring.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Result;
use tealight_system::stop::Stop;

/// How often a request to stop is looked for while servers bring nothing.
const LOOK: Duration = Duration::from_millis(100);

/// Calls `ask` for each of `count` items on up to `concurrency` threads, and `take` here with every result. An error
/// of either, or a request to stop, ends the work, which `ask` learns from its flag; what other threads still bring is
/// taken all the same, so that a later run need not ask again.
pub(super) fn ask_each<T: Send>(
    count: usize,
    concurrency: usize,
    stop: &Stop,
    ask: impl Fn(usize, &AtomicBool) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, results) = channel();
    std::thread::scope(|scope| {
        for _ in 0..concurrency.min(count) {
            let (send, ask, next, is_over) = (send.clone(), &ask, &next, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || send.send((index, ask(index, is_over))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut failed = None;
        loop {
            let done = match results.recv_timeout(LOOK) {
                Ok((index, result)) => result.and_then(|result| take(index, result)),
                Err(RecvTimeoutError::Timeout) => stop.check(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = done {
                is_over.store(true, Ordering::Relaxed);
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_system::stop::Interrupted;

    #[test]
    fn a_stop_ends_pauses_of_servers_that_bring_nothing() {
        let stop = Stop::default();
        stop.cell().store(130, Ordering::SeqCst);
        let pause = |_, is_over: &AtomicBool| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            anyhow::bail!("stopped")
        };
        let error = ask_each::<()>(2, 2, &stop, pause, |_, ()| Ok(())).unwrap_err();
        assert!(error.is::<Interrupted>(), "{error}");
    }
}
