//! Tables of words, and substrings that are found fast.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;

/// The pattern, prepared at its first use.
macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new($text).expect("an expression"));
        &*PATTERN
    }};
}
pub(super) use pattern;

/// A table `a|b|c` in its entries, with the bytes that they begin with.
struct Table {
    text: &'static str,
    entries: Vec<&'static str>,
    starts: [bool; 256],
    /// All of them as one expression.
    any: OnceLock<Regex>,
}

impl Table {
    fn new(text: &'static str) -> Self {
        let entries: Vec<&str> = text.split('|').collect();
        // Nothing is a part of any text.
        let mut starts = [entries.contains(&""); 256];
        for first in entries.iter().filter_map(|entry| entry.bytes().next()) {
            starts[usize::from(first)] = true;
        }
        Self { text, entries, starts, any: OnceLock::new() }
    }

    /// The table at this address, taken apart at its first use.
    fn of(text: &'static str) -> &'static Self {
        const SLOTS: usize = 1 << 11;
        static TABLES: [OnceLock<Table>; SLOTS] = [const { OnceLock::new() }; SLOTS];
        let first = (text.as_ptr() as usize).wrapping_mul(0x9E37_79B9) >> 8;
        let slots = (first..first + SLOTS).map(|at| &TABLES[at % SLOTS]);
        let mut tables = slots.map(|slot| slot.get_or_init(|| Self::new(text)));
        tables.find(|table| std::ptr::eq(table.text, text)).expect("fewer tables than slots")
    }

    /// All of its entries as one expression.
    fn any(&self) -> &Regex {
        let words = || self.entries.iter().map(|entry| regex::escape(entry)).collect::<Vec<_>>();
        self.any.get_or_init(|| Regex::new(&words().join("|")).expect("an expression"))
    }

    /// Its entries, where a text may begin with one.
    fn at_start(&'static self, text: &str) -> &'static [&'static str] {
        let may = text.bytes().next().is_none_or(|byte| self.starts[usize::from(byte)]);
        if may { &self.entries } else { &[] }
    }
}

/// The entries of a table, `a|b|c`.
pub(super) fn each(table: &'static str) -> impl Iterator<Item = &'static str> {
    Table::of(table).entries.iter().copied()
}

/// Whether a word is an entry of a table, `a|b|c`.
pub(super) fn is_one_of(word: &str, table: &'static str) -> bool {
    position(word, table).is_some()
}

/// Which entry of a table a word is.
pub(super) fn position(word: &str, table: &'static str) -> Option<usize> {
    Table::of(table).at_start(word).iter().position(|known| *known == word)
}

/// Whether a character is a digit of ASCII.
pub(super) fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whether a text holds a digit.
pub(super) fn has_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a text is digits alone, or empty.
pub(super) fn are_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is the letter of a choice.
pub(super) fn is_letter(text: &str) -> bool {
    matches!(text.as_bytes(), [b'A'..=b'J'])
}

/// What follows the first entry of a table that a text begins with.
pub(super) fn past<'a>(text: &'a str, table: &'static str) -> Option<&'a str> {
    Table::of(table).at_start(text).iter().find_map(|known| text.strip_prefix(known))
}

/// A text without the entry of a table that it begins with.
pub(super) fn without<'a>(text: &'a str, table: &'static str) -> &'a str {
    past(text, table).unwrap_or(text)
}

/// What stands before the first entry of a table that a text ends with.
pub(super) fn before_end<'a>(text: &'a str, table: &'static str) -> Option<&'a str> {
    each(table).find_map(|known| text.strip_suffix(known))
}

/// A text parted at the first entry of a table that stands in it.
pub(super) fn parted<'a>(text: &'a str, table: &'static str) -> Option<(&'a str, &'a str)> {
    holds(text, table).then_some(())?;
    text.split_once(each(table).find(|known| text.contains(known))?)
}

/// Where a text goes on behind the last of the entries of a table.
pub(super) fn behind_last(text: &str, table: &'static str) -> Option<usize> {
    holds(text, table).then_some(())?;
    // Backwards a text is searched slowly.
    let known = each(table).filter(|known| text.contains(known));
    known.filter_map(|known| Some(text.rfind(known)? + known.len())).max()
}

/// Whether a text begins with an entry of a table.
pub(super) fn begins(text: &str, table: &'static str) -> bool {
    past(text, table).is_some()
}

/// Whether an entry of a table stands in a text.
pub(super) fn holds(text: &str, table: &'static str) -> bool {
    Table::of(table).any().is_match(text)
}

/// Where an entry of a table stands first in a text.
pub(super) fn first(text: &str, table: &'static str) -> Option<Range<usize>> {
    Table::of(table).any().find(text).map(|found| found.range())
}

/// `text` without `prefix`, whatever its case; both start with characters of ASCII.
pub(super) fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// The first `bytes` of a text, up to a character.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether `text` ends with `suffix`, whatever its case.
pub(super) fn ends_with(text: &str, suffix: &str) -> bool {
    let start = text.len().checked_sub(suffix.len());
    start.and_then(|start| text.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(suffix))
}

/// A text in small letters, byte by byte as long as it was.
pub(super) fn lowered(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.to_ascii_lowercase().into();
    }
    let small = |c: char| {
        let mut small = c.to_lowercase();
        small
            .next()
            .filter(|one| one.len_utf8() == c.len_utf8() && small.next().is_none())
            .unwrap_or(c)
    };
    text.chars().map(small).collect::<String>().into()
}

/// Lower-case words without decoration.
pub(super) fn folded(text: &str) -> String {
    bare_words(&text.to_lowercase())
}

/// Words without decoration and articles.
pub(super) fn bare_words(text: &str) -> String {
    let mut text = text.to_owned();
    const MARKS: &str = "\\text|\\mathrm|\\mathbf|\\textbf|\\left|\\right|\\!|\\,|\\;|\\ |$";
    if text.contains(['\\', '$']) {
        text = each(MARKS).fold(text, |text, mark| text.replace(mark, " "));
    }
    let words = text.split(|c: char| c.is_whitespace() || ".,;:!?()'\"${}*\\~`_".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    // `A, C` are two letters, and so is the last word of "vitamin A".
    let is_article = |at: usize| match words[at] {
        "the" | "an" => true,
        "a" => words.get(at + 1).is_some_and(|next| next.len() > 1),
        _ => false,
    };
    (0..words.len()).filter(|at| !is_article(*at)).map(|at| words[at]).collect::<Vec<_>>().join(" ")
}
