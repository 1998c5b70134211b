//! Tables of words, and substrings that are found fast.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// The entries of a table that is looked into often.
pub(super) type Entries = LazyLock<Vec<&'static str>>;

/// The entries of a table, `a|b|c`. They are short: a plain loop finds their ends faster than a search does.
pub(super) fn each(table: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(table);
    std::iter::from_fn(move || {
        let (entry, behind) = match rest?.bytes().position(|byte| byte == b'|') {
            Some(end) => (&rest?[..end], Some(&rest?[end + 1..])),
            None => (rest?, None),
        };
        rest = behind;
        Some(entry)
    })
}

/// Whether a word is an entry of a table, `a|b|c`.
pub(super) fn is_one_of(word: &str, table: &str) -> bool {
    each(table).any(|known| known == word)
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
pub(super) fn past<'a>(text: &'a str, table: &str) -> Option<&'a str> {
    each(table).find_map(|known| text.strip_prefix(known))
}

/// A text without the entry of a table that it begins with.
pub(super) fn without<'a>(text: &'a str, table: &str) -> &'a str {
    past(text, table).unwrap_or(text)
}

/// What stands before the first entry of a table that a text ends with.
pub(super) fn before_end<'a>(text: &'a str, table: &str) -> Option<&'a str> {
    each(table).find_map(|known| text.strip_suffix(known))
}

/// A text parted at the first entry of a table that stands in it.
pub(super) fn parted<'a>(text: &'a str, table: &str) -> Option<(&'a str, &'a str)> {
    each(table).find_map(|known| text.split_once(known))
}

/// Where a text goes on behind the last of the entries of a table.
pub(super) fn behind_last(text: &str, table: &str) -> Option<usize> {
    each(table).filter_map(|known| Some(text.rfind(known)? + known.len())).max()
}

/// Whether a text begins with an entry of a table.
pub(super) fn begins(text: &str, table: &str) -> bool {
    past(text, table).is_some()
}

/// Whether an entry of a table stands in a text.
pub(super) fn holds(text: &str, table: &str) -> bool {
    each(table).any(|known| text.contains(known))
}

/// Texts, `a|b|c`, that are looked for together.
pub(super) fn any_of(table: &str) -> Regex {
    let words: Vec<String> = each(table).map(regex::escape).collect();
    Regex::new(&words.join("|")).expect("an expression")
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
        let has_capital = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if has_capital { text.to_ascii_lowercase().into() } else { text.into() };
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
    for mark in [
        "\\text", "\\mathrm", "\\mathbf", "\\textbf", "\\left", "\\right", "\\!", "\\,", "\\;",
        "\\ ", "$",
    ] {
        text = text.replace(mark, " ");
    }
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || ".,;:!?()'\"${}*\\~`_".contains(c))
        .filter(|word| !word.is_empty() && !matches!(*word, "the" | "a" | "an"))
        .map(str::to_owned)
        .collect();
    words.join(" ")
}
