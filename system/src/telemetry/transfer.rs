//! How far a download is: a bar on a terminal, a line every ten seconds without one.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use tealight_core::display::escaped;

use super::progress::PLAIN_INTERVAL;

/// Bytes that come over the network: how many, how fast.
pub struct Transfer {
    label: String,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    is_shown: bool,
    started: Instant,
    last_line: Instant,
    first: u64,
}

impl Transfer {
    /// Starts after `done` of `total` bytes; what is over at once is not shown.
    pub fn new(label: &str, total: u64, done: u64) -> Self {
        /// Bytes that take a while.
        const LARGE: u64 = 1 << 20;
        let is_large = total >= LARGE;
        let is_shown = is_large && tracing::enabled!(tracing::Level::INFO);
        let label = escaped(label).into_owned();
        if is_large {
            tracing::info!("{label} ({})", bytes(total));
        }
        let bar = (std::io::stderr().is_terminal() && is_shown).then(|| {
            let bar = ProgressBar::new(total);
            let template = "{bar:30.cyan/dim} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} eta {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_position(done);
            bar
        });
        let now = Instant::now();
        Self { label, total, done, bar, is_shown, started: now, last_line: now, first: done }
    }

    /// So many more bytes have come.
    pub fn advance(&mut self, count: usize) {
        self.done += count as u64;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        } else if self.is_shown && self.last_line.elapsed() >= PLAIN_INTERVAL {
            self.last_line = Instant::now();
            let rate = (self.done - self.first) as f64 / self.started.elapsed().as_secs_f64();
            let [done, total, rate] = [self.done, self.total, rate as u64].map(bytes);
            tracing::info!("{}: {done} of {total}, {rate}/s", self.label);
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_short_units() {
        assert_eq!(
            (bytes(999), bytes(3_400_000), bytes(2_000_000_000)),
            ("999 B".into(), "3.4 MB".into(), "2.00 GB".into())
        );
    }
}
