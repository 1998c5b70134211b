//! Where a remark behind an answer begins: "42, which is 6 times 7".

use super::super::alphabet::is_function;
use super::super::scan::{is_one_of, past};
use super::super::standing::{OR, RESTATED, is_relative, offers};
use super::{MAX_WHOLE, is_value};

/// Words that begin a remark about an answer.
const REMARKS: &str = "which|because|since|not|rather|instead|whereas|while|so|but|where|when|as|i.e.|i.e|e.g.|making|meaning|\
    given|assuming|using|thanks|respectively";

/// Words that begin a remark about a value, and may be part of a name: `The Lord of the Rings`.
const AFTER_VALUES: &str =
    "of|in|for|from|with|by|at|on|out|if|after|before|is|are|was|were|under|over|to|has|have";

/// Whether the rest of a clause, up to a remark, names another value: `or 42`, `, 42`, `apples and $x$`.
pub(super) fn goes_on(rest: &str) -> bool {
    if offers(rest) || is_relative(rest) {
        return true;
    }
    let rest = remarks(rest).next().map_or(rest, |at| &rest[..at]);
    let is_link = |word: &str| {
        let word = word.trim_matches(['*', ',', '$']);
        word == "|" || is_one_of(word, "or|and|to|/|&|\\mid")
    };
    let mut words = rest.split_whitespace();
    let has_or = rest
        .split_whitespace()
        .any(|word| is_one_of(&word.trim_matches(['*', ',']).to_lowercase(), OR))
        || past(rest, " o | u ")
            .is_some_and(|other| other.starts_with(|c: char| c.is_ascii_digit() || c == '$'));
    let has_link = words.any(is_link) || rest.contains([',', ';']);
    has_or || (has_link && rest.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\'))
}

/// Where remarks may begin.
pub(super) fn remarks(clause: &str) -> impl Iterator<Item = usize> + '_ {
    let words = clause.split_inclusive(' ').scan((0, ""), |(at, before), word| {
        let start = std::mem::replace(at, *at + word.len());
        let word = word.trim_end();
        Some((start, word, std::mem::replace(before, word)))
    });
    words
        .filter(|(start, word, previous)| {
            *start > 0 && begins_remark(clause, *start, word, previous)
        })
        .map(|(start, ..)| start)
        .take(12)
}

/// Whether a remark begins with the word at `start`.
fn begins_remark(clause: &str, start: usize, word: &str, previous: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '.').to_lowercase();
    let bare = bare.as_str();
    let next = clause[start + word.len()..].trim_start();
    let is_word = |text: &str| {
        text.len() >= 2
            && text.chars().all(|c| c.is_alphabetic() || c == '\'')
            && !is_function(text)
            && !matches!(text, "pi" | "infinity")
    };
    let next_word = next.split([' ', ',']).next().unwrap_or_default();
    if is_one_of(bare, REMARKS) {
        return true;
    }
    let is_after_value = || start <= MAX_WHOLE && is_value(trimmed(&clause[..start]));
    match bare {
        "or" => is_one_of(next_word, RESTATED),
        _ if matches!(word, "-" | "–" | "—" | "--") => is_word(next_word),
        _ if is_one_of(bare, AFTER_VALUES) => is_after_value(),
        _ => is_word(bare) && previous.ends_with([',', ';', ':']) && is_after_value(),
    }
}

pub(super) fn trimmed(text: &str) -> &str {
    let text = text.trim_end();
    let text = if text.ends_with("....") { &text[..text.len() - 1] } else { text };
    // Three points go on: `0.333...`
    let goes_on = text.ends_with("..");
    let is_edge = |c: char| c.is_whitespace() || ",;:*`_\"”’".contains(c) || (c == '.' && !goes_on);
    text.trim_end_matches(is_edge).trim_start()
}
