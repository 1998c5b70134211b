//! What a sentence without a mark concludes with beside numbers: a name, a date, a choice, a ratio, no solution.

use super::super::alphabet::is_function;
use super::super::calendar::{date, same_date};
use super::super::languages::{CONSEQUENCES, no_solution};
use super::super::scan::{
    are_digits, before_end, begins, behind_last, each, has_digits, holds, is_digit, is_letter,
    is_one_of, past, pattern, without,
};
use super::super::spelled::spelled;
use super::super::standing::{is_doubted, is_unstated, without_reason};
use super::super::words;
use super::super::{Outcome, equality};
use super::sentences::{ABOUT, REFUSED, is_open};
use super::{MAX_WHOLE, is_value, offset_in};

/// The ratio that a sentence ends with: `five to four` of "They are in the ratio five to four".
pub(super) fn ratio(last: &str) -> Option<&str> {
    let (before, tail) = last.rsplit_once(" ratio ")?;
    let tail = past(tail, "of |is ").unwrap_or(tail);
    (is_value(tail) && !is_unstated(before, "")).then_some(tail)
}

/// The words for no solution that a sentence concludes with: "They are parallel, so the system has no solution."
pub(super) fn without_solution(last: &str) -> Option<&str> {
    let last = last.trim_end_matches('。');
    let start = no_solution(last)?;
    let (before, words) = last.split_at(start);
    let clause = &before[behind_last(before, CONSEQUENCES).unwrap_or(0)..];
    let is_all = before.ends_with(", ") || !has_digits(clause);
    (is_all && !is_doubted(clause) && !is_open(clause)).then_some(words)
}

/// The last of several statements about one letter: `x = 3 or x = -3` of `x^2 = 9, so x = 3 or x = -3`; or the only one
/// behind words: "Also gilt 2 ≤ x ≤ 5."
pub(super) fn solved(text: &str) -> Option<&str> {
    const LINKS: &str = ", |; |⇒|⟹|⇔|⟺|→|=> |<=> |-> |\\Rightarrow |\\implies |\n|，|；|得";
    let text = text.trim_end_matches(['.', '。', ' ', '$']);
    let links = if text.len() <= MAX_WHOLE { behind_last(text, LINKS) } else { None };
    let start = links.unwrap_or(0);
    let tail = statement(&text[start..]);
    let name = unknown(tail).filter(|_| !tail.contains('$') && is_value(tail))?;
    let is_open = |part: &str, statement: &str| {
        let words = &text[offset_in(text, part)..offset_in(text, statement)];
        is_open(words) || is_doubted(words) || is_unstated(words, "")
    };
    let mut is_unsolved = start == 0 && tail.len() < text.len();
    let mut parts = vec![&text[..start]];
    for link in each(LINKS) {
        parts = parts.into_iter().flat_map(|part| part.split(link)).collect();
    }
    for (whole, part) in parts.into_iter().map(|part| (part, statement(part))) {
        if part.is_empty() {
            continue;
        }
        let is_known = match unknown(part) {
            Some(letter) => {
                let is_again = || equality::compared(part, tail).0 == Outcome::Correct;
                letter == name && (part.contains('≠') || is_again())
            }
            None => part.contains(RELATIONS) && part.contains(name),
        };
        (is_known && is_value(part) && !is_open(whole, part)).then_some(())?;
        is_unsolved |= unknown(part).is_none() || part.contains('≠');
    }
    (is_unsolved && !is_open(&text[start..], tail)).then_some(tail)
}

/// A statement without the words before it, in any language.
fn statement(text: &str) -> &str {
    let text = text.rsplit(": ").next().unwrap_or(text).trim();
    let mut rest = text.trim_start_matches(|c: char| c.is_alphabetic() && !c.is_ascii());
    while let Some((word, behind)) = rest.split_once(' ')
        && word.chars().count() > 1
        && word.chars().all(char::is_alphabetic)
        && !is_function(word)
    {
        rest = behind.trim_start();
    }
    rest
}

/// Signs between the sides of a statement.
const RELATIONS: [char; 6] = ['=', '<', '>', '≤', '≥', '≠'];

/// The letter that a statement is solved for: x of `x = 3` and `2 < x < 5`.
fn unknown(statement: &str) -> Option<&str> {
    let sides = statement.split(RELATIONS).map(str::trim).filter(|side| !side.is_empty());
    let is_name = |side: &str| matches!(side.as_bytes(), [byte] if byte.is_ascii_alphabetic());
    match sides.collect::<Vec<_>>()[..] {
        [name, _, ..] if is_name(name) => Some(name),
        [_, name, _] if is_name(name) => Some(name),
        _ => None,
    }
}

/// A sentence without the clause behind it that says why: "on Friday, because Thursday is a holiday".
pub(super) fn without_cause(last: &str) -> &str {
    let before = without_reason(last);
    let reason = last[before.len()..].trim_start_matches([',', ' ', ';']);
    if begins(reason, "because|since|as |for ") { before } else { last }
}

/// A sentence up to a clause or purpose whose numbers only say when, why or for what: "Alex has 70 left after giving 20
/// away", "He pays $64 for 16 glasses". None where what stands behind may conclude with another value.
pub(super) fn main_clause(last: &str) -> Option<&str> {
    const RESULTS: &str =
        "to find |to obtain |to give |to yield |to make |to be |to the |to a |to about |to one ";
    let clause = pattern!(
        r"(?x)\ (?:(after|before|when|whenever|if|given|because|since|while|although|compared|once|assuming|considering)\b
        |than\ [A-Z]\w*(?:['’]s|\ has|\ who|\ did)\ |for\ (?:(?:the|his|her|their|its|all|each\ of\ the)\ )?[0-9]
        |(?:over|with|from|across)\ (?:the|his|her|their|its)\s|by\ (?:the|\w+ing)\s|to\ (?:get\ to|[a-z]+)\s
        |(?:selling|buying|working|eating|using|paying|running|reading|driving|baking)\s)"
    );
    let concluding = pattern!(
        r"(?xi)[=:;]|,\ \D|\b(?:but|or|totals?|totall?ing|altogether|leav(?:es|ing)
        |and\ (?:then\ |now\ |the\ |so\ )?(?:has|have|is|are|had|ends|gets?|it|[0-9]+\ (?:if|when|for|after)))\b"
    );
    let stated =
        pattern!(r"\b(?:is|are|was|were|makes?|gives?|equals?|gets?|so|to be|he|she|they|we|it)\b");
    let opening = pattern!(
        r"(?xi)^(?:(?:so|thus|hence|therefore),?\ )?(?:if|when|after|before|for|with|since|given|out|of|because|by|from|to
        |as|in|at|while|starting|let|suppose|using|multiply|add|divide|subtract)\b"
    );
    let first = last.find(is_digit).filter(|_| !last.contains(['=', '\\', '/']))?;
    let found = clause.captures_at(last, first)?;
    let (main, rest) = last.split_at(found.get(0)?.start());
    let (is_conjunction, link) = (found.get(1).is_some(), &rest[1..]);
    let is_result = begins(link, RESULTS)
        || begins(link, "to get ") && !begins(link, "to get to ")
        || begins(link, "to ") && main.contains(" from ");
    // "16 glasses for $64"
    let is_price =
        begins(link, "for $") || begins(link, "for ") && holds(link, " dollars| euros| cents");
    // "In conclusion, she pays $64"
    let lead = last[..first].rsplit(", ").next().unwrap_or(last);
    (has_digits(rest)
        && last[..first].contains(' ')
        && (is_conjunction || !stated.is_match(rest))
        && !is_result
        && (main.contains('$') || !is_price)
        && !(main.ends_with(" left") && begins(link, "with |over "))
        // "divisible by the", "reduced by the"
        && !(before_end(main, "ible|ed").is_some() && begins(link, "by "))
        && !concluding.is_match(rest)
        && !opening.is_match(lead)
        && !holds(main, " would | could | might "))
    .then_some(main)
}

/// A sentence behind a clause with numbers of its own: "Since there are 7 days in a week, she reads 140 pages a week."
pub(super) fn behind_condition(last: &str) -> Option<&str> {
    let opening = pattern!(
        r"(?i)^\**(?:(?:so|thus|hence|now),? )?(?:since|because|as|given that|if|after|when|while|once) [^=$\\,]*?[0-9][^=$\\,]*?, (then )?"
    );
    let clause = opening.captures(last).filter(|_| last.len() <= MAX_WHOLE)?;
    let main = &last[clause[0].len()..];
    let is_clause = main.starts_with(char::is_alphabetic)
        && !begins(main, "and |or |but |which |who |not |where |of ")
        || clause.get(1).is_some()
        || pattern!("^[0-9]+ [a-z]+ [a-z]+ [^,]*$").is_match(main);
    (is_clause && has_digits(main)).then_some(main)
}

/// What the last of several steps of a calculation comes to: 24 of `6*3 = 18; 18+6 = 24`; `x = 1 and x = 2` is a list.
pub(super) fn last_step(text: &str) -> Option<&str> {
    let step = pattern!(
        r"^(?:[A-Z][a-z ]*: |So |Then |Now )?[^=A-Za-z]*[0-9][^=A-Za-z]*(?:[-+*/×÷−]| x | of )(?:[^=A-Za-z]| x )*=([^=]+)$"
    );
    (text.len() <= MAX_WHOLE && text.contains('=')).then_some(())?;
    let steps = pattern!(r"; ?|\n|, (?:and )?| and |\. ").split(text.trim_end_matches('.'));
    let result = |part| Some(step.captures(part)?.get(1)?.as_str().trim());
    let results: Vec<&str> = steps.map(result).collect::<Option<_>>()?;
    let are_values = results.iter().all(|result| has_digits(result) && is_value(result));
    results.last().copied().filter(|_| results.len() > 1 && are_values)
}

/// Links to a name that the numbers before it do not answer for: "100 days on we land on a Saturday".
const CONCLUDING: &str = " land on | lands on | falls on | fall on | must be | must have been | has to be | can only be ";

/// The date, choice or name at the end of a sentence: Thursday of "So it is Thursday".
pub(super) fn named(last: &str) -> Option<&str> {
    let last = without_cause(last);
    const LINKS: &str = " is | was | on | in other words | i.e. | namely ";
    let links = each(LINKS).chain(each(CONCLUDING));
    let starts = links.filter_map(|link| Some((last.rfind(link)? + link.len(), link)));
    let longest = starts.max_by_key(|(start, link)| (*start, link.len()));
    let (start, link) = longest.or(last.starts_with("on ").then_some((0, " on ")))?;
    let concludes = is_one_of(link, CONCLUDING);
    let tail = each("the |on |a |an ").fold(&last[start..], without);
    let (before, is_date) = (&last[..start], same_date(tail, tail).is_some());
    // "He sold 60 boxes on Saturday."
    let has_value =
        link != " is " && !concludes && before.contains(|c: char| c.is_ascii_digit() || c == '$');
    let is_refused = || words::is_choice(tail) && holds(&before.to_lowercase(), REFUSED);
    if is_unstated(before, "")
        || is_refused()
        || has_value
        || is_open(before) && (link != " is " || is_date)
    {
        return None;
    }
    if link.len() > 5 && !concludes && tail.chars().all(char::is_alphabetic) || is_date {
        return Some(tail);
    }
    (link == " is " || concludes).then_some(())?;
    let is_word = || {
        tail.starts_with(char::is_uppercase)
            && tail.chars().all(char::is_alphabetic)
            && !is_open(last)
            && !is_one_of(&tail.to_lowercase(), ABOUT)
    };
    let is_number = || tail != "one" && spelled(tail).is_some();
    (words::is_choice(tail) || is_word() || is_number()).then_some(tail)
}

/// The letter of a choice at the end of a sentence, in several languages: A of "Richtig ist A".
pub(super) fn chosen(last: &str) -> Option<&str> {
    const VERBS: &str = " is| ist| es| est| è| é| is de| ist die| es la| est la| è la| é a| jest| это|是|为| adalah| antwort|\
        ответ| ответ —| option| opción| opção| alternativa";
    let (before, letter) = last.rsplit_once([' ', '是', '为'])?;
    let letter = letter.trim_matches(['(', ')', '*', '。']);
    let verb = &last[..offset_in(last, letter)];
    let small = before.to_lowercase();
    let is_verb = before_end(verb.trim_end_matches(['(', '*', ' ']), VERBS).is_some()
        || before_end(&small, VERBS).is_some();
    let is_refused = || is_open(before) || holds(&small, REFUSED) || is_unstated(verb, "");
    (is_letter(letter) && is_verb && !is_refused()).then_some(letter)
}

/// What a sentence concludes with though numbers stand before: a name behind "must be", a date, a set in words, circled
/// numbers.
pub(super) fn concluded(last: &str) -> Option<&str> {
    let bare = without_cause(last).trim_end_matches('。');
    if holds(bare, CONCLUDING)
        && let Some(name) = named(bare).filter(|name| !has_digits(name) && spelled(name).is_none())
    {
        return Some(name);
    }
    let circled =
        bare.trim_end_matches(|c: char| ('①'..='⑳').contains(&c) || "、，, 和".contains(c));
    let numbers = bare[circled.len()..].trim_start_matches(|c: char| !('①'..='⑳').contains(&c));
    if circled.ends_with(['是', '为', '：']) && !numbers.is_empty() {
        return Some(numbers);
    }
    // "due on October 3rd", "the range consists of all positive real numbers"
    let starts = bare.rmatch_indices(' ').take(6).map(|(at, _)| &bare[at + 1..]);
    let mut tails = starts.filter(|tail| {
        let is_date = || date(tail).is_some() && !are_digits(tail);
        tail.starts_with("all ") && is_value(tail)
            || is_date() && !has_digits(&bare[..offset_in(bare, tail)])
    });
    let tail = tails.by_ref().last()?;
    (!is_unstated(&bare[..offset_in(bare, tail)], "")).then_some(tail)
}

/// The residue of "n must be congruent to 7 modulo 12".
pub(super) fn residue(last: &str) -> Option<&str> {
    let (before, rest) = last.rsplit_once("congruent to ")?;
    let (number, modulus) = rest.split_once(" modulo ").or_else(|| rest.split_once(" mod "))?;
    let are_numbers = are_digits(number.trim_start_matches('-')) && are_digits(modulus);
    (are_numbers && !is_unstated(before, "")).then_some(rest)
}
