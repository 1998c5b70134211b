//! Letters before the texts of choices, and the numbers that answers and these texts are.

use super::choices::letter;

/// A choice without the letter of its place before it.
pub(super) fn without_marker(text: &str, at: usize) -> Option<String> {
    let letter = letter(at);
    let rest = text.strip_prefix('(').unwrap_or(text);
    let (first, rest) = rest.split_at_checked(1)?;
    let rest = rest.trim_start().strip_prefix([')', '.', ':'])?;
    first.eq_ignore_ascii_case(&letter).then(|| rest.trim_start().to_owned())
}

/// The number of an answer: 2 of `2`, `(2)`, `2.` and `\u{2461}`.
pub(super) fn number_of(answer: &str) -> String {
    let mut letters = answer.chars();
    match (letters.next().and_then(circled), letters.next()) {
        (Some(number), None) => number.to_string(),
        _ => answer.trim_matches(['(', ')', '.', ':', ' ']).to_owned(),
    }
}

fn circled(letter: char) -> Option<usize> {
    ('\u{2460}'..='\u{2473}').position(|known| known == letter).map(|at| at + 1)
}

/// The number that a choice is, with a unit behind it or as mathematics: 3 of `$3$`, `3.0`, `3 cm`.
pub(super) fn amount(text: &str) -> Option<f64> {
    let text = text.trim_matches(|c: char| c == ' ' || "$\\()".contains(c));
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-'));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let is_unit = unit.chars().all(|c| c.is_alphabetic() || " %\u{b0}$.".contains(c));
    number.parse().ok().filter(|_| is_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_units_and_as_mathematics() {
        for text in ["3", "3.0", "$3$", "$3", "\\(3\\)", "3 cm", "3%", "3 apples."] {
            assert_eq!(amount(text), Some(3.0), "{text}");
        }
        for text in ["x", "3 or 4", "3x^2", "1/2", "", "three", "2024-01-02"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }
}
