//! The answer that a text holds: a time of day, a number in words, a value that is given twice, else what the grammar
//! of `parse` reads.

use dashu_ratio::RBig;

use super::FUEL;
use super::calendar::time;
use super::compare::equal;
use super::fuel::Fuel;
use super::parse::structure;
use super::spelled::{spelled, with_numerals};
use super::tree::{Answer, Expr};

/// The answer that a text holds, `None` where it is not mathematics.
pub(super) fn parse(text: &str) -> Option<Answer> {
    if let Some(time) = time(text) {
        return Some(time);
    }
    if let Some(number) = spelled_sum(text) {
        return Some(Answer::Value(Expr::Number(number, None)));
    }
    if !text.is_ascii()
        && let Some(number) = with_numerals(text)
    {
        return Some(Answer::Value(Expr::Number(number, None)));
    }
    // `\frac{4}{5}\ (=80\%)`: the same value again.
    if let Some((value, again)) =
        ["(=", "(\\text{or }", "(or "].iter().find_map(|or| text.split_once(*or))
        && !value.is_empty()
        && !again.contains("(=")
    {
        let again = again.trim().strip_suffix(')')?;
        let (value, again) = (parse(value.trim_end_matches(['\\', ' '])), parse(again)?);
        return value.filter(|value| equal(value, &again, &mut Fuel::new(FUEL)));
    }
    // `9/4 (2.25)`
    if let Some((value, again)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
        && again.starts_with(|c: char| c.is_ascii_digit() || c == '\\')
        && value.ends_with(|c: char| c.is_ascii_digit() || c == '}')
        && let (Some(value), Some(again)) = (structure(value), structure(again))
        && equal(&value, &again, &mut Fuel::new(FUEL))
    {
        return Some(value);
    }
    structure(text)
}

/// The number that words around "and" are, which elsewhere separates two answers: `two and a half`.
fn spelled_sum(text: &str) -> Option<RBig> {
    let are_words = text.contains(" and ")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ' || byte == b'-');
    if are_words { spelled(text) } else { None }
}
