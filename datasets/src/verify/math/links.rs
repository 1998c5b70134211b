//! Words of other languages between the members of a list and between alternatives, `2 y -1` and `x = 2 или x = -1`, as
//! "and" and "or", which the grammar reads.

use regex::Captures;

use super::scan::{is_one_of, pattern};

/// Between the members of a list.
const AND: &str = "und|et|y|e|и|i|ve|va|dan|oraz|en|và|og|och|और|و|এবং";
/// Between alternatives.
const OR: &str = "oder|ou|ou bien|o|o bien|u|of|dan wel|oppure|ovvero|или|либо|lub|albo|bądź|veya|ya da|yahut|atau|\
    ataupun|hoặc|hay|hay là|या|अथवा|أو|أم|বা|অথবা|কিংবা|beziehungsweise|bzw\\.|respectievelijk|respektive";
/// The same in languages that put no blank between a number and such a word.
pub(super) const TIGHT_AND: &str = "[和与與及とや]|以及|및|그리고|[과와] |และ";
pub(super) const TIGHT_OR: &str =
    "或者?是?|还是|または|又は|あるいは|もしくは|か|또는|혹은|이?나 |หรือ";

/// Whether a word joins values and is no letter.
pub(super) fn is_joining(word: &str) -> bool {
    word.chars().nth(1).is_some() && is_link(word)
}

/// Whether a word joins values.
pub(super) fn is_link(word: &str) -> bool {
    is_one_of(word, "and|or") || is_one_of(word, AND) || is_one_of(word, OR)
}

/// A text with its words between values in English; none where it has no such words.
pub(super) fn linked(text: &str) -> Option<String> {
    const MAX_BYTES: usize = 400;
    // Most texts have no blank or `\text` behind a value.
    let ends = |pair: &[u8]| {
        (b" \\".contains(&pair[1]) || pair[1] > 127) && b"0123456789)}]$%".contains(&pair[0])
    };
    let may_be = text.len() <= MAX_BYTES && text.as_bytes().windows(2).any(ends);
    may_be.then_some(())?;
    // A word between blanks or in `\text{}`, with the character before it and those behind it.
    let places = pattern!(&format!(
        r"(?P<before>[0-9)}}\]$%]) *(?:\\text\{{ ?(?P<text>{AND}|{OR}|{TIGHT_AND}|{TIGHT_OR}) ?\}} *|(?: +(?P<plain>{AND}|{OR}) +)|(?P<tight>{TIGHT_AND}|{TIGHT_OR}|比) *)(?P<behind>[$\\(\[{{]|[-−]?[0-9$\\]|(?:[A-Za-z](?:_\{{?\w+\}}?|[₀-₉])? *[=<>≤≥]))"
    ));
    let is_place = |found: &Captures<'_>| {
        let Some(plain) = found.name("plain") else { return true };
        // `2 e x = 5` is an equation; between formulas or equations a letter is a word, and before a sign without a
        // blank.
        let equations = text[..plain.start()].contains('=');
        let (before, behind) = (&found["before"], &found["behind"]);
        let is_formula = before == "$" && behind.starts_with(['$', '-']);
        plain.as_str().len() > 1 || is_formula || equations == behind.ends_with(['=', '<', '>'])
    };
    let mut out = String::new();
    let mut end = 0;
    for found in places.captures_iter(text).filter(is_place) {
        let word = found.name("text").or(found.name("plain")).or(found.name("tight"))?;
        let (before, behind) = (found.name("before")?, found.name("behind")?);
        let is_text = found.name("text").is_some();
        let is_and = is_one_of(word.as_str(), AND)
            || pattern!(&format!("^(?:{TIGHT_AND})")).is_match(word.as_str());
        let link = if word.as_str() == "比" {
            ":"
        } else if is_and {
            "and"
        } else {
            "or"
        };
        out.push_str(&text[end..before.end()]);
        out.push_str(&if is_text { format!("\\text{{ {link} }}") } else { format!(" {link} ") });
        end = behind.start();
    }
    out.push_str(&text[end..]);
    (end > 0).then_some(out)
}
