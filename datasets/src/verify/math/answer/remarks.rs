//! Where a remark behind an answer begins: "42, which is 6 times 7".

use super::super::alphabet::is_function;
use super::super::scan::{has_digits, is_one_of, past};
use super::super::standing::{OR, RESTATED, is_relative, offers, without_reason};
use super::super::units::is_unit;
use super::{MAX_WHOLE, is_value};

/// Words that begin a remark about an answer.
const REMARKS: &str = "which|because|since|not|rather|instead|whereas|while|so|but|where|when|as|i.e.|i.e|e.g.|making|meaning|\
    given|assuming|using|thanks|respectively";

/// Words that begin a remark about a value, and may be part of a name: `The Lord of the Rings`.
const AFTER_VALUES: &str =
    "of|in|for|from|with|by|at|on|out|if|after|before|is|are|was|were|under|over|to|has|have";

/// Whether the rest of a clause, up to a remark, names another value: `or 42`, `, 42`, `apples and $x$`.
pub(super) fn goes_on(rest: &str) -> bool {
    let is_point = || rest.split_whitespace().next().is_some_and(is_point);
    if offers(rest) || is_relative(rest) || is_point() {
        return true;
    }
    let rest = remarks(rest).next().map_or(rest, |at| &rest[..at]);
    let is_link = |word: &str| {
        let word = word.trim_matches(['*', ',', '$']);
        word == "|" || is_one_of(word, "or|and|to|/|&|\\mid|->|→|=>|⇒")
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

/// A sentence up to a remark that may hold another value, "41 years (John is 15)".
pub(super) fn before_remark(line: &str) -> &str {
    let bracket = line.strip_suffix(')').and_then(|inner| inner.rsplit_once(" ("));
    let bracket = bracket.filter(|(before, inner)| {
        let word = inner.split(' ').next().unwrap_or(inner);
        has_digits(before) && word.chars().all(char::is_alphabetic) && word.len() > 3
    });
    let before = without_reason(bracket.map_or(line, |(before, _)| before));
    let has_value = has_digits(before) || before.contains(" is ");
    if has_value { before } else { line }
}

/// Where remarks may begin, outside brackets and formulas.
pub(super) fn remarks(clause: &str) -> impl Iterator<Item = usize> + '_ {
    let mut depth = 0_i32;
    let mut is_formula = false;
    let mut words = clause.split_inclusive(' ').scan(0, |at, word| {
        let start = *at;
        *at += word.len();
        Some((start, word.trim_end()))
    });
    let mut before = "";
    std::iter::from_fn(move || {
        loop {
            let (start, word) = words.next()?;
            let is_outside = depth <= 0 && !is_formula;
            for c in word.chars() {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth -= 1,
                    '$' => is_formula = !is_formula,
                    _ => {}
                }
            }
            let previous = std::mem::replace(&mut before, word);
            if start == 0 || !is_outside {
                continue;
            }
            if begins_remark(clause, start, word, previous) {
                return Some(start);
            }
            // `42—which`
            if let Some((at, _)) = word.match_indices('—').next() {
                return Some(start + at);
            }
        }
    })
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
        "and" => (is_word(next_word) || next_word == "I") && is_after_value(),
        "or" => is_one_of(next_word, RESTATED),
        _ if matches!(word, "-" | "–" | "—" | "--") => is_word(next_word),
        // `(3,4) (4,3)` are two points.
        _ if previous.ends_with(')') && is_point(word) => false,
        _ if word.starts_with('(') => !bare.starts_with("mod") && is_after_value(),
        // "7 to 42" is a range.
        "to" if next.starts_with(|c: char| !c.is_alphabetic()) => false,
        _ if is_one_of(bare, AFTER_VALUES) => is_after_value(),
        // "5 apples: 3 red and 2 green"
        _ if previous.ends_with(':') && is_word(previous.trim_end_matches(':')) => is_after_value(),
        _ => is_word(bare) && previous.ends_with([',', ';', ':']) && is_after_value(),
    }
}

/// Whether a word is a point of numbers, or begins one.
fn is_point(word: &str) -> bool {
    let inner = word.strip_prefix('(').filter(|inner| inner.contains(','));
    inner.is_some_and(|inner| inner.chars().all(|c| c.is_ascii_digit() || "-,./)".contains(c)))
}

/// Whether the unit of a number and the other end of a range follow it: " cm to 6 cm", but not " cm to 2 decimal
/// places".
pub(super) fn is_range(rest: &str) -> bool {
    let is_end = |end: &str| {
        let unit = end.trim_start_matches(|c: char| c.is_ascii_digit() || ".,$-".contains(c));
        unit.len() < end.len() && (unit.is_empty() || is_unit(unit.trim()))
    };
    let range = rest.trim_start().split_once(" to ");
    range.is_some_and(|(unit, end)| is_unit(unit) && is_end(end))
}

pub(super) fn trimmed(text: &str) -> &str {
    let text = text.trim_end();
    let text = if text.ends_with("....") { &text[..text.len() - 1] } else { text };
    // Three points go on: `0.333...`
    let goes_on = text.ends_with("..");
    let is_edge = |c: char| c.is_whitespace() || ",;:*`_\"”’".contains(c) || (c == '.' && !goes_on);
    text.trim_end_matches(is_edge).trim_start()
}
