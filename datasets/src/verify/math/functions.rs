//! Functions that are not known, `f(g(x))`, which the grammar reads as products.

use super::FUEL;
use super::compare::equal;
use super::fuel::Fuel;
use super::program_output::closed;
use super::read::parse;
use super::scan::{holds, pattern};
use super::tree::{Answer, Expr};
use super::values::values;

/// Most applications in a formula.
const MAX_APPLIED: usize = 16;

/// Whether two formulas are equal as products only, `f(2x)` and `2f(x)`. The letter f is a function where both have it
/// before a bracket, and one before a letter or number alone; g and h are where f is one. Otherwise they may be factors
/// of products, as in `g(t)` for `gt` and `h(\frac{a+b}{2})`. Definitions, `f(x) = 2x`, have rules of their own.
pub(super) fn are_only_products(gold: &str, answer: &str) -> bool {
    if !gold.contains('f') || !answer.contains('f') {
        return false;
    }
    let applied = pattern!(r"(?:^|[^A-Za-z\\])f\( *(?:[a-z]|[0-9]+|[fgh]\([^()]*\)) *\)");
    let texts = [gold, answer].map(|text| text.replace("\\left(", "(").replace("\\right)", ")"));
    let is_relation = |text: &String| holds(text, "=|<|>|≤|≥|\\le|\\ge|\\in|\\ne");
    let is_function = texts.iter().all(|text| text.contains("f("))
        && texts.iter().any(|text| applied.is_match(text));
    if !is_function || texts.iter().any(is_relation) {
        return false;
    }
    let (mut arguments, mut fuel) = (Vec::new(), Fuel::new(FUEL));
    let [gold, answer] = texts.map(|text| with_names(text, &mut arguments, &mut fuel));
    let read = gold.and_then(|text| parse(&text)).zip(answer.and_then(|text| parse(&text)));
    read.is_some_and(|(gold, answer)| !equal(&gold, &answer, &mut fuel))
}

/// A formula with a name for the value of each function at each argument: `2f_{0}` of `2f(x)`.
fn with_names(mut text: String, arguments: &mut Vec<Expr>, fuel: &mut Fuel) -> Option<String> {
    for _ in 0..MAX_APPLIED {
        // The last one has none in its argument. Before a sum g and h may be factors: `\frac{h}{2}(f(a) + f(b))`.
        let is_function = |at: &usize| {
            let simple = pattern!(r"^ *(?:[a-z]|[0-9]+|[fgh]_\{[0-9]+\}) *\)");
            let (before, inner) = (&text[..*at], &text[at + 1..]);
            before.ends_with('f') || before.ends_with(['g', 'h']) && simple.is_match(inner)
        };
        let found = text.rmatch_indices('(').map(|(at, _)| at).find(is_function);
        let Some(at) = found.map(|at| at - 1) else { return Some(text) };
        // One letter before it is a factor, `xf(x)`, more of them are a name.
        let before = text[..at].trim_end_matches(|c: char| c.is_ascii_alphabetic());
        (at - before.len() < 2 && !before.ends_with('\\')).then_some(())?;
        let (inner, _) = closed(&text[at + 2..])?;
        let end = at + inner.len() + 3;
        let Some(Answer::Value(argument)) = parse(inner) else { return None };
        let known = arguments.iter().position(|known| values(known, &argument, fuel));
        let number = known.unwrap_or(arguments.len());
        if known.is_none() {
            arguments.push(argument);
        }
        text.replace_range(at + 1..end, &format!("_{{{number}}}"));
    }
    None
}
