//! Spellings of one formula in TeX.

use super::scan::{are_digits, before_end, each, is_digit, pattern};

/// Whether two texts are one formula in spellings of TeX: without spaces, the sizes of brackets, styles of words, and
/// braces around one sign. What is not read is the gold answer where it is spelled as it in this way, `\mathbb R^{3}`
/// for `\mathbb{R}^3`. Texts that mean different things are not, as `\frac{1}{23}` and `\frac{12}{3}` keep their longer
/// groups.
pub(super) fn are_spellings(gold: &str, answer: &str) -> bool {
    let text = respelled(gold);
    let are_apart = has_numbers_apart(gold) || has_numbers_apart(answer);
    !text.is_empty() && !are_apart && text == respelled(answer)
}

/// A text in one of its spellings.
fn respelled(text: &str) -> String {
    const SAME: &str = "\\geqslant=\\ge|\\geq=\\ge|\\leqslant=\\le|\\leq=\\le|\\neq=\\ne|\\top=T|\\dfrac=\\frac|\
        \\tfrac=\\frac";
    let sizes = pattern!(r"\\(?:(?:left|right|[bB]igg?[lr]?)([^A-Za-z]|$)|[,;:!> ])");
    let styles = pattern!(r"\\(?:text|textrm|textit|mathrm|mathit|operatorname) *\{([^{}]*)\}");
    let single = pattern!(r"\{([A-Za-z0-9+-]|\\[A-Za-z]+)\}");
    let same = each(SAME).filter_map(|same| same.split_once('='));
    let text = same.fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let text = [sizes, styles, single]
        .into_iter()
        .fold(text, |text, known| known.replace_all(&text, "$1").into_owned());
    text.chars().filter(|c| !c.is_whitespace() && !"~$".contains(*c)).collect()
}

/// Whether only a space parts two numbers, as in `2 3/4`, which is not `23/4`. Of `1s^2 2s^1` the first is a raised
/// one.
pub(super) fn has_numbers_apart(text: &str) -> bool {
    let is_number = |word: &str| {
        let before = word.trim_end_matches(is_digit);
        before.len() < word.len() && before_end(before, "s^|p^|d^|f^").is_none()
    };
    let text = text.replace("\\ ", " ").replace('~', " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| is_number(pair[0]) && pair[1].starts_with(is_digit))
}

/// Whether two texts are one number with other primes, feet and inches: `5'` and `5''`.
pub(super) fn differ_in_primes(gold: &str, answer: &str) -> bool {
    let primed = |text: &str| {
        (text.starts_with(is_digit) && !text.ends_with(is_digit)).then_some(())?;
        let plain = text.replace("\\prime", "'").replace(['"', '″', '”'], "''");
        let plain = plain.replace(['′', '’'], "'").replace(['^', '{', '}', ' '], "");
        let number = plain.trim_end_matches('\'').to_owned();
        let primes = plain.len() - number.len();
        (primes > 0 && are_digits(&number)).then_some((number, primes))
    };
    let (gold, answer) = (primed(gold), primed(answer));
    gold.zip(answer).is_some_and(|(a, b)| a.0 == b.0 && a.1 != b.1)
}
