//! Results of gold queries, kept while there is memory for them: the one that was asked for least recently goes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::database::{QueryError, Rows};

/// Most results that are kept.
const MAX_GOLDS: usize = 4096;
/// Most bytes of all of them.
const MAX_BYTES: usize = 256 << 20;

/// The result of a query.
pub(super) type Outcome = Result<Arc<Rows>, QueryError>;

/// Results by database and query.
#[derive(Default)]
pub(super) struct Golds(Mutex<Cache>);

#[derive(Default)]
struct Cache {
    results: HashMap<(String, String), Entry>,
    bytes: usize,
    /// Counts requests.
    clock: u64,
}

struct Entry {
    outcome: Outcome,
    bytes: usize,
    last: u64,
}

impl Golds {
    /// The result for a database and a query, which `run` finds where none is kept.
    pub(super) fn get(&self, key: (String, String), run: impl FnOnce() -> Outcome) -> Outcome {
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cache().known(&key) {
            return known;
        }
        let outcome = run();
        cache().keep(key, &outcome);
        outcome
    }
}

impl Cache {
    fn known(&mut self, key: &(String, String)) -> Option<Outcome> {
        self.clock += 1;
        let known = self.results.get_mut(key)?;
        known.last = self.clock;
        Some(known.outcome.clone())
    }

    fn keep(&mut self, key: (String, String), outcome: &Outcome) {
        let rows = outcome.as_ref().map_or(0, |rows| rows.size());
        let bytes = rows + key.0.len() + key.1.len() + size_of::<Entry>();
        if bytes > MAX_BYTES || self.results.contains_key(&key) {
            return;
        }
        while self.bytes + bytes > MAX_BYTES || self.results.len() >= MAX_GOLDS {
            let oldest = self.results.iter().min_by_key(|(_, entry)| entry.last);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.bytes -= self.results.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
        self.bytes += bytes;
        let entry = Entry { outcome: outcome.clone(), bytes, last: self.clock };
        self.results.insert(key, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::sql::Cell;

    #[test]
    fn results_are_bounded_in_bytes_and_the_least_recent_goes_first() {
        let large = || Ok(Arc::new(Rows { columns: 1, rows: vec![vec![text(60 << 20)]] }));
        fn text(bytes: usize) -> Cell {
            Cell::Text("x".repeat(bytes))
        }
        let golds = Golds::default();
        let key = |query: usize| ("d".to_owned(), query.to_string());
        let is_kept = |query| {
            let mut is_kept = true;
            drop(golds.get(key(query), || {
                is_kept = false;
                large()
            }));
            is_kept
        };
        assert_eq!([0, 1, 2, 3].map(is_kept), [false; 4]);
        assert!(is_kept(0));
        assert!(!is_kept(4), "for which 1 goes");
        assert_eq!([0, 2, 3, 4].map(is_kept), [true; 4]);
        assert!(!is_kept(1));
        let bytes = golds.0.lock().unwrap().bytes;
        assert!(bytes <= MAX_BYTES, "{bytes}");
        // Many small ones, and failures.
        for query in 0..MAX_GOLDS + 10 {
            let failed = Err(QueryError::Invalid("no".into()));
            assert!(golds.get(key(100 + query), || failed).is_err());
        }
        assert_eq!(golds.0.lock().unwrap().results.len(), MAX_GOLDS);
    }
}
