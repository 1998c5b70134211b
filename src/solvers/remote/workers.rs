//! Requests in flight: threads that ask servers, and one place that takes what they bring.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use anyhow::Result;

/// Calls `ask` for each of `count` items on up to `concurrency` threads, and `take` here with every result. An error
/// of either ends the work, which `ask` learns from its flag; what other threads still bring is taken all the same, so
/// that a later run need not ask again.
pub(super) fn ask_each<T: Send>(
    count: usize,
    concurrency: usize,
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
        while let Ok((index, result)) = results.recv() {
            if let Err(error) = result.and_then(|result| take(index, result)) {
                is_over.store(true, Ordering::Relaxed);
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), Err)
    })
}
