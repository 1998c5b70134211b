//! Counters of the service, in the text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::judge::Kind;

/// Counters since the start.
#[derive(Default)]
pub(super) struct Metrics {
    verdicts: [AtomicU64; Kind::ALL.len()],
    bad_lines: AtomicU64,
    judging_microseconds: AtomicU64,
    responses: Mutex<BTreeMap<u16, u64>>,
    pub(super) connections: AtomicUsize,
}

impl Metrics {
    /// Counts a verdict.
    pub(super) fn judged(&self, kind: Kind) {
        self.verdicts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a line of a stream that is no pair.
    pub(super) fn bad_line(&self) {
        self.bad_lines.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the time that judging took.
    pub(super) fn took(&self, time: Duration) {
        self.judging_microseconds.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Counts a response.
    pub(super) fn responded(&self, status: u16) {
        *self
            .responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(status)
            .or_default() += 1;
    }

    /// The text, with the bytes of requests that are being worked on.
    pub(super) fn text(&self, bytes_in_flight: usize) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "# HELP tealight_verify_{name} {help}\n# TYPE tealight_verify_{name} {kind}"
            );
            for (labels, value) in rows {
                let _ = writeln!(text, "tealight_verify_{name}{labels} {value}");
            }
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let verdicts = Kind::ALL.map(|kind| {
            (format!("{{verdict=\"{}\"}}", kind.name()), count(&self.verdicts[kind as usize]))
        });
        family("pairs_total", "counter", "Pairs judged, by verdict.", verdicts.into());
        let responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let responses =
            responses.iter().map(|(code, count)| (format!("{{code=\"{code}\"}}"), *count as f64));
        family("requests_total", "counter", "HTTP requests, by status code.", responses.collect());
        let one = |value: f64| vec![(String::new(), value)];
        let bad = count(&self.bad_lines);
        family("bad_lines_total", "counter", "Lines of streams that are no pairs.", one(bad));
        let seconds = count(&self.judging_microseconds) / 1e6;
        family("judging_seconds_total", "counter", "Wall time of judging.", one(seconds));
        let open = self.connections.load(Ordering::Relaxed) as f64;
        family("connections", "gauge", "Open connections.", one(open));
        let bytes = bytes_in_flight as f64;
        family("bytes_in_flight", "gauge", "Bytes of requests reserved in memory.", one(bytes));
        text
    }
}
