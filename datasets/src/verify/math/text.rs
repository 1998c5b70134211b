//! Answers in words: names, yes and no, choice letters, numbers and times in words.

use super::tree::Answer;

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

/// The letter of a multiple choice, alone or before its text.
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
    let text = text.trim_start_matches('(');
    let mut letters = text.chars();
    let letter = letters.next()?;
    let rest = letters.as_str().trim_start();
    let ends = rest.is_empty() || rest.starts_with([')', '.', ':']);
    (('A'..='J').contains(&letter.to_ascii_uppercase()) && ends).then_some(letter)
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

/// A number below a hundred in words: `five`, `twenty-one`.
pub(super) fn number_word(words: &str) -> Option<i64> {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 8] =
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let words = folded(words);
    if let Some((first, second)) = words.split_once(' ')
        && !first.contains('-')
        && let Some(value) = number_word(first)
    {
        // `one hundred`, `six apples`; `twenty one` is read below.
        match (scale(second), number_word(second)) {
            (Some(scale), _) => return Some(value * scale),
            (None, None) if !second.contains(' ') => return Some(value),
            _ => {}
        }
    }
    let of = |table: &[&str], word: &str| table.iter().position(|known| *known == word);
    if let Some(value) = of(&SMALL, &words) {
        return i64::try_from(value).ok();
    }
    let mut parts = words.split(['-', ' ']).filter(|part| !part.is_empty());
    let tens = of(&TENS, parts.next()?)?;
    let ones = match parts.next() {
        None => 0,
        Some(word) => of(&SMALL[..10], word).filter(|ones| *ones > 0)?,
    };
    parts.next().is_none().then_some(i64::try_from(20 + 10 * tens + ones).ok()?)
}

/// The text after a choice letter: 12 of `(C) 12` and of `\textbf{(C) }12`.
pub(super) fn after_choice(text: &str) -> Option<&str> {
    let text = text.trim();
    let wrapped = ["\\textbf{", "\\text{", "\\mathrm{", "\\textrm{"]
        .iter()
        .find_map(|wrapper| text.strip_prefix(wrapper));
    let inner = wrapped.unwrap_or(text).trim_start().strip_prefix('(')?;
    let rest = inner.strip_prefix(|c: char| ('A'..='J').contains(&c))?.strip_prefix(')')?;
    let rest = rest.trim_start_matches([' ', '\\', '~']);
    let rest = if wrapped.is_some() { rest.strip_prefix('}')? } else { rest };
    let rest = rest.trim();
    (!rest.is_empty()).then_some(rest)
}
