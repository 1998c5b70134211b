//! Answers in words: names, yes and no, choice letters, numbers and times in words.

use std::collections::BTreeSet;

use dashu_ratio::RBig;

use super::spelled::spelled;
use super::tree::Answer;

/// Commands around the letter of a choice.
const WRAPPERS: [&str; 5] = ["\\textbf{", "\\text{", "\\mathrm{", "\\textrm{", "\\mathbf{"];

/// Whether two texts are the same words: case, punctuation, articles and LaTeX decoration do not count.
/// A single choice letter equals the same letter in brackets or before its text: `C`, `(C)`, `C) 12`.
pub(super) fn same_words(gold: &str, answer: &str) -> bool {
    let (a, b) = (folded(gold), folded(answer));
    if a == b && !a.is_empty() {
        return true;
    }
    same_choice(gold, answer)
}

/// Whether a choice letter of the gold is the answer's: `C`, `(C)`, `C) 12`.
pub(super) fn same_choice(gold: &str, answer: &str) -> bool {
    match (choice(gold), choice(answer)) {
        (Some(a), Some(b)) => a == b.to_ascii_uppercase(),
        _ => false,
    }
}

/// Whether a text is the letter of a choice, alone or before its text.
pub(super) fn is_choice(text: &str) -> bool {
    choice(text).is_some()
}

/// The letter of a multiple choice, alone or before its text; none where another one follows: `A) or B)`.
fn choice(text: &str) -> Option<char> {
    let mut text = text.trim();
    // `The correct option is B.`
    for word in ["ption", "hoice"] {
        if let Some((before, rest)) = text.rsplit_once(word)
            && before.len() < 40
        {
            text = rest.trim().trim_start_matches("is ").trim();
        }
    }
    let wrapped = WRAPPERS.iter().find_map(|wrapper| text.strip_prefix(wrapper));
    let text = wrapped.unwrap_or(text).trim_start_matches('(');
    let mut letters = text.chars();
    let letter = letters.next()?;
    let rest = letters.as_str().trim_start();
    let ends = rest.is_empty()
        || rest.starts_with([')', '.', ':'])
        || (wrapped.is_some() && rest.starts_with('}'));
    let is_letter = |c: char| ('A'..='J').contains(&c.to_ascii_uppercase());
    (is_letter(letter) && ends && !names_choice(rest)).then_some(letter)
}

/// Whether a text goes on to name a choice: `(B)`, `or B`.
fn names_choice(text: &str) -> bool {
    let is_link = |word: &str| ["or", "and"].iter().any(|link| word.eq_ignore_ascii_case(link));
    let mut is_linked = false;
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).any(
        |word| {
            let bare = word.trim_matches(['(', ')', '.', ':', '*', '$', '}']);
            let is_letter = matches!(bare.as_bytes(), [b'A'..=b'J']);
            let is_marked = is_letter && word.contains([')', ':']);
            let was_linked = std::mem::replace(&mut is_linked, is_link(word));
            is_marked || (is_letter && was_linked)
        },
    )
}

/// Lower-case words without decoration.
pub(super) fn folded(text: &str) -> String {
    let mut text = text.to_lowercase();
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

/// A time of day, `6:30 p.m.`; without its half of the day it is a ratio until it meets one.
pub(super) fn time(text: &str) -> Option<Answer> {
    let text = text.trim().trim_start_matches("\\text{").trim_end_matches(['}', '.']);
    let (hours, rest) = text.split_once(':')?;
    let minutes = rest.get(..2)?;
    let half: String = rest[2..].chars().filter(|c| c.is_alphabetic()).collect();
    let is_after_noon = match half.to_ascii_lowercase().trim_start_matches("text") {
        "am" => false,
        "pm" => true,
        _ => return None,
    };
    let (hours, minutes) = (hours.trim().parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(Answer::Time(hours, minutes, Some(is_after_noon)))
}

/// `million` and its like as numbers.
pub(super) fn scale(word: &str) -> Option<i64> {
    Some(match word {
        "hundred" => 100,
        "thousand" => 1000,
        "million" => 1_000_000,
        "billion" => 1_000_000_000,
        "trillion" => 1_000_000_000_000,
        _ => return None,
    })
}

/// A whole number in words: `five`, `twenty-one`.
pub(super) fn number_word(words: &str) -> Option<i64> {
    let value = spelled(words).filter(RBig::is_int)?;
    i64::try_from(value.numerator().clone()).ok()
}

/// Whether the letters of several choices are the answer's, in any order: `AC`, `A, C`, `A and C`.
pub(super) fn same_choices(gold: &str, answer: &str) -> bool {
    match (choices(gold), choices(answer)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The different letters of several choices.
fn choices(text: &str) -> Option<BTreeSet<char>> {
    const MAX_BYTES: usize = 80;
    if text.len() > MAX_BYTES {
        return None;
    }
    let bare = text.replace("\\text", " ").replace("\\mathrm", " ").replace("and", " ");
    let mut letters = BTreeSet::new();
    for c in bare.chars().filter(|c| !c.is_whitespace() && !"(){},;&$.".contains(*c)) {
        let is_new = ('A'..='J').contains(&c) && letters.insert(c);
        is_new.then_some(())?;
    }
    (letters.len() >= 2).then_some(letters)
}

/// The text after a choice letter: 12 of `(C) 12` and of `\textbf{(C) }12`.
pub(super) fn after_choice(text: &str) -> Option<&str> {
    let text = text.trim();
    let wrapped = WRAPPERS.iter().find_map(|wrapper| text.strip_prefix(wrapper));
    let inner = wrapped.unwrap_or(text).trim_start().strip_prefix('(')?;
    let rest = inner.strip_prefix(|c: char| ('A'..='J').contains(&c))?.strip_prefix(')')?;
    let rest = rest.trim_start_matches([' ', '\\', '~']);
    let rest = if wrapped.is_some() { rest.strip_prefix('}')? } else { rest };
    let rest = rest.trim();
    (!rest.is_empty()).then_some(rest)
}
