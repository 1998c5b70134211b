//! The parsed form of a mathematical answer, and why two differ, in words for people.

use tealight_core::display::shortened;

use super::fuel::Fuel;
use super::tree::{Answer, Expr, Mark};
use super::{Checked, FUEL, Outcome, gold, numeric, read, values};

/// Longest text that is quoted, in characters.
const MAX_QUOTED: usize = 80;

/// The value of an answer that is one real number, nearly.
pub fn number(text: &str) -> Option<f64> {
    let mut answer = read::parse(bare(text))?;
    if let Answer::Qualified(inner, ..) = answer {
        answer = *inner;
    }
    if let Answer::Chain(mut sides, _) = answer {
        answer = sides.pop()?;
    }
    if let Answer::Marked(inner, _) = answer {
        answer = *inner;
    }
    match answer {
        Answer::Value(value) => numeric::approximate(&value, &mut Fuel::new(FUEL)),
        _ => None,
    }
}

/// Why `checked` came out as it did against `text`, a gold answer or a solution that ends in one.
pub fn why(text: &str, checked: &Checked<'_>) -> String {
    let expected = gold(text);
    let expected = expected.as_ref();
    let span = checked.found.as_ref().map_or("", |found| &*found.text);
    match checked.outcome {
        Outcome::Correct if checked.stage == "text" => "the texts are the same".into(),
        Outcome::Correct => "the values are equal".into(),
        Outcome::NoAnswer => "the completion holds no answer where one is looked for".into(),
        Outcome::UnparsableAnswer => {
            format!("`{}` is neither mathematics nor the gold answer's words", quoted(span))
        }
        Outcome::UnparsableGold => {
            format!("the gold answer `{}` is neither mathematics nor words", quoted(expected))
        }
        Outcome::OutOfWork => "the comparison takes more work than a verdict may cost".into(),
        Outcome::Wrong => difference(expected, span),
    }
}

/// The kind of a gold answer, in a few words: `a number`, `a set`, `words`.
pub fn kind_of(text: &str) -> String {
    match read::parse(bare(&gold(text))) {
        None => "not readable".into(),
        Some(Answer::Value(value)) if !values::variables(&value).is_empty() => {
            "an expression".into()
        }
        Some(Answer::Marked(_, Mark::Unit(_))) => "a number with a unit".into(),
        Some(Answer::Matrix(_)) => "a matrix".into(),
        Some(Answer::Based(..)) => "a number in another base".into(),
        Some(other) => {
            let description = kind(&other);
            description.split_once(" of ").map_or(description.as_str(), |(name, _)| name).to_owned()
        }
    }
}

/// How two answers that are not equal differ.
fn difference(gold: &str, answer: &str) -> String {
    if let (Some(one), Some(other)) = (number(gold), number(answer)) {
        let marks = [gold, answer].map(mark);
        return match (one == other, marks[0] == marks[1]) {
            (false, _) => format!("the values differ: {one} is expected, {other} was found"),
            (true, false) => {
                let [one, other] = marks.map(|mark| mark.unwrap_or("no unit".into()));
                format!("the units differ: {one} is expected, {other} was found")
            }
            (true, true) => "the values differ beyond the digits of a 64-bit number".into(),
        };
    }
    let (Some(one), Some(other)) = (read::parse(bare(gold)), read::parse(bare(answer))) else {
        return "the answers are not equal".into();
    };
    match (kind(&one), kind(&other)) {
        (one, other) if one == other => format!("both are {one}, with different values"),
        (one, other) => format!("{one} is expected, {other} was found"),
    }
}

fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '$').trim_end_matches('.')
}

fn quoted(text: &str) -> String {
    shortened(text, MAX_QUOTED)
}

/// The percent sign or unit after a number, where there is one.
fn mark(text: &str) -> Option<String> {
    match read::parse(bare(text))? {
        Answer::Marked(_, mark) => Some(match mark {
            Mark::Percent => "a percentage".into(),
            Mark::Degree => "degrees".into(),
            Mark::Unit(unit) => format!("the unit `{}`", quoted(&unit)),
        }),
        _ => None,
    }
}

/// The kind of an answer, with an article.
fn kind(answer: &Answer) -> String {
    let with_count =
        |name: &str, members: &[Answer]| format!("{name} of {} members", members.len());
    match answer {
        Answer::Value(value) => {
            let names: Vec<String> = values::variables(value).into_iter().collect();
            match (value, names.is_empty()) {
                (Expr::Infinity, _) => "infinity".into(),
                (_, true) => "a number".into(),
                _ => format!("an expression in {}", quoted(&names.join(", "))),
            }
        }
        Answer::Marked(inner, Mark::Unit(unit)) => {
            format!("{} with the unit `{}`", kind(inner), quoted(unit))
        }
        Answer::Marked(_, Mark::Percent) => "a percentage".into(),
        Answer::Marked(_, Mark::Degree) => "an angle in degrees".into(),
        Answer::Tuple('(', members, ')') => with_count("a tuple or open interval", members),
        Answer::Tuple(_, members, _) => with_count("an interval or tuple", members),
        Answer::Set(members) => with_count("a set", members),
        Answer::List(members) => with_count("a list", members),
        Answer::Union(members) => with_count("a union", members),
        Answer::Ratio(members) => with_count("a ratio", members),
        Answer::Matrix(rows) => {
            format!("a {} x {} matrix", rows.len(), rows.first().map_or(0, Vec::len))
        }
        Answer::Chain(..) | Answer::Signs(_) => "a relation".into(),
        Answer::Without(..) => "a difference of sets".into(),
        Answer::Time(..) => "a time of day".into(),
        Answer::Member(..) => "a membership".into(),
        Answer::Based(_, base) => format!("a number in base {base}"),
        Answer::Words(_) => "words".into(),
        Answer::Condition(_) => "a set by a condition".into(),
        Answer::Cases(pieces) => format!("a function of {} pieces", pieces.len()),
        Answer::Congruence(..) => "a congruence".into(),
        Answer::Qualified(inner, ..) => kind(inner),
    }
}
