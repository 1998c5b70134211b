//! The time that it is, and the time that a piece of work takes.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds since 1970 in UTC.
pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Runs from when it was started.
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// A stopwatch that runs from now on.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
