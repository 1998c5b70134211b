//! Short mathematical answers: found in `\boxed{}`, after `####`, or as the last number; compared
//! exactly as rationals, and as normalised text where either side is not a number.
//!
//! Text before the last `</think>` is ignored. The class of a right completion is a hash of its
//! whole text with white space folded: two right completions count as distinct when their texts
//! differ, since the final answer itself is always the same.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Pow, Zero};

use crate::{Problem, Verdict, Verifier};

/// Longest number, in bytes, that is read as one: keeps the worst case linear in the input.
const MAX_NUMBER_BYTES: usize = 512;

/// Checks short mathematical answers.
#[derive(Debug, Clone, Copy)]
pub struct Math;

impl Verifier for Math {
    fn name(&self) -> &'static str {
        "math"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let Some(found) = extract(completion) else { return Verdict::NoAnswer };
        let gold = problem.answer.trim();
        let is_equal = match (number(found), number(gold)) {
            (Some(found), Some(gold)) => found == gold,
            (None, Some(_)) => {
                return Verdict::Unparsable { found: found.chars().take(64).collect() };
            }
            _ => normalised(found) == normalised(gold),
        };
        if is_equal { Verdict::Correct { class: class_of(completion) } } else { Verdict::Wrong }
    }
}

/// The reference answer inside a worked solution or an answer column: after `####`, else the last
/// box, else the text as it stands.
pub fn gold(text: &str) -> &str {
    after_hashes(text).or_else(|| last_box(text)).unwrap_or(text).trim()
}

/// The answer a completion gives: the last box, else what follows the last `####`, else the last
/// number.
pub fn extract(completion: &str) -> Option<&str> {
    let text = completion.rsplit_once("</think>").map_or(completion, |(_, answer)| answer);
    last_box(text).or_else(|| after_hashes(text)).or_else(|| last_number(text))
}

fn after_hashes(text: &str) -> Option<&str> {
    let (_, tail) = text.rsplit_once("####")?;
    let line = tail.trim_start().lines().next()?.trim();
    (!line.is_empty()).then_some(line)
}

/// The contents of the last closed `\boxed{..}`.
fn last_box(text: &str) -> Option<&str> {
    const OPEN: &str = "\\boxed{";
    let mut end = text.len();
    // Each round looks only at the text before the box it rejected, so the scan stays linear.
    while let Some(start) = text[..end].rfind(OPEN) {
        let inner = &text[start + OPEN.len()..end];
        let mut depth = 1_usize;
        for (at, byte) in inner.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(inner[..at].trim());
            }
        }
        end = start;
    }
    None
}

/// The last number in running text: sign, digits with thousands separators, decimals, `a/b`.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'/');
    let mut start = end - 1;
    while start > 0 && is_part(bytes[start - 1]) {
        start -= 1;
    }
    while !bytes[start].is_ascii_digit() && bytes[start] != b'.' {
        start += 1;
    }
    // A minus sign belongs to the number unless it joins it to what stands before.
    if start > 0 && bytes[start - 1] == b'-' {
        let before = start.checked_sub(2).map(|at| bytes[at]);
        if before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && byte != b')') {
            start -= 1;
        }
    }
    Some(&text[start..end])
}

/// The exact value of a number as people and LaTeX write it; `None` for anything else.
pub fn number(text: &str) -> Option<BigRational> {
    if text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    let text = strip_decoration(text);
    let (sign, text) = match text.strip_prefix(['-', '−']) {
        Some(rest) => (-1, rest.trim_start()),
        None => (1, text.strip_prefix('+').unwrap_or(&text)),
    };
    let value = fraction(text)?;
    Some(value * BigRational::from_integer(sign.into()))
}

/// `\frac{a}{b}`, `a/b` or a decimal, without a sign.
fn fraction(text: &str) -> Option<BigRational> {
    for command in ["\\frac", "\\dfrac", "\\tfrac"] {
        let Some(arguments) = text.strip_prefix(command) else { continue };
        let (above, rest) = argument(arguments)?;
        let (below, rest) = argument(rest)?;
        return if rest.trim().is_empty() { ratio(above, below) } else { None };
    }
    match text.split_once('/') {
        Some((above, below)) => ratio(above, below),
        None => decimal(text),
    }
}

fn ratio(above: &str, below: &str) -> Option<BigRational> {
    let (above, below) = (decimal(above.trim())?, decimal(below.trim())?);
    (!below.is_zero()).then(|| above / below)
}

/// One LaTeX argument, `{12}` or a single digit, and the text after it.
fn argument(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    match text.strip_prefix('{') {
        Some(inner) => inner.split_once('}'),
        None => text.as_bytes().first()?.is_ascii_digit().then(|| text.split_at(1)),
    }
}

/// `1234`, `1,234`, `12.50`, `.5`; separators only between groups of three digits.
fn decimal(text: &str) -> Option<BigRational> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let groups: Vec<_> = whole.split(',').collect();
    let are_groups_right = groups[1..].iter().all(|group| group.len() == 3) && groups[0].len() <= 3;
    if groups.len() > 1 && !are_groups_right {
        return None;
    }
    let digits = groups.concat() + part;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let above: BigInt = digits.parse().ok()?;
    Some(BigRational::new(above, BigInt::from(10).pow(part.len())))
}

/// Removes what surrounds a number without changing it: dollars, percent signs, units, spacing.
fn strip_decoration(text: &str) -> String {
    let mut text = text.replace("\\!", "").replace("{,}", ",").replace("\\,", "");
    for mark in ["\\$", "$", "\\%", "%", "\\left", "\\right", "^\\circ", "^{\\circ}", "°"] {
        text = text.replace(mark, "");
    }
    let mut text = text.trim().trim_end_matches('.').trim();
    // A unit after the number: `18 dollars`, `5\text{ cm}`.
    let unit = text.find("\\text").or_else(|| {
        let at = text.find(' ')?;
        text[at..].chars().all(|c| c.is_alphabetic() || c == ' ').then_some(at)
    });
    if let Some(at) = unit.filter(|at| *at > 0) {
        text = text[..at].trim();
    }
    text.to_owned()
}

/// Text in the form that two spellings of one textual answer share.
fn normalised(text: &str) -> String {
    let mut text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac");
    for mark in ["\\left", "\\right", "\\!", "\\,", "\\;", "\\text", "\\mathrm", "$", " ", "{", "}"]
    {
        text = text.replace(mark, "");
    }
    text.trim_end_matches('.').to_lowercase()
}

/// A hash of the text with white space folded, in hexadecimal.
fn class_of(completion: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (index, word) in completion.split_whitespace().enumerate() {
        let gap: &[u8] = if index == 0 { b"" } else { b" " };
        for byte in gap.iter().chain(word.as_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prompt;

    fn verdict(gold: &str, completion: &str) -> Verdict {
        let problem = Problem {
            id: "p".into(),
            prompt: Prompt::question("?"),
            answer: gold.into(),
            solution: None,
        };
        Math.verify(&problem, completion)
    }

    #[test]
    fn answers_are_found_in_a_box_after_hashes_or_last() {
        assert_eq!(extract("so \\boxed{\\frac{1}{2}} it is, 7"), Some("\\frac{1}{2}"));
        assert_eq!(extract("\\boxed{1} then \\boxed{2"), Some("1"));
        assert_eq!(extract("work 5\n#### 1,234\n"), Some("1,234"));
        assert_eq!(extract("it costs $1,234.50."), Some("1,234.50"));
        assert_eq!(extract("from 3 to -4."), Some("-4"));
        assert_eq!(extract("page 3-4"), Some("4"));
        assert_eq!(extract("<think>\\boxed{1}</think> It is 2"), Some("2"));
        assert_eq!(extract("no idea"), None);
    }

    #[test]
    fn numbers_are_compared_exactly() {
        for (gold, text) in [
            ("18", "\\boxed{18}"),
            ("18", "\\boxed{\\$18.00}"),
            ("18", "\\boxed{18\\text{ dollars}}"),
            ("18", "\\boxed{18 dollars}"),
            ("1,234", "#### 1234"),
            ("0.5", "\\boxed{\\frac{1}{2}}"),
            ("-3/4", "\\boxed{-\\dfrac34}"),
            ("025", "\\boxed{25}"),
            ("\\frac{1}{3}", "\\boxed{2/6}"),
        ] {
            assert!(verdict(gold, text).is_correct(), "{gold} {text}");
        }
        for (gold, text) in [
            ("1/3", "\\boxed{0.3333333333333333}"),
            ("2", "\\boxed{200}"),
            ("12", "\\boxed{1,2}"),
            ("18", "\\boxed{18.000000001}"),
        ] {
            assert!(!verdict(gold, text).is_correct(), "{gold} {text}");
        }
        assert_eq!(verdict("3", "dunno"), Verdict::NoAnswer);
        assert!(matches!(verdict("3", "\\boxed{x}"), Verdict::Unparsable { .. }));
    }

    #[test]
    fn textual_answers_are_compared_without_decoration() {
        assert!(verdict("\\text{Evelyn}", "\\boxed{Evelyn}").is_correct());
        assert!(
            verdict("(3,\\frac{\\pi}{2})", "\\boxed{\\left( 3, \\dfrac{\\pi}{2} \\right)}")
                .is_correct()
        );
        assert_eq!(verdict("(3,4)", "\\boxed{(4,3)}"), Verdict::Wrong);
    }

    #[test]
    fn hostile_text_is_judged_quickly_and_quietly() {
        for text in ["\\boxed{".repeat(100_000), "9".repeat(1_000_000), "{".repeat(1_000_000)] {
            assert!(!verdict("1", &text).is_correct());
        }
    }

    #[test]
    fn the_class_is_the_text_with_white_space_folded() {
        let (a, b, c) = (verdict("2", "1+1 = 2"), verdict("2", "1+1 =\n 2 "), verdict("2", "2"));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
