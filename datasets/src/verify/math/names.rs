//! Names that an equation defines, and values with names.

use super::links::linked;
use super::members::MAX_MEMBERS;
use super::scan::{begins, holds, is_digit, is_one_of, past, pattern};
use super::tree::{Answer, Expr, Relation};
use super::values::variables;

/// Names that an assignment may have on its left: `x`, `f(x)`, `A_n`, `(x, y)`.
pub(super) fn is_name(answer: &Answer) -> bool {
    match answer {
        Answer::Value(Expr::Variable(_)) => true,
        Answer::Words(words) => !denies_letter(words),
        // The inverse of a matrix; `x^{-1} = 5` is an equation.
        Answer::Value(inverse @ Expr::Power(base, _)) => is_name_part(inverse) && is_segment(base),
        Answer::Value(Expr::Product(factors)) => {
            factors.len() <= 3 && factors.iter().all(is_name_part)
        }
        Answer::Value(Expr::Call(name, _)) if name == "norm" => true,
        // The size of a vector or complex number; `|x| = 5` is an equation.
        Answer::Value(Expr::Call(name, arguments)) if name == "abs" => match arguments.as_slice() {
            [Expr::Variable(name)] => !matches!(name.as_str(), "x" | "y" | "t" | "n" | "k" | "m"),
            _ => arguments.iter().all(is_segment),
        },
        Answer::Value(Expr::Call(_, arguments)) => arguments.iter().all(is_segment),
        Answer::Tuple(_, items, _)
        | Answer::List(items)
        | Answer::Ratio(items)
        | Answer::Union(items) => items.iter().all(is_name),
        // Ratios and derivatives: NO / BO, dy / dx.
        Answer::Value(Expr::Quotient(a, b)) => [a, b].iter().all(|part| match &***part {
            Expr::Product(factors) => factors.iter().all(is_name_part),
            other => is_name_part(other),
        }),
        _ => false,
    }
}

/// The words before a letter, "maximum at" of "maximum at x".
fn before_letter(words: &str) -> Option<Vec<String>> {
    let words = words.to_lowercase();
    let mut words: Vec<String> = words.split([' ', '~']).map(str::to_owned).collect();
    words.retain(|word| !word.is_empty());
    words.pop().filter(|last| matches!(last.as_bytes(), [b'a'..=b'z'])).map(|_| words)
}

/// Whether words deny the letter that they stand before, "never x": nothing is named by it. "Neither", and words for
/// what is in no set, "elements not A", name counts.
fn denies_letter(words: &str) -> bool {
    const DENIALS: &str = "not|never|hardly|except|isn't|cannot|twice";
    const COUNTED: &str = "number|elements|those|people|but";
    before_letter(words).is_some_and(|words| {
        words.last().is_some_and(|word| is_one_of(word, DENIALS))
            && !words.iter().any(|word| is_one_of(word, COUNTED))
    })
}

/// How words begin of which at one place only one is true, each with the others.
const OPPOSITES: [[&str; 2]; 11] = [
    ["min", "max"],
    ["horizontal", "vertical"],
    ["increasing", "decreasing"],
    ["continuous", "discontinuous"],
    ["inflection|saddle", "max|min"],
    ["reflect", "rotat"],
    ["simple", "double|essential"],
    ["double", "essential"],
    ["removable|hole", "simple|double|essential|jump|infinite|vertical"],
    ["stable", "unstable"],
    ["sink", "source"],
];

/// Whether words before a letter, with "at" or the like, say opposite things of it: a maximum at x = 2 is no minimum
/// at x = 2. Other words may say one thing: "slope m", "gradient m".
pub(super) fn say_opposites(a: &Answer, b: &Answer) -> bool {
    let said = |side: &Answer| {
        let Answer::Words(words) = side else { return None };
        let mut words = before_letter(words)?;
        const PLACES: &str = "at|in|when|about|across|over|for|on";
        words.pop().filter(|word| is_one_of(word, PLACES)).map(|_| words)
    };
    let (Some(a), Some(b)) = (said(a), said(b)) else { return false };
    let has = |words: &[String], table: &'static str| words.iter().any(|word| begins(word, table));
    let is_only = |a: &[String], b: &[String], [one, other]: [&'static str; 2]| {
        has(a, one) && !has(a, other) && has(b, other) && !has(b, one)
    };
    // "Isn't continuous" is "discontinuous".
    let is_denied = a.iter().chain(&b).any(|word| is_one_of(word, "not|isn't|no|never|non"));
    !is_denied && OPPOSITES.iter().any(|pair| is_only(&a, &b, *pair) || is_only(&b, &a, *pair))
}

/// A variable, or the inverse of a function: `f^{-1}`.
fn is_name_part(factor: &Expr) -> bool {
    match factor {
        Expr::Variable(_) => true,
        // `f(x)` of `g(f(x))`
        Expr::Product(parts) => parts.len() == 2 && parts.iter().all(is_name_part),
        Expr::Power(base, exponent) => {
            matches!(**base, Expr::Variable(_)) && **exponent == Expr::negative(Expr::integer(1))
        }
        _ => false,
    }
}

/// A product of capital letters.
fn is_segment(expr: &Expr) -> bool {
    let is_capital = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase());
    let is_point = |expr: &Expr| matches!(expr, Expr::Variable(name) if is_capital(name));
    match expr {
        Expr::Product(factors) => factors.iter().all(is_point),
        other => is_point(other),
    }
}

/// Values with names that are not written as equations: `x: 4, y: 7`, `x is 3 and y is 8`, `x → 2, y → 3`.
pub(super) fn assignments(text: &str) -> Option<String> {
    const MAX_BYTES: usize = 200;
    if text.len() > MAX_BYTES || !text.contains(['=', ':', '→', 's', 't', '>']) {
        return None;
    }
    // A name is one letter.
    let text = text.strip_prefix("\\text{").and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let text = text.strip_prefix("- ").unwrap_or(text);
    let bare = text.trim_start_matches(['$', '*', ' ']).as_bytes();
    let is_name = bare.first().is_some_and(u8::is_ascii_alphabetic)
        && bare.get(1).is_some_and(|byte| !byte.is_ascii_alphanumeric());
    is_name.then_some(())?;
    let text = linked(text).unwrap_or_else(|| text.to_owned()).replace(" and ", ",");
    let mut names = Vec::new();
    let mut equations = Vec::new();
    for part in text.split([',', ';', '\n', '、', '，']) {
        let part = part.trim_start().strip_prefix("- ").unwrap_or(part);
        let part = part.trim_matches(['$', '*', ' ', '.']);
        if part.is_empty() {
            continue;
        }
        let name = part.chars().next().filter(char::is_ascii_alphabetic)?;
        let rest = part[1..].trim_start();
        const SIGNS: &str = "=|:|→|->|\\to |\\rightarrow |is equal to |is |equals ";
        let value = past(rest, SIGNS)?.trim();
        let is_value = !value.is_empty() && !value.contains(['=', ':', '<', '>']);
        (is_value && !names.contains(&name)).then_some(())?;
        names.push(name);
        equations.push(format!("{name}={value}"));
    }
    (names.len() > 1).then(|| equations.join(", "))
}

/// `f: x \mapsto 2x` as `f(x) = 2x`; without a name as the value.
pub(super) fn mapping(text: &str) -> Option<String> {
    holds(text, "mapsto|↦").then_some(())?;
    let map = pattern!(
        r"^(?:([A-Za-z]) ?(?::|\\colon) ?)?([a-z]) ?(?:\\mapsto|\\longmapsto|↦) ?([^↦]+)$"
    );
    let found = map.captures(text)?;
    Some(match found.get(1) {
        Some(name) => format!("{}({})={}", name.as_str(), &found[2], &found[3]),
        None => found[3].to_owned(),
    })
}

/// The members of a list or tuple of values; `Some(None)` where they have no order, or are an interval.
pub(super) fn unnamed(answer: &Answer) -> Option<Option<&[Answer]>> {
    let (items, is_ordered) = match answer {
        Answer::Tuple(open, items, _) => (items, items.len() != 2 || "(⟨".contains(*open)),
        Answer::List(items) => (items, true),
        Answer::Set(items) => (items, false),
        _ => return None,
    };
    let is_value = |item: &Answer| matches!(item, Answer::Value(_) | Answer::Marked(..));
    items.iter().all(is_value).then_some(is_ordered.then_some(items))
}

/// Whether names are one letter with several indices, `x_1` and `x_2`, whose values are a list in any order.
pub(super) fn are_indexed(pairs: &[(&Answer, &Answer)]) -> bool {
    let stem = |name: &Answer| {
        let (stem, index) =
            letter(name)?.split_once('_').map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        index.contains(is_digit).then_some(stem)
    };
    let first = pairs.first().and_then(|(name, _)| stem(name));
    first.is_some() && pairs.iter().all(|(name, _)| stem(name) == first)
}

/// Values in the order in which they are given without names: coordinates by the alphabet, others as they stand.
pub(super) fn by_convention(mut pairs: Vec<(&Answer, &Answer)>) -> Vec<Answer> {
    let are_coordinates = pairs
        .iter()
        .all(|(name, _)| letter(name).is_some_and(|name| matches!(name.as_str(), "x" | "y" | "z")));
    if are_coordinates {
        pairs.sort_by_key(|(name, _)| letter(name));
    }
    pairs.into_iter().map(|(_, value)| value.clone()).collect()
}

/// Assignments to names that all differ.
pub(super) fn assigned(answer: &Answer) -> Option<Vec<(&Answer, &Answer)>> {
    if let Some(sides) = answer.equation() {
        return match sides {
            (Answer::Tuple(_, names, _), Answer::Tuple(_, values, _))
                if names.len() == values.len() && names.iter().all(is_name) =>
            {
                Some(names.iter().zip(values).collect())
            }
            _ => None,
        };
    }
    let items = match answer {
        Answer::List(items) | Answer::Set(items) => items,
        // `x = y = z = 0`
        Answer::Chain(sides, relations) if relations.iter().all(|one| *one == Relation::Equal) => {
            let (value, names) = sides.split_last()?;
            let is_number = match value {
                Answer::Value(value) => variables(value).is_empty(),
                Answer::Marked(..) => true,
                _ => false,
            };
            let is_letter = |name: &Answer| matches!(name, Answer::Value(Expr::Variable(_)));
            let are_letters = names.iter().all(is_letter);
            let pairs: Vec<_> = names.iter().map(|name| (name, value)).collect();
            return (is_number && are_letters && are_distinct(&pairs)).then_some(pairs);
        }
        _ => return None,
    };
    let equations = items.iter().map(Answer::equation).collect::<Option<Vec<_>>>()?;
    (equations.iter().all(|(name, _)| is_name(name)) && are_distinct(&equations))
        .then_some(equations)
}

/// Whether several values have names that all differ.
fn are_distinct(pairs: &[(&Answer, &Answer)]) -> bool {
    let differs = |i: usize| pairs[..i].iter().all(|(name, _)| *name != pairs[i].0);
    (2..=MAX_MEMBERS).contains(&pairs.len()) && (0..pairs.len()).all(differs)
}

/// The function and the variable of `f(x)`, and of a sequence `a_n` its letter and index.
pub(super) fn application(answer: &Answer) -> Option<(String, Expr)> {
    match answer {
        Answer::Value(Expr::Product(factors)) => match factors.as_slice() {
            [Expr::Variable(function), argument @ Expr::Variable(_)] => {
                Some((function.clone(), argument.clone()))
            }
            _ => None,
        },
        Answer::Value(Expr::Variable(name)) => {
            let index = name
                .split_once("_[Name(\"")
                .and_then(|(stem, index)| Some((stem, index.strip_suffix("\")]")?)));
            index.map(|(stem, index)| (stem.to_owned(), Expr::Variable(index.to_owned())))
        }
        _ => None,
    }
}

/// A single variable as a word: choice letters.
pub(super) fn letter(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Value(Expr::Variable(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Whether equations are of different letters, of which "or" gives one: `a = 0 or b = 0` is no `a = 0, b = 0`. Roots by
/// their indices, `x_1 = 3 or x_2 = -2`, are values of one letter, and equations of lines are two answers however they
/// are joined: `x = 2 or y = 3x + 1`.
pub(super) fn are_of_others(items: &[Answer]) -> bool {
    let sides = || items.iter().filter_map(Answer::equation);
    let names: Vec<_> = sides().filter_map(|(name, _)| letter(name)).collect();
    let is_plain = |name: &String| !name.contains('_');
    let is_number =
        |side: &Answer| !matches!(side, Answer::Value(value) if !variables(value).is_empty());
    names.len() == items.len()
        && names.iter().all(is_plain)
        && names.iter().any(|name| *name != names[0])
        && sides().all(|(_, value)| is_number(value))
}
