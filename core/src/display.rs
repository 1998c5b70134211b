//! Untrusted text in what is shown or written: on a terminal, in reports, in Markdown and in CSV.
//!
//! What would move the cursor, change colours or turn the direction of writing becomes visible as `\u001b` instead. The
//! form is JSON's own, so that JSON stays JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// Characters that a terminal acts on: C0 but for line feed and tab, DEL, C1, and those that turn the direction.
fn is_active(c: char) -> bool {
    matches!(c, '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with what a terminal would act on made visible.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_active(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A value as JSON for a page: its texts are [`escaped`], but for carriage returns.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Visible))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // The backslash of an escape is one of the text.
        match escaped(fragment) {
            Cow::Borrowed(text) => writer.write_all(text.as_bytes()),
            Cow::Owned(text) => writer.write_all(text.replace("\\u", "\\\\u").as_bytes()),
        }
    }

    fn write_char_escape<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(writer, "\\\\u{byte:04x}"),
            CharEscape::Backspace => writer.write_all(br"\\u0008"),
            CharEscape::FormFeed => writer.write_all(br"\\u000c"),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

/// The first `most` characters of a text, followed by `...` where there are more.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// A text with one blank where it has white space.
pub fn one_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text in a table or a line of Markdown: neither HTML, nor a link or picture, nor the end of a cell.
pub fn markdown(text: &str) -> String {
    let text = escaped(text).replace(['\n', '\r'], " ").replace('|', "\\|").replace("](", "]\\(");
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        // A `<` before anything else begins no tag.
        let begins = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        match c == '<' && rest.peek().is_some_and(begins) {
            true => shown.push_str("&lt;"),
            false => shown.push(c),
        }
    }
    shown
}

/// A text in a cell of CSV, which a spreadsheet must not take for a formula: it then has an apostrophe before it.
pub fn csv_text(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    match is_formula && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escaped("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(
            escaped("\u{1b}[2J\u{9b}31m\0\r\u{7f}"),
            "\\u001b[2J\\u009b31m\\u0000\\u000d\\u007f"
        );
        assert_eq!(escaped("a\u{202e}b"), "a\\u202eb");
        let all: String = (0..=0x3000).filter_map(char::from_u32).collect();
        assert!(!escaped(&all).contains(is_active));
        // JSON stays JSON, with the same meaning.
        let json = serde_json::to_string("x\u{9b}y").unwrap();
        assert_eq!(serde_json::from_str::<String>(&escaped(&json)).unwrap(), "x\u{9b}y");
    }

    #[test]
    fn json_for_pages_has_visible_control_characters() {
        let all: String = (0..=0x3000).filter_map(char::from_u32).collect();
        for text in ["a\\u001bb \\n \"q\" \t\n", "\u{1b}[2J\u{8}\u{c}\\", "\u{202e}x\\u", &all] {
            let read: String = serde_json::from_str(&json(&text).unwrap()).unwrap();
            let expected: String = text.split('\r').map(escaped).collect::<Vec<_>>().join("\r");
            assert_eq!(read, expected);
        }
        let nested = serde_json::json!({"a\u{1b}": ["\u{202e}", 1.5, null]});
        assert_eq!(json(&nested).unwrap(), r#"{"a\\u001b":["\\u202e",1.5,null]}"#);
    }

    #[test]
    fn texts_are_shortened_by_characters() {
        assert_eq!(shortened("naïve", 5), "naïve");
        assert_eq!(shortened("naïve", 3), "naï...");
    }

    #[test]
    fn names_are_no_markup_in_markdown() {
        assert_eq!(markdown("<img src=x>|a\nb"), "&lt;img src=x>\\|a b");
        assert_eq!(markdown("![x](http://y) </b><!--"), "![x]\\(http://y) &lt;/b>&lt;!--");
        assert_eq!(markdown("p < .05, 0.5 [0.4, 0.6]"), "p < .05, 0.5 [0.4, 0.6]");
        assert_eq!(markdown("\u{1b}[31m"), "\\u001b[31m");
    }

    #[test]
    fn texts_are_no_formulas_in_csv() {
        for formula in ["=1+1", "+a", "-a", "@SUM(A1)", "\t=1", "\r=1", "-1+1"] {
            assert_eq!(csv_text(formula), format!("'{formula}"));
        }
        for text in ["-0.5", "+1e9", "a=b", "", "'", "-inf"] {
            assert_eq!(csv_text(text), text);
        }
    }
}
