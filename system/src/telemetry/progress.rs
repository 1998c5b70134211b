//! Where long work is: a bar on a terminal, a line every ten seconds without one, also while a unit of the work
//! takes minutes.
//!
//! Whoever does the work counts tokens and names the phase ([`count_tokens`], [`phase`]); a thread beside it shows
//! them. Nothing is computed from what is counted here.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use tealight_core::display::escaped;

/// How often work without a terminal says where it is.
pub(super) const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// How often a bar is drawn again.
const BAR_INTERVAL: Duration = Duration::from_millis(500);

/// Tokens that this process has drawn or trained on.
static TOKENS: AtomicU64 = AtomicU64::new(0);
/// The phase of the unit in progress.
static PHASE: Mutex<&str> = Mutex::new("");

/// Counts tokens that were drawn or trained on, for the rate that progress shows.
pub fn count_tokens(count: usize) {
    TOKENS.fetch_add(count as u64, Ordering::Relaxed);
}

/// Names what is being done now within a unit of work; empty where there is nothing to tell apart.
pub fn phase(name: &'static str) {
    *PHASE.lock().unwrap_or_else(PoisonError::into_inner) = name;
}

/// Work of a known number of units.
pub struct Progress {
    work: Arc<Mutex<Work>>,
    bar: Option<ProgressBar>,
    /// Dropped to end the thread that shows.
    watch: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Where the work is.
struct Work {
    label: String,
    total: u64,
    done: u64,
    /// Units that an earlier process did: shown, but no part of the rate.
    earlier: u64,
    message: String,
    started: Instant,
    last_line: Instant,
    /// Tokens at the start, at the end of the last unit, and when that was.
    tokens: [u64; 2],
    finished_tokens: u64,
    last_unit: Instant,
}

impl Progress {
    /// Starts work of `total` units, which is shown where information is.
    pub fn new(label: &str, total: usize) -> Self {
        Self::shown(label, total, tracing::enabled!(tracing::Level::INFO))
    }

    /// The same, and nothing is shown of it.
    pub fn silent(label: &str, total: usize) -> Self {
        Self::shown(label, total, false)
    }

    fn shown(label: &str, total: usize, is_shown: bool) -> Self {
        let now = Instant::now();
        let tokens = TOKENS.load(Ordering::Relaxed);
        phase("");
        let work = Arc::new(Mutex::new(Work {
            label: escaped(label).into_owned(),
            total: total as u64,
            done: 0,
            earlier: 0,
            message: String::new(),
            started: now,
            last_line: now,
            tokens: [tokens; 2],
            finished_tokens: 0,
            last_unit: now,
        }));
        if !is_shown || total == 0 {
            return Self { work, bar: None, watch: None };
        }
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let template = "{prefix} {bar:16.cyan/dim} {pos}/{len} {elapsed} {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(escaped(label).into_owned());
            bar
        });
        let watch = watch(work.clone(), bar.clone());
        Self { work, bar, watch }
    }

    /// Continues work of which an earlier process did so many units, beside those of [`new`](Self::new).
    #[must_use]
    pub fn after(self, earlier: usize) -> Self {
        let mut work = lock(&self.work);
        work.earlier = earlier as u64;
        if let Some(bar) = &self.bar {
            bar.set_length(work.total + work.earlier);
            bar.set_position(work.earlier);
        }
        drop(work);
        self
    }

    /// One more unit of so many tokens is done, one of several that are sampled side by side.
    pub fn advance_with(&mut self, tokens: usize, message: impl FnOnce() -> String) {
        lock(&self.work).finished_tokens += tokens as u64;
        self.advance(message);
    }

    /// One more unit is done; `message` says how it goes.
    pub fn advance(&mut self, message: impl FnOnce() -> String) {
        let mut work = lock(&self.work);
        work.done += 1;
        work.last_unit = Instant::now();
        work.tokens[1] = TOKENS.load(Ordering::Relaxed);
        if self.watch.is_none() {
            return;
        }
        work.message = escaped(&message()).into_owned();
        match &self.bar {
            Some(bar) => {
                bar.set_position(work.earlier + work.done);
                bar.set_message(work.status());
            }
            None if work.done == work.total || work.is_due() => work.print(),
            None => {}
        }
    }

    /// Says something without breaking the bar; nothing where it is not shown.
    pub fn note(&self, message: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tracing::info!("{}", message)),
            None => tracing::info!("{}", message),
        }
    }

    /// Warns of something without breaking the bar.
    pub fn warn(&self, message: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tracing::warn!("{}", message)),
            None => tracing::warn!("{}", message),
        }
    }
}

/// Shows the work from time to time, until the sender is dropped. Where no thread can be had, units alone show it.
fn watch(work: Arc<Mutex<Work>>, bar: Option<ProgressBar>) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (end, ended) = channel();
    let interval = if bar.is_some() { BAR_INTERVAL } else { Duration::from_secs(1) };
    let show = move || {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
            let mut work = lock(&work);
            match &bar {
                Some(bar) => bar.set_message(work.status()),
                None if work.is_due() => work.print(),
                None => {}
            }
        }
    };
    let thread = std::thread::Builder::new().name("progress".into()).spawn(show).ok()?;
    Some((end, thread))
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    fn is_due(&self) -> bool {
        self.last_line.elapsed() >= PLAIN_INTERVAL
    }

    fn print(&mut self) {
        self.last_line = Instant::now();
        tracing::info!("{}", self.line());
    }

    fn line(&self) -> String {
        let elapsed = clock(self.started.elapsed().as_secs_f64());
        let [done, total] = [self.done, self.total].map(|count| self.earlier + count);
        format!("{} {done}/{total} {elapsed} {}", self.label, self.status())
    }

    /// Rate, phase, what is left, and what the last unit said.
    fn status(&self) -> String {
        let elapsed = self.started.elapsed().as_secs_f64();
        let tokens = TOKENS.load(Ordering::Relaxed);
        let sampled = tokens - self.tokens[0];
        let mut parts = Vec::new();
        if self.done < self.total {
            let at = self.last_unit.duration_since(self.started).as_secs_f64();
            let by_tokens =
                left_by_tokens(self.finished_tokens, self.done, self.total, (sampled, elapsed));
            let then = self.tokens[1] - self.tokens[0];
            let seconds =
                by_tokens.or_else(|| left((self.done, at), self.total, elapsed, [sampled, then]));
            parts.push(match seconds {
                Some(seconds) => format!("eta {}", clock(seconds)),
                None => so_far(sampled),
            });
        }
        if sampled > 0 && elapsed > 0.0 {
            parts.push(format!("{:.0} tok/s", sampled as f64 / elapsed));
        }
        let phase = *PHASE.lock().unwrap_or_else(PoisonError::into_inner);
        parts.extend(
            [phase, &self.message].into_iter().filter(|part| !part.is_empty()).map(str::to_owned),
        );
        parts.join(", ")
    }
}

/// What is known of work before its first unit is done, when no time can be predicted.
fn so_far(tokens: u64) -> String {
    match tokens {
        0 => "the first is in progress".into(),
        1 => "1 token so far".into(),
        _ => format!("{tokens} tokens so far"),
    }
}

/// The same of units that are sampled side by side, by the tokens that are left if the others are as long as the done.
fn left_by_tokens(finished: u64, done: u64, total: u64, now: (u64, f64)) -> Option<f64> {
    let (sampled, elapsed) = now;
    if finished == 0 || done == 0 || sampled < finished || elapsed <= 0.0 {
        return None;
    }
    let each = finished as f64 / done as f64;
    let open = (each * total as f64 - sampled as f64).max(0.05 * each * (total - done) as f64);
    Some(open * elapsed / sampled as f64)
}

/// Seconds that are left, by the units that are done; where tokens are counted, those of the unit under way count too.
fn left((done, at): (u64, f64), total: u64, elapsed: f64, [now, then]: [u64; 2]) -> Option<f64> {
    if done == 0 || at <= 0.0 {
        return None;
    }
    let each = at / done as f64;
    let under_way = match then {
        0 => (elapsed - at) / each,
        then => (now - then) as f64 * done as f64 / then as f64,
    };
    // A unit that takes longer than its like is nearly done for as long as it takes.
    let open = (total - done) as f64;
    Some((open - under_way.clamp(0.0, 0.95)).max(0.0) * each)
}

/// Seconds as people read them.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.watch.take() {
            drop(end);
            drop(thread.join());
        }
        // Where it stands, which is not the end where it was interrupted; what is said next has its own line.
        if let Some(bar) = &self.bar {
            bar.abandon();
            drop(writeln!(std::io::stderr()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_includes_the_current_unit() {
        assert_eq!(left((0, 0.0), 8, 30.0, [500, 0]), None);
        // Two of four took 20 s and 100 tokens; the third has half of its 50.
        assert_eq!(left((2, 20.0), 4, 25.0, [125, 100]), Some(15.0));
        // Without tokens the clock says it, and a slow unit is never more than done.
        assert_eq!(left((2, 20.0), 4, 25.0, [0, 0]), Some(15.0));
        assert!((left((2, 20.0), 4, 100.0, [0, 0]).unwrap() - 10.5).abs() < 1e-9);
    }

    #[test]
    fn units_side_by_side_are_predicted_by_their_tokens() {
        // 40 problems at once: when the first is done, nearly all tokens of all are sampled.
        assert!(left_by_tokens(100, 1, 40, (3900, 30.0)).unwrap() < 2.0);
        assert!(left((1, 30.0), 40, 30.0, [3900, 3900]).unwrap() > 1000.0);
        assert_eq!(left_by_tokens(100, 2, 4, (50, 20.0)), None);
    }

    #[test]
    fn a_unit_under_way_shows_its_rate_and_claims_no_end() {
        let ago = Instant::now() - Duration::from_secs(10);
        let sampled = TOKENS.load(Ordering::Relaxed);
        let mut work = Work {
            label: "step".into(),
            total: 8,
            done: 0,
            earlier: 0,
            message: String::new(),
            started: ago,
            last_line: ago,
            tokens: [sampled; 2],
            finished_tokens: 0,
            last_unit: ago,
        };
        count_tokens(500);
        let status = work.status();
        assert!(status.contains(" tokens so far, ") && status.contains(" tok/s"), "{status}");
        assert_eq!(
            (so_far(0), so_far(1)),
            ("the first is in progress".into(), "1 token so far".into())
        );
        (work.done, work.last_unit) = (4, Instant::now());
        assert!(work.status().starts_with("eta 10s"), "{}", work.status());
        assert!(work.is_due());
        // What an earlier process did is counted, and says nothing of what is left.
        work.earlier = 100;
        let line = work.line();
        assert!(line.starts_with("step 104/108 10s eta 10s"), "{line}");
    }

    #[test]
    fn times_have_short_units() {
        assert_eq!(
            (clock(59.6), clock(61.0), clock(7260.0)),
            ("1m00s".into(), "1m01s".into(), "2h01m".into())
        );
    }
}
