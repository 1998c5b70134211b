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

/// The first `bytes` of a text, up to a character.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
