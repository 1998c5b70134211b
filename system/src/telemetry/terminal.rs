//! Text to the terminal. Prompts, completions, file names and servers' words are untrusted: what would move the
//! cursor, change colours or turn the direction of writing is shown as `\u001b` instead of being done.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{Error, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use tealight_core::display::escaped;

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

/// A line on standard output, for people and programs. On a terminal prose ends at words and heads of tables stand out;
/// in a file every line is whole and plain.
pub fn print(text: impl Display) -> std::io::Result<()> {
    let mut out = out();
    let Some(width) = width() else { return writeln!(out, "{text}") };
    if is_silent() {
        return Ok(());
    }
    let text = text.to_string();
    // JSON is for programs, also where a person looks.
    if text.starts_with(['{', '[']) {
        return writeln!(out, "{text}");
    }
    let text = wrapped(&escaped(&text), width);
    let text = if has_colours(&std::io::stdout()) { painted(&text) } else { text };
    writeln!(std::io::stdout(), "{text}")
}

/// Columns of the terminal that standard output is; none for a file or a pipe.
pub fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (terminal_size::Width(width), _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width).max(20))
}

/// Whether colours are shown: on a terminal, unless `NO_COLOR` is set (no-color.org) or the terminal has none.
pub(super) fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Lines of prose end at words; those of tables, which have two spaces inside, were made to fit.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let prose = line.trim_start();
        let is_prose = !prose.trim_end().contains("  ") && !line.contains('─');
        if !is_prose || line.chars().count() <= width {
            lines.push(line.to_owned());
            continue;
        }
        let indent = &line[..line.len() - prose.len()];
        let mut filled = indent.to_owned();
        let mut used = 0;
        for word in prose.split(' ') {
            let length = word.chars().count();
            if used > 0 && indent.len() + used + 1 + length > width {
                lines.push(std::mem::replace(&mut filled, indent.to_owned()));
                used = 0;
            } else if used > 0 {
                filled.push(' ');
                used += 1;
            }
            filled.push_str(word);
            used += length;
        }
        lines.push(filled);
    }
    lines.join("\n")
}

/// Heads of tables bold and their rule faint.
fn painted(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_rule = |line: &str| line.contains('─') && line.chars().all(|c| matches!(c, '─' | ' '));
    // A head of several lines begins after an empty one.
    let is_head = |index: usize| {
        let below = lines[index..].iter().position(|line| is_rule(line) || line.trim().is_empty());
        below.is_some_and(|rule| is_rule(lines[index + rule]) && lines[index].contains("  "))
    };
    let paint = |(index, line): (usize, &&str)| match is_rule(line) {
        true => format!("\u{1b}[2m{line}\u{1b}[0m"),
        false if is_head(index) => format!("\u{1b}[1m{line}\u{1b}[0m"),
        false => (*line).to_owned(),
    };
    lines.iter().enumerate().map(paint).collect::<Vec<_>>().join("\n")
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
    fn prose_ends_at_words_and_tables_keep_their_lines() {
        let table = " model    pass@1 \n─────────────────\n base      0.242 ";
        let text = format!("reverse KL keeps more than no penalty\n{table}");
        let shown = wrapped(&text, 14);
        assert_eq!(shown, format!("reverse KL\nkeeps more\nthan no\npenalty\n{table}"));
        assert_eq!(wrapped("averyveryverylongword x", 10), "averyveryverylongword\nx");
        assert_eq!(wrapped("  line 4: a b c\n", 10), "  line 4:\n  a b c\n");
        let painted = painted(&shown);
        assert!(painted.contains("\u{1b}[1m model    pass@1 \u{1b}[0m\n\u{1b}[2m──"), "{painted}");
        assert!(painted.ends_with("\n base      0.242 "), "{painted}");
        assert!(painted.starts_with("reverse KL\nkeeps"), "{painted}");
    }

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
