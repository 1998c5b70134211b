//! The time that a piece of work takes, where there is no clock: in WebAssembly. It is always 0.

/// Stands still.
pub struct Stopwatch;

impl Stopwatch {
    /// Starts.
    pub fn start() -> Self {
        Self
    }

    /// No time.
    pub fn seconds(&self) -> f64 {
        0.0
    }
}
