//! Work on untrusted input where there are no threads: in WebAssembly, whose memory has a limit of its own. The work is
//! done at once and without a budget.

use std::time::Duration;

use anyhow::Result;

/// Does `work`.
///
/// # Errors
/// An error of the work.
pub fn within<R>(_: &str, _: usize, work: impl FnOnce() -> Result<R>) -> Result<R> {
    work()
}

/// The same in a time of one's own.
///
/// # Errors
/// An error of the work.
pub fn within_time<R>(
    _: &str,
    _: usize,
    _: Duration,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    work()
}

/// Does `work`, in which a library reads untrusted input.
///
/// # Errors
/// None: a panic ends the program.
pub fn caught<R>(_: &str, work: impl FnOnce() -> R) -> Result<R> {
    Ok(work())
}
