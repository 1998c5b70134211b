//! What stands before the texts of choices (letters, numbers of their own), and the numbers that these texts are.

use super::choices::letter;

/// A choice without the letter of its place before it.
pub(super) fn without_marker(text: &str, at: usize) -> Option<String> {
    let letter = letter(at);
    let rest = text.strip_prefix('(').unwrap_or(text);
    let (first, rest) = rest.split_at_checked(1)?;
    let rest = rest.trim_start().strip_prefix([')', '.', ':'])?;
    first.eq_ignore_ascii_case(&letter).then(|| rest.trim_start().to_owned())
}

/// The numbers that choices carry and the texts behind these, where they count the places from 0 or from 1: `1. x`,
/// `(2) y`, `\u{2460} x`.
pub(super) fn numbered(texts: &[String], places: &[usize]) -> Option<(Vec<String>, Vec<String>)> {
    let parts: Vec<(usize, &str)> =
        texts.iter().map(|text| number_before(text)).collect::<Option<_>>()?;
    let first = parts.first()?.0.checked_sub(*places.first()?).filter(|first| *first <= 1)?;
    let counts = parts.iter().zip(places).all(|((number, _), place)| *number == place + first);
    counts.then(|| {
        parts.into_iter().map(|(number, text)| (number.to_string(), text.to_owned())).unzip()
    })
}

/// A number that is no part of a text, and the text: a point or a colon behind it may belong to one.
fn number_before(text: &str) -> Option<(usize, &str)> {
    if let Some(number) = text.chars().next().and_then(circled) {
        return Some((number, text[text.chars().next()?.len_utf8()..].trim_start()));
    }
    let bare = text.strip_prefix('(').unwrap_or(text);
    let (number, rest) = bare.split_at(bare.find(|c: char| !c.is_ascii_digit())?);
    let inner = rest.strip_prefix(')').or_else(|| {
        let inner = rest.strip_prefix(['.', ':'])?;
        (bare.len() == text.len() && inner.starts_with(char::is_whitespace)).then_some(inner)
    })?;
    Some((number.parse().ok()?, inner.trim_start())).filter(|(_, text)| !text.is_empty())
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
    fn numbers_of_choices_are_not_those_of_their_texts() {
        let read = |texts: &str| {
            let texts: Vec<String> = texts.split('|').map(str::to_owned).collect();
            numbered(&texts, &[0, 1]).map(|(labels, texts)| labels.concat() + &texts.concat())
        };
        for texts in ["1. x|2. y", "(1) x|(2)y", "1) x|2) y", "\u{2460} x|\u{2461}y"] {
            assert_eq!(read(texts).as_deref(), Some("12xy"), "{texts}");
        }
        for texts in ["1.5|2.5", "1:2|2:3", "2. x|1. y", "3. x|4. y", "1 x|2 y", "(1)|(2)"] {
            assert_eq!(read(texts), None, "{texts}");
        }
        for text in ["3", "3.0", "$3$", "$3", "\\(3\\)", "3 cm", "3%", "3 apples."] {
            assert_eq!(amount(text), Some(3.0), "{text}");
        }
        for text in ["x", "3 or 4", "3x^2", "1/2", "", "three", "2024-01-02"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }
}
