//! Messages for the user on standard error: what `tracing` calls events, one line each, escaped.
//!
//! The library only emits them; the command line installs [`Terminal`], and another program may listen in its own way.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use tealight_core::display::escaped;

use super::terminal::{has_colours, is_silent, shortened};

/// Whether information is left out, and warnings and errors alone are shown.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on warnings and errors alone are shown.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Writes this program's events to standard error.
pub struct Terminal;

impl Terminal {
    /// Makes it the one that listens; nothing changes where there is one already.
    pub fn install() {
        // A test may have been first.
        let _ = tracing::subscriber::set_global_default(Terminal);
    }
}

impl Subscriber for Terminal {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Asked again each time: it may become quiet.
        if metadata.target().starts_with("tealight") {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let most = if IS_QUIET.load(Ordering::Relaxed) { Level::WARN } else { Level::INFO };
        metadata.target().starts_with("tealight") && *metadata.level() <= most && !is_silent()
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        let (prefix, text) = match *event.metadata().level() {
            Level::ERROR => ("error: ", shortened(&message.0)),
            Level::WARN => ("warning: ", shortened(&message.0)),
            _ => ("", message.0.as_str().into()),
        };
        // Nobody may be reading; that is no reason to end a run.
        let colour = match prefix {
            "error: " => "1;31",
            "warning: " => "1;33",
            _ => "",
        };
        let prefix = match colour.is_empty() || !has_colours(&std::io::stderr()) {
            true => prefix.to_owned(),
            false => format!("\u{1b}[{colour}m{prefix}\u{1b}[0m"),
        };
        // Further lines are indented: a name in a stranger's file begins no line that looks like one of these.
        drop(writeln!(std::io::stderr(), "{prefix}{}", escaped(&text).replace('\n', "\n  ")));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").expect("a string takes what is written");
        }
    }
}
