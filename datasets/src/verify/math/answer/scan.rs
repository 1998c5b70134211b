//! Substrings, found fast.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// A text that is looked for.
pub(super) struct Needle(LazyLock<Finder<'static>>);

impl Needle {
    /// One that is prepared at its first use.
    pub(super) const fn new(prepare: fn() -> Finder<'static>) -> Self {
        Self(LazyLock::new(prepare))
    }

    /// Where it stands, from the first place on.
    pub(super) fn places<'a>(&'a self, text: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.0.find_iter(text.as_bytes())
    }
}

/// `text` without `prefix`, whatever its case; both start with characters of ASCII.
pub(super) fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// Whether the words around a value deny it: "it cannot be 7", "7 is wrong".
pub(super) fn is_denied(before: &str, after: &str) -> bool {
    const DENIALS: [&str; 16] = [
        "not",
        "isn't",
        "isnt",
        "never",
        "cannot be",
        "can't be",
        "couldn't be",
        "not be",
        "not equal to",
        "not equal",
        "neither",
        "rather than",
        "instead of",
        "other than",
        "\\neq",
        "\\ne",
    ];
    let before = before.trim_end_matches("\\boxed{");
    let before = before.trim_end_matches([' ', '*', '$', '(', '"', '\\', '{', '}']);
    let is_behind = |denial: &&str| {
        ends_with(before, denial)
            && !before[..before.len() - denial.len()].ends_with(|c: char| c.is_alphanumeric())
    };
    let after = after.trim_start_matches(['*', '$', ')', '}', '"', '\\']);
    let is_before = after.starts_with(' ') && super::super::text::is_denied(after);
    // "I don't think it is 7", in the same sentence.
    const DOUBTS: [&str; 10] = [
        "don't think",
        "do not think",
        "doubt",
        "unlikely",
        "hardly",
        "false that",
        "no longer",
        "anything but",
        "differs from",
        "different from",
    ];
    let near = super::super::super::tail(before, 60);
    let sentence = near.rsplit(['.', '\n', ';', ',']).next().unwrap_or(near);
    if DOUBTS.iter().any(|doubt| sentence.contains(doubt)) {
        return true;
    }
    // The last letters of all denials.
    let may_deny = before.ends_with(['n', 't', 'r', 'e', 'o', 'l', 'f', 'q', 'N', 'T', 'R', 'E']);
    may_deny && DENIALS.iter().any(is_behind) || is_before
}

/// Whether the words before a value make it a bound: "less than 7".
pub(super) fn is_bound(before: &str) -> bool {
    ["than", "at least", "at most"].iter().any(|word| ends_with(before, word))
}

/// Whether `text` ends with `suffix`, whatever its case.
pub(super) fn ends_with(text: &str, suffix: &str) -> bool {
    let start = text.len().checked_sub(suffix.len());
    start.and_then(|start| text.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(suffix))
}

/// The first `bytes` of a text, up to a character.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
