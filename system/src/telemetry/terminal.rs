//! Text to the terminal. Prompts, completions, file names and servers' words are untrusted: what would move the
//! cursor, change colours or turn the direction of writing is shown as `\u001b` instead of being done.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{Error, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use tealight_datasets::display::escaped;

/// Whether nothing is shown or printed at all.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// From now on nothing is shown or printed, neither errors nor results, or it is again: of several processes that do
/// the same one talks.
pub fn be_silent(is_silent: bool) {
    IS_SILENT.store(is_silent, Ordering::Relaxed);
}

pub(super) fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Most characters of a message: it may quote a file, and a screen is not to be filled by one word of it.
const MOST: usize = 4000;

/// `text` without its middle where it is longer than a message may be: it says first what is wrong, and last what to
/// do.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    let left_out = text.chars().count().saturating_sub(MOST);
    if left_out == 0 {
        return Cow::Borrowed(text);
    }
    let place = |character: usize| text.char_indices().nth(character).map_or(text.len(), |c| c.0);
    let (begin, end) = (place(MOST / 2), place(MOST / 2 + left_out));
    Cow::Owned(format!("{} [{left_out} characters left out] {}", &text[..begin], &text[end..]))
}

/// A line on standard output, for people and programs.
pub fn print(text: impl Display) -> std::io::Result<()> {
    let mut out = out();
    writeln!(out, "{text}")
}

/// Standard output through [`escaped`].
pub fn out() -> Escaped<Stdout> {
    Escaped { inner: std::io::stdout(), rest: Vec::new() }
}

/// Writes text on, escaped. A character that is cut by the end of a write waits for the next one.
pub struct Escaped<W> {
    inner: W,
    rest: Vec<u8>,
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let complete = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            // Cut in the middle of a character, which has four bytes at most.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.rest.len(),
        };
        let text = String::from_utf8_lossy(&self.rest[..complete]);
        if !is_silent() {
            // A full disk is named with the file that it stopped.
            let named =
                |error: Error| Error::new(error.kind(), format!("standard output: {error}"));
            self.inner.write_all(escaped(&text).as_bytes()).map_err(named)?;
        }
        self.rest.drain(..complete);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_by_a_write_is_seen_whole() {
        let mut out = Escaped { inner: Vec::new(), rest: Vec::new() };
        let text = "é\u{9b}\u{202e}ü\n".as_bytes();
        for byte in text {
            out.write_all(&[*byte]).unwrap();
        }
        assert_eq!(String::from_utf8(out.inner).unwrap(), "é\\u009b\\u202eü\n");
        let mut out = Escaped { inner: Vec::new(), rest: Vec::new() };
        out.write_all(b"\xff\x1b\n").unwrap();
        assert_eq!(String::from_utf8(out.inner).unwrap(), "\u{fffd}\\u001b\n");
    }

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        assert_eq!(shortened("short"), "short");
        let long = format!("file: `{}` is no number; give one", "ä".repeat(1_000_000));
        let shown = shortened(&long);
        assert!(shown.starts_with("file: `ä") && shown.ends_with("ä` is no number; give one"));
        assert_eq!(shown.chars().count(), MOST + " [996034 characters left out] ".len());
    }
}
