//! Results of gold queries, kept while there is memory for them: all go when the next one would be too much.

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
    results: HashMap<(String, String), Outcome>,
    bytes: usize,
}

impl Golds {
    /// The result for a database and a query, which `run` finds where none is kept.
    pub(super) fn get(&self, key: (String, String), run: impl FnOnce() -> Outcome) -> Outcome {
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cache().results.get(&key) {
            return known.clone();
        }
        let outcome = run();
        cache().keep(key, &outcome);
        outcome
    }
}

impl Cache {
    fn keep(&mut self, key: (String, String), outcome: &Outcome) {
        let rows = outcome.as_ref().map_or(0, |rows| rows.size());
        let bytes = rows + key.0.len() + key.1.len() + size_of::<Outcome>();
        if bytes > MAX_BYTES || self.results.contains_key(&key) {
            return;
        }
        if self.bytes + bytes > MAX_BYTES || self.results.len() == MAX_GOLDS {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.results.insert(key, outcome.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::sql::Cell;

    #[test]
    fn results_are_bounded_in_bytes_and_number() {
        let golds = Golds::default();
        let is_kept = |query: usize, rows: Vec<Vec<Cell>>| {
            let mut is_kept = true;
            drop(golds.get(("d".to_owned(), query.to_string()), || {
                is_kept = false;
                Ok(Arc::new(Rows { columns: 1, rows }))
            }));
            is_kept
        };
        let large = || vec![vec![Cell::Text("x".repeat(60 << 20))]];
        let kept = [0, 1, 2, 3, 0, 4, 0].map(|query| is_kept(query, large()));
        assert_eq!(kept, [false, false, false, false, true, false, false], "5 are 300 MiB");
        assert!(golds.0.lock().unwrap().bytes < 121 << 20);
        let kept = (100..100 + MAX_GOLDS).filter(|query| is_kept(*query, Vec::new()));
        assert_eq!(kept.count(), 0);
        assert_eq!(golds.0.lock().unwrap().results.len(), 2);
    }
}
