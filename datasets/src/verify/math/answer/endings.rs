//! The longest end of a sentence that is mathematics as a whole, where the last formula or number is a part of it:
//! `$(4,7)$ and $(0,-1)$`, `$n = 5t$ for some integer $t$`, `6.02 x 10^23 molecules`, `1200 g`, `£30`.

use super::super::alphabet::is_function;
use super::super::links::is_link;
use super::super::scan::{are_digits, begins, has_digits, is_one_of};
use super::super::spelled::scale;
use super::super::standing::{is_bound, is_unstated};
use super::super::units::is_unit;
use super::numbers::{is_label, last_value};
use super::{MAX_WHOLE, is_value, offset_in};

/// Most words of such an end.
const MAX_WORDS: usize = 14;

/// Characters that a value may begin with.
const STARTS: &str = "$\\([]{|√−-+£€¥₹₩";

/// The longest end of a sentence that is a value and more than its last formula or number.
pub(super) fn ending(sentence: &str) -> Option<&str> {
    let sentence = sentence.trim_end_matches(['.', ' ', '*', '。', '!']);
    (sentence.len() <= MAX_WHOLE).then_some(())?;
    let last = match last_value(sentence) {
        Some((last, _)) => offset_in(sentence, last)..offset_in(sentence, last) + last.len(),
        // `10^23` as a whole
        None => {
            let digit = sentence.rfind(|c: char| c.is_ascii_digit())?;
            digit..digit + 1
        }
    };
    let first = sentence.rmatch_indices(' ').take(MAX_WORDS).last().map_or(0, |(at, _)| at);
    let starts = sentence.char_indices().skip_while(|(at, _)| *at < first).map(|(at, _)| at);
    let ends = [sentence.len(), last.end];
    starts.take_while(|start| *start <= last.start).find_map(|start| {
        (start > 0 && is_start(&sentence[..start], &sentence[start..])).then_some(())?;
        let before = sentence[..start].trim_end_matches(['$', '(', ' ', '*']);
        ends.iter().find_map(|end| {
            let value = &sentence[start..*end];
            let is_more = value.trim_matches('$').len() > last.len()
                || begins_as_money(value) && start < last.start;
            // "5 and 7 more apples": what ends before the sentence is one number.
            let is_one = *end == sentence.len() || !value.contains(',') && is_single(value);
            let is_stated = || {
                !is_unstated(before, &sentence[*end..])
                    && !is_bound(before, &sentence[*end..])
                    && !is_label(before)
            };
            (is_more && is_one && is_mathematics(value) && is_value(value) && is_stated())
                .then_some(value)
        })
    })
}

/// The formula on lines of its own that a text ends with: `\[x > 3\]`.
pub(super) fn displayed(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(['.', ' ', '\n']);
    let marks = [("\\[", "\\]"), ("$$", "$$")];
    let formula = marks.iter().find_map(|(open, close)| {
        let inner = text.strip_suffix(close)?;
        let start = inner.rfind(open)?;
        let inner = inner[start + open.len()..].trim().trim_end_matches('.');
        aligned(inner).or((start > 0 && is_value(inner)).then_some(inner))
    });
    formula.or_else(|| aligned(text))
}

/// The last side of the steps that a text ends with: 5 of `\begin{align*} S &= 2 + 3 \\ &= 5 \end{align*}`. Rows with
/// other left sides are several statements.
fn aligned(text: &str) -> Option<&str> {
    const STEPS: &str =
        "align|align*|aligned|gather|gather*|equation|equation*|eqnarray|eqnarray*|split";
    let (inner, name) = text.strip_suffix('}')?.rsplit_once("\\end{")?;
    is_one_of(name, STEPS).then_some(())?;
    let inner = &inner[inner.rfind("\\begin{")?..];
    let (_, inner) = inner.split_once('}')?;
    let mut rows = inner.rsplit("\\\\").map(str::trim).filter(|row| !row.is_empty());
    let row = rows.next()?;
    let (left, value) = row.rsplit_once('=')?;
    let name = left.trim_matches(['&', ' ']);
    // `2x &= -8 \\\\ x &= -4` is solved for x.
    let is_solved = matches!(name.as_bytes(), [byte] if byte.is_ascii_alphabetic());
    let is_step = name.is_empty()
        || if is_solved {
            rows.all(|row| {
                row.split_once('=').is_some_and(|(side, _)| {
                    let side = side.trim_matches(['&', ' ']);
                    side != name && side.contains(name)
                })
            })
        } else {
            rows.next().is_none()
        };
    let value = value.trim_matches(['&', ' ', '.', ',']);
    (is_step && is_value(value)).then_some(value)
}

/// Whether an end is formulas between dollars, or equations: `k = 1 or k = 4`.
pub(super) fn are_formulas(value: &str) -> bool {
    let is_named = value.starts_with(char::is_alphabetic);
    value.contains('$') && !begins_as_money(value)
        || value.contains("\\(")
        || is_named && value.matches(" = ").count() > 1
}

/// Whether a value may begin between two texts.
fn is_start(before: &str, rest: &str) -> bool {
    let Some(c) = rest.chars().next() else { return false };
    let is_apart = before.ends_with(|c: char| c == ' ' || c >= '\u{2e80}');
    let word = rest.split(' ').next().unwrap_or(rest);
    let name = word.split('(').next().unwrap_or(word);
    let is_formula = c.is_ascii_alphabetic()
        && (is_function(name)
            || word.contains(['^', '*']) && has_digits(word)
            || begins(&rest[1..], " = | ≤ | ≥ | < | > | <= | >= "));
    is_apart
        && !begins(rest, "- |− |+ ")
        && (c.is_ascii_digit() || STARTS.contains(c) || is_formula)
}

/// Whether a text is formulas with what joins or qualifies them, money, or has no words but units and links.
fn is_mathematics(value: &str) -> bool {
    const QUALIFIERS: &str = "for|all|every|any|each|some|where|with|is|are|an|integer|integers|real|reals|natural|\
        number|numbers|positive|constant|constants|arbitrary|nonzero|non|negative";
    let plain = value.replace("\\$", "").replace("\\(", "$").replace("\\)", "$");
    let mut parts = plain.split('$');
    match plain.matches('$').count() {
        0 => is_plain(value),
        1 => begins_as_money(&plain) && is_plain(value),
        marks => {
            let is_known = |part: &str| {
                let words = part.split(|c: char| !c.is_alphabetic() || !c.is_ascii());
                words
                    .filter(|word| word.len() > 1)
                    .all(|word| is_link(word) || is_one_of(word, QUALIFIERS))
            };
            // `$12 = $17` is money.
            let is_money = |inner: &str| inner.trim_end().ends_with(['=', '+', '-', '*', '/', ',']);
            plain.starts_with('$')
                && marks % 2 == 0
                && parts.clone().step_by(2).all(is_known)
                && !parts.by_ref().skip(1).step_by(2).any(is_money)
        }
    }
}

/// Whether a text begins with an amount of dollars.
fn begins_as_money(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether the words of a text are units, functions, or join two values.
fn is_plain(value: &str) -> bool {
    let words = value.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 1);
    let has_base = value.contains(" in base ");
    words.clone().all(|word| {
        is_link(word)
            || is_one_of(word, "mod|for|where")
            || scale(word).is_some()
            || has_base && is_one_of(word, "in|base")
            || is_unit(word)
            || is_function(word)
    })
}

/// Whether a text is no list in words: `3 and 2/5` is a mixed number.
fn is_single(value: &str) -> bool {
    value.split_once(" and ").is_none_or(|(number, fraction)| {
        let parts = fraction.split_once('/');
        are_digits(number)
            && parts.is_some_and(|(above, below)| are_digits(above) && are_digits(below))
    }) && !value.contains(" or ")
}
