//! What the last sentence of a text without a mark says beside its last value: how many there are of a list, the value
//! that is then given in another unit or rounded, the one whose place is named, the one of two that is not rejected.

use super::super::super::tail;
use super::super::read::{restated, rounds};
use super::super::scan::{begins, behind_last, each, has_digits, holds, pattern};
use super::super::standing::{denies, is_bound, is_doubted, is_unstated};
use super::numbers::is_label;
use super::{MAX_WHOLE, is_value, last_sentence, offset_in};

/// Leads from a value to the same in another form.
const LINKS: &str =
    ", or |, i.e. |, i.e., |, that is |, that is, |, approximately |, about |, roughly | (";
/// Words before a value that is rounded.
const ROUNDED: &str = "approximately |about |around |roughly ";
/// Most words of a value.
const MAX_WORDS: usize = 4;

/// The count of a list of as many members, and the value that the last sentence of a text gives once more.
pub(in super::super) fn also_stated(text: &str) -> Option<String> {
    let text = text.trim_end();
    let last = last_sentence(text.lines().next_back().unwrap_or(text));
    let last = last.trim_end_matches(['.', '!', ' ', '*']);
    (last.len() <= MAX_WHOLE).then_some(())?;
    count(last).map(str::to_owned).or_else(|| each(LINKS).find_map(|link| given_again(last, link)))
}

/// 4 of "There are 4 such integers: 2, 3, 5, and 7".
fn count(last: &str) -> Option<&str> {
    let counted = pattern!(
        r"(?i)\b([0-9]+|two|three|four|five|six|seven|eight|nine|ten|twelve)(?: [a-z][a-z-]*){0,4}(:|,(?: namely)?| namely) (.+)$"
    );
    let found = counted.captures(last)?;
    let (number, link, list) = (found.get(1)?.as_str(), &found[2], &found[3]);
    let before = &last[..offset_in(last, number)];
    let is_bare = last[before.len() + number.len()..].starts_with([':', ',']);
    // "4, 1, 2, 3, 4" is a list.
    // "The mean of the three numbers: 4, 5, 9"
    let is_part = [" of", " of the", " of these"].iter().any(|of| before.trim_end().ends_with(of));
    let may_be = !is_part && !is_bare || link == ":" && holds(before, " is | are | be ");
    let is_stated =
        may_be && !is_label(before) && !is_unstated(before, "") && !is_bound(before, "");
    let plain = list.replace(" and ", ", ").replace(['$', '*', '\\'], "");
    let (mut depth, mut members) = (0_i32, 0);
    for part in plain.split(',') {
        let is_first = depth == 0 && !part.trim().is_empty();
        depth += part.matches(['(', '{', '[']).count() as i32
            - part.matches([')', '}', ']']).count() as i32;
        let signs = part.contains('±') || part.contains("pm");
        members += u64::from(is_first) * (1 + u64::from(signs));
    }
    let words = plain.split(|c: char| !c.is_alphabetic());
    let is_list = words.into_iter().all(|word| word.len() < 3 || holds(word, "frac|sqrt"));
    let counts = super::super::spelled::number_word(number) == i64::try_from(members).ok();
    (is_stated && is_list && members > 1 && has_digits(list) && counts).then_some(number)
}

/// 160 minutes of "It takes 160 minutes, or 2 hours and 40 minutes", and `6\sqrt2` of `$6\sqrt2$, or about 8.49`.
fn given_again(last: &str, link: &'static str) -> Option<String> {
    let (before, again) = last.split_once(link)?;
    let again = again.strip_suffix(')').unwrap_or(again);
    let again = again.split(", ").next().unwrap_or(again);
    let bare = each(ROUNDED).fold(again, |text, word| text.strip_prefix(word).unwrap_or(text));
    let is_rounded = bare.len() < again.len() || begins(&link[2..], ROUNDED);
    let starts = before.rmatch_indices(' ').take(MAX_WORDS).map(|(at, _)| at + 1);
    let is_same = |value: &str| match is_rounded {
        true => is_value(bare) && rounds(&format!("{value} ≈ {bare}")),
        false => restated(&format!("{value}, i.e. {bare}")).is_some(),
    };
    let mut values = starts.chain([0]).map(|at| before.split_at(at));
    let found = values.find(|(lead, value)| {
        let is_number = has_digits(value) || value.contains('-');
        let is_stated = !is_unstated(lead, "") && !is_bound(lead, "") && !is_doubted(lead);
        is_number && is_value(value) && is_stated && !lead.starts_with("If ") && is_same(value)
    });
    found.map(|(_, value)| value.to_owned())
}

/// The other of two values of which the end of a text rejects one: 5 of "x = 5 or x = -2. We reject -2."
pub(super) fn kept(text: &str) -> Option<&str> {
    let rejected = pattern!(
        r"([-−]?[0-9]+(?:[./][0-9]+)?)[$]?,? or [$]?(?:[a-z] ?= ?)?([-−]?[0-9]+(?:[./][0-9]+)?)[$]?[,.; ][^0-9]*?([-−]?[0-9]+(?:[./][0-9]+)?)([^0-9]*)$"
    );
    let end = Some(tail(text, MAX_WHOLE)).filter(|end| holds(end, " or "))?;
    let found = rejected.captures(end)?;
    let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
    let (value, behind) = (part(3), part(4));
    // "and 3 is not negative" rejects nothing.
    let is_out = denies(behind)
        && (!behind.contains(" not ") || holds(behind, "valid|possible|solution|allowed|work"));
    let is_rejected = is_doubted(&text[..offset_in(text, value)]) || is_out;
    let other = if value == part(1) { part(2) } else { part(1) };
    (is_rejected && (value == part(1)) != (value == part(2))).then_some(other)
}

/// A text up to the place where the extreme value before it is attained: "The maximum is 12, attained at x = 3".
pub(super) fn without_place(text: &str) -> &str {
    let place = pattern!(
        r"(?i),? (?:(?:which )?(?:is )?(?:attained|achieved|reached|obtained|occurs|occurring) (?:only )?(?:at|when|for|if|iff|by)\b|with equality\b|\(?(?:at|when|for) [$]?[a-z](?: ?= ?[a-z])* ?=)"
    );
    const EXTREMES: &str = "max|min|reatest|least|argest|mallest|ighest|owest";
    let line = text.lines().next_back().unwrap_or(text);
    let last = last_sentence(line);
    let is_extreme = last.len() <= MAX_WHOLE && holds(&last.to_lowercase(), EXTREMES);
    let Some(found) = is_extreme.then(|| place.find(last)).flatten() else { return text };
    let lead = &last[..found.start()];
    let value =
        behind_last(lead, " is | of |: |:|= |=").map(|at| lead[at..].trim_matches(['*', ' ']));
    let is_last = !holds(&last[found.end()..], " is | equals | gives | so |, the ");
    let is_place = is_last && value.is_some_and(|value| has_digits(value) && is_value(value));
    if is_place { &text[..offset_in(text, last) + found.start()] } else { text }
}
