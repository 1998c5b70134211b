//! Limits of a query: steps of SQLite's machine, and time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Steps between two looks at the budget: few, since a step that works on long texts may take hundredths of a second.
pub(super) const STEPS_A_LOOK: i32 = 10;
/// Looks after which a query is stopped: five million steps, some tenths of a second.
const MAX_LOOKS: u32 = 500_000;
/// Time after which a query is stopped.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The steps and time that a statement has used.
pub(super) struct Budget {
    looks: AtomicU32,
    end: Mutex<Instant>,
}

impl Budget {
    /// A budget of which nothing is left before it begins.
    pub(super) fn new() -> Self {
        Self { looks: AtomicU32::new(0), end: Mutex::new(Instant::now()) }
    }

    pub(super) fn begin(&self) {
        self.looks.store(0, Ordering::Relaxed);
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + MAX_TIME;
    }

    /// Counts a look, and whether it finds nothing left.
    pub(super) fn is_over(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKS || self.is_late()
    }

    /// Whether the time is over.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit that was exceeded, if any.
    pub(super) fn excess(&self) -> Option<String> {
        if self.looks.load(Ordering::Relaxed) > MAX_LOOKS {
            return Some(format!("stopped after {} steps", MAX_LOOKS * STEPS_A_LOOK as u32));
        }
        self.is_late().then(|| format!("stopped after {} seconds", MAX_TIME.as_secs()))
    }
}
