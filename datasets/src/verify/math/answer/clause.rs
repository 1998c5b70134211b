//! The answer at the beginning of a clause, and the remark after it: 42 of "42, which is 6 times 7".
//!
//! A clause that goes on with "or", "and" or a comma before another value is one answer as a whole: a model that lists
//! two guesses has given neither.

use super::super::calendar::date;
use super::super::foreign::foreign_number;
use super::super::names::assignments;
use super::super::read::{parse, restated};
use super::super::scan::{
    before_end, begins, behind_last, each, has_digits, holds, is_digit, is_letter, is_one_of, past,
    strip_prefix, without,
};
use super::super::standing::{self, offers, without_reason};
use super::super::tree::Answer;
use super::super::words::{is_choice, opening};
use super::courtesy::is_broken;
use super::formula::closing;
use super::numbers::{first_number, formula_at, only_value, with_unit};
use super::remarks::{goes_on, is_range, remarks, trimmed};
use super::restated::without_place;
use super::sentences::choice;
use super::{MAX_LINE, is_answer, is_integer, is_placeholder, is_value, offset_in};

/// Words before an answer that say nothing of it.
const FILLERS: &str = "therefore|thus|so|then|hence|indeed|simply|just|exactly|precisely|approximately|approx.|about|roughly|\
    around|a total of|equal to|equals|given by|found to be|clearly|actually|as follows|that|the number|\
    the value|\
    donc|alors|ainsi|also|daher|folglich|somit|entonces|por lo tanto|por tanto|portanto|logo|quindi|dunque|dus|zatem|jadi";

/// What the text behind "the answer is" states: its first complete expression, or else the clause as it is.
pub(super) fn stated(text: &str) -> Option<&str> {
    let is_numbered = text.trim_start().starts_with("1. ") && text.contains("\n2. ");
    if is_numbered || text.contains('\n') && assignments(text.trim()).is_some() {
        return Some(text.trim());
    }
    let clause = without_place(clause(text));
    // `\boxed{\frac12`: the brace may be forgotten.
    let open = clause.find("\\boxed{").map(|at| &clause[at + 7..]);
    let clause = open.filter(|inner| closing(inner).is_none()).unwrap_or(clause);
    (!clause.is_empty() && !is_placeholder(clause) && !is_broken(clause)).then_some(())?;
    if let Some(value) = corrected(clause) {
        return Some(value);
    }
    if is_related(clause) {
        return Some(clause);
    }
    if is_integer(clause)
        || date(clause).is_some()
        || opening(clause).is_some() && comes_to(clause).is_none()
        || assignments(clause).is_some()
    {
        return Some(clause);
    }
    // "一共需要三十六天", "B选项"
    if !clause.is_ascii() && !has_digits(clause) {
        let letter = clause.strip_suffix("选项").or(clause.strip_suffix('项'));
        let number =
            || foreign_number(clause).filter(|number| number.starts_with(|c: char| c > '\u{2e80}'));
        if let Some(value) = letter.filter(|letter| is_letter(letter)).or_else(number) {
            return Some(value);
        }
    }
    // "k is -3", "the value of $k$ is -3"
    if let Some((name, value)) = clause.split_once(" is ")
        && first_number(name).is_none()
        && !standing::has_word(name, standing::SENTENCE | standing::VALUE)
        && let value = trimmed(value).trim_start_matches('*')
        && let Some(value) = expression(value).filter(|value| is_value(value))
    {
        return Some(value);
    }
    // "Since m = 11 and n = 7, m + n = 18", "the remainder when n is divided by 20 is 18"
    let reason =
        begins(clause, "Since |As |Because |With ").then(|| clause.rsplit_once(", ")).flatten();
    if let Some(value) = reason.and_then(|(_, rest)| stated(rest)).filter(|value| is_value(value)) {
        return Some(value);
    }
    if let Some((name, value)) = clause.rsplit_once(" is ")
        && clause.starts_with(char::is_alphabetic)
        && name.split(" is ").skip(1).all(|verb| verb.starts_with(|c: char| c.is_ascii_lowercase()))
        && !standing::has_word(name, standing::SENTENCE | standing::VALUE)
        && is_value(value)
    {
        return Some(value);
    }
    if let Some(value) = predicate(clause) {
        return Some(value);
    }
    // "choice C, which is 12"
    if let Some(letter) = choice(clause).filter(|_| {
        begins(clause, "choice|option|Choice|Option|statement|graph|Graph|Statement|figure|letter")
    }) {
        return Some(letter);
    }
    let only = || {
        let value = only_value(clause).or_else(|| foreign_number(clause))?;
        Some(with_unit(clause, value))
    };
    let is_operation = || standing::is_operation(clause);
    let found = comes_to(clause)
        .or_else(|| remaining(clause))
        .or_else(|| expression(clause))
        // `B) 12`: the letter of a choice and its text.
        .or_else(|| is_choice(clause).then_some(clause))
        .or_else(|| result(clause))
        // "The answer is that she has 12 eggs": the only value.
        .or_else(|| if is_operation() { None } else { only() });
    Some(found.unwrap_or(clause))
}

/// The value that a clause of another language says of its subject: "la vitesse moyenne est de 45 km/h".
fn predicate(clause: &str) -> Option<&str> {
    const VERBS: &str = " est de | est d'| est égale à | est égal à | est | es de | es igual a | es | è di | è uguale a | è pari a | è | é \
        de | é igual a | é | ist gleich | ist | beträgt | равна | равно | равен | составляет | wynosi | bedraagt ";
    let (subject, value) = clause.split_at(behind_last(clause, VERBS)?);
    let value = trimmed(value);
    let is_denied =
        standing::is_unstated(subject, "") || holds(subject, " no | non | não | nicht | не ");
    let is_plain = clause.starts_with(char::is_alphabetic) && has_digits(value);
    (is_plain && !is_denied && is_value(value) && is_answer(value)).then_some(value)
}

/// Leads from a calculation in words to what it comes to, and from a value to the same in another unit.
const RESULTS: &str = ", for a total of |, giving a total of |, which is |, which makes |, which gives |, which equals |, which comes to |, which means |\
    , which rounds to |, namely |, so |, or |, therefore |，即|，也就是|，等于|, that is, |, i.e., |, i.e. ";

/// What a calculation in words, or several numbers, are said to come to: 42 of "6 bags of 7, which is 42 apples".
pub(super) fn comes_to(clause: &str) -> Option<&str> {
    holds(clause, RESULTS).then_some(())?;
    let found = each(RESULTS).filter_map(|link| Some((clause.rfind(link)?, link)));
    let (at, link) = found.max()?;
    let (working, result) = (&clause[..at], &clause[at + link.len()..]);
    let is_restated = link.starts_with(", i") || link.starts_with(", t") || link.ends_with("to ");
    let is_choice = link == ", or ";
    let is_operation =
        |word: &str| is_one_of(word, "times|plus|minus|multiplied|divided|*|+|x|×|/|-");
    let is_calculation =
        || !is_choice && !working.contains('=') && working.split_whitespace().any(is_operation);
    if standing::is_operation(working) || is_calculation() {
        return stated(result).filter(|value| has_digits(value));
    }
    // `$1.20, i.e. 120 cents`
    if is_restated && restated(clause).is_some() {
        return None;
    }
    let bare = result.trim_start_matches(['$', '\\']);
    // "Tom has 7 apples and gives away 3, so he has 4"
    let is_sentence = bare.starts_with(char::is_alphabetic) && !bare.contains(['=', '*', '/', '+']);
    if link.ends_with("so ") && is_sentence && has_digits(working) {
        return only_value(bare);
    }
    let number = first_number(bare).filter(|number| bare.starts_with(*number) && !is_choice)?;
    let others = &bare[number.len()..];
    let is_plain = first_number(others).is_none() && !holds(others, "more|less|fewer|times|%");
    let mut numbers = working.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let is_sentence = working.starts_with(char::is_alphabetic)
        && !is_value(working)
        && (!working.contains('=') || link == ", namely ");
    let is_named = working.ends_with(char::is_alphabetic) && !is_one_case(working);
    let is_working = numbers.nth(1).is_some()
        || is_sentence
        || is_restated && (is_named || link.ends_with("to "));
    (is_plain && is_working).then(|| stated(result))?.filter(|value| has_digits(value))
}

/// The value that corrects the one before it in its clause: 24 of "12, I mean 24".
fn corrected(clause: &str) -> Option<&str> {
    const LINKS: &str = "i mean|sorry|er|um|uh|no|wait|oops|actually|correction|make that|or rather|rather|\
    scratch that";
    (clause.len() <= MAX_LINE).then_some(())?;
    let (first, rest) =
        clause.split_once([',', '—', '–', '.', ';']).or_else(|| clause.split_once(" - "))?;
    let rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
    let link =
        each(LINKS).filter_map(|link| strip_prefix(rest, link)).min_by_key(|rest| rest.len())?;
    let again = link.trim_start_matches([',', ':', ' ']);
    (again.len() < link.len() && is_value(first))
        .then(|| stated(again))
        .flatten()
        .filter(|value| is_value(value))
}

/// What is left of several choices: D of "rules out C, leaving D".
pub(super) fn remaining(clause: &str) -> Option<&str> {
    let whole = trimmed(clause);
    let clause = Some(whole)
        .filter(|whole| whole.contains(", which leaves "))
        .unwrap_or_else(|| without_reason(whole));
    let links = "Therefore |Thus |So |Hence |Therefore, |Thus, |So, |Hence, ";
    let linked = past(clause, links).unwrap_or(clause);
    let it_is = without(linked, "It's |It is |it's |it is ");
    let bare = Some(it_is)
        .filter(|bare| bare.len() < clause.len())
        .map(|rest| rest.trim_matches(['(', ')', '*', '$']));
    if bare.is_some_and(is_letter) {
        return bare;
    }
    if let Some(before) = clause.strip_suffix(" remains") {
        let letter = before.rsplit(' ').next().unwrap_or(before).trim_matches(['(', ')', '*']);
        return is_letter(letter).then_some(letter);
    }
    const LINKS: &str = "leaving |leaves |left with |only remaining option is |, so |hence |therefore |, thus |, but ";
    const LEADS: &str = "us with |only |just |it must be |it is |option |choice |answer ";
    let rest = trimmed(&clause[behind_last(clause, LINKS)?..]);
    let rest = each(LEADS).fold(rest, without);
    let letter = rest.trim_matches(['(', ')', '*', '$']);
    is_letter(letter).then_some(letter)
}

/// What a calculation with words comes to: 20% of `90 minutes / 450 minutes * 100% = 20%`.
fn result(clause: &str) -> Option<&str> {
    let (working, result) = clause.rsplit_once('=')?;
    // `28 days / 7 = <<28/7=4>>4 weeks`
    let result = trimmed(result.rsplit(">>").next().unwrap_or(result));
    let is_relation = working.ends_with(['!', '<', '>', ':', '\\']);
    let is_hedged = standing::has_word(working, standing::VALUE);
    let is_list = working.contains([',', ';']) || holds(working, " such that | where | at ");
    (!is_relation && !is_hedged && !is_list && is_value(result) && is_answer(result))
        .then_some(result)
}

/// Whether a clause is what a value is related to, "< 5", "≠ 5", and as a whole; `<5>` is a value in brackets.
pub(super) fn is_related(clause: &str) -> bool {
    const RELATIONS: &str = "<|>|≤|≥|\\le |\\ge |\\leq|\\geq|\\lt|\\gt|\\ne |\\neq|≠|!|¬|=/=|=\\=|\\not|∉|≯|≮|&lt;|&gt;|&le;|&ge;|&ne;";
    let bare = clause.trim_start_matches(['$', '*', ' ']);
    begins(bare, RELATIONS)
        && (!bare.starts_with('<') || bare.starts_with("<>") || !bare.contains('>'))
}

/// The answer that a line begins with; none where it begins with words.
pub(super) fn leading(text: &str) -> Option<&str> {
    let clause = clause(text);
    if is_related(clause) {
        return Some(clause);
    }
    let begins_as_math = clause.starts_with(|c: char| !c.is_alphabetic())
        || is_value(clause.split_whitespace().next().unwrap_or_default());
    (begins_as_math && clause.len() <= MAX_LINE && !is_placeholder(clause)).then_some(())?;
    expression(clause)
}

/// The first sentence of a text without words in front that say nothing.
fn clause(text: &str) -> &str {
    let is_edge = |c: char| c.is_whitespace() || "*:：_`\"'“”‘’}".contains(c);
    let mut rest = text.trim_start_matches(is_edge);
    for _ in 0..4 {
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        let Some(next) = FILLERS.split('|').find_map(|filler| {
            let next = strip_prefix(rest, filler)?;
            (next.starts_with([' ', ',', ':']) && !next.starts_with(" of ")).then_some(next)
        }) else {
            break;
        };
        rest = next.trim_start_matches(|c: char| is_edge(c) || c == ',');
    }
    let rest = sentence(rest);
    // `\text{The answer is circle}`
    let rest = closing(rest).map_or(rest, |at| &rest[..at]);
    let rest = before_end(rest, "입니다|이다|です").unwrap_or(rest);
    // `{'answer': '18'}`, `‘5’`
    let is_quoted = rest.starts_with('\'') || text[..offset_in(text, rest)].ends_with(['\'', '‘']);
    let rest = if is_quoted { rest.trim_matches(['\'', '’', '}', ' ']) } else { rest };
    trimmed(rest)
}

/// Up to the end of the first sentence; a formula ends none.
fn sentence(text: &str) -> &str {
    let is_end = |(at, c): &(usize, char)| {
        let next = text[at + c.len_utf8()..].chars().next();
        match c {
            '.' | '!' | '?' => {
                let is_hedged = text[at + 1..].trim_start().starts_with("Or ");
                let goes_on = text[..*at].ends_with('.') && !text[..*at].ends_with("...");
                next.is_none_or(|next| next.is_whitespace() || "\"”".contains(next))
                    && !is_factorial(text, *at)
                    && !is_hedged
                    && !goes_on
                    && !is_shortened(&text[..*at], text[at + 1..].trim_start())
            }
            '。' | '！' | '？' | '\n' => true,
            _ => false,
        }
    };
    let end = text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at);
    let sentence = &text[..end];
    // `$1, 2. $`: the end stands in a formula.
    let is_open = sentence.matches('$').count() % 2 == 1;
    let rest = if is_open { text.lines().next().unwrap_or_default() } else { sentence };
    rest.split("I hope it is").next().unwrap_or(rest)
}

/// Whether a point only shortens a word of a quantity: `Rs. 1200`, `48 sq. cm`, `2,4 Mio. Euro`.
fn is_shortened(before: &str, after: &str) -> bool {
    let word = before.rsplit(' ').next().unwrap_or(before);
    matches!(word, "i.e" | "e.g")
        || word == "Rs" && after.starts_with(is_digit)
        || is_one_of(word, "кв|куб|sq|cu|Mio|Mrd|тыс|млн|млрд")
            && after.starts_with(char::is_alphabetic)
}

/// Whether an exclamation mark goes on as mathematics: `3! = 6`.
fn is_factorial(text: &str, at: usize) -> bool {
    let next = text[at + 1..].trim_start();
    let is_count =
        text[..at].ends_with(is_digit) && next.starts_with(|c: char| c.is_ascii_lowercase());
    text[at..].starts_with('!')
        && (is_count || next.starts_with(['=', '+', '-', '*', '/', '\\', '<', '>', '$', '^', ')']))
}

/// The first complete expression of a clause; none where the clause goes on with another value, or makes its number
/// another one.
fn expression(clause: &str) -> Option<&str> {
    let number = clause
        .trim_start_matches(['-', '$', '(', '\\'])
        .trim_start_matches(|c: char| is_digit(c) || ".,".contains(c));
    let number = number.trim_start_matches(['$', ')', '%', '°', '*']);
    let end = standing::altered(number).map_or(0, |end| clause.len() - number.len() + end);
    // "12 ≈ 15" is read as a whole or not at all.
    let is_whole = |found: &&str| {
        let found = found.trim_end_matches(['≈', ' ']);
        let rest = &clause[offset_in(clause, found) + found.len()..];
        let again = past(rest.trim_start_matches(['$', ' ']), "≈|\\approx").and_then(first_number);
        again.is_none_or(|again| parse(&format!("{found} ≈ {again}")).is_some())
    };
    first_expression(clause)
        .filter(|found| offset_in(clause, found) > 0 || found.len() >= end.min(clause.len()))
        .filter(is_whole)
}

fn first_expression(clause: &str) -> Option<&str> {
    (!standing::is_operation(clause)).then_some(())?;
    let formula = formula_at(clause).filter(|(_, rest)| begins(rest, " when | where "));
    if let Some((formula, _)) =
        formula.filter(|(formula, rest)| is_answer(formula) && !offers(rest))
    {
        return Some(formula);
    }
    if is_value(clause) && is_answer(clause) && !is_one_case(clause) {
        return Some(clause);
    }
    // "42 apples per tree that bears any": words that are no unit may follow.
    let ends = clause.match_indices(' ').map(|(at, _)| at).take(8).collect::<Vec<_>>();
    let begins_as_value = clause.starts_with(|c: char| !c.is_alphabetic());
    let value = ends.iter().find(|at| begins_as_value && is_value(&clause[..**at]));
    value.is_none_or(|at| !offers(&clause[*at..])).then_some(())?;
    let remark = remarks(clause)
        .filter(|at| !offers(&clause[*at..]))
        .map(|at| trimmed(&clause[..at]))
        .find(|before| is_answer(before));
    if remark.is_some() {
        return remark;
    }
    if is_answer(clause) {
        return Some(clause);
    }
    if let Some((formula, rest)) = formula_at(clause) {
        return (is_answer(formula) && !goes_on(rest)).then_some(formula);
    }
    value.is_some_and(|at| !goes_on(&clause[*at..])).then_some(())?;
    ends.into_iter()
        .rev()
        .map(|at| (trimmed(&clause[..at]), &clause[at..]))
        .find(|(before, rest)| is_value(before) && !goes_on(rest) && !is_range(rest))
        .map(|(before, _)| before)
}

/// Whether a clause is a value and a condition, `42 when x = 7`: of a piecewise function there are several.
fn is_one_case(clause: &str) -> bool {
    clause.contains([' ', '\\'])
        && matches!(parse(clause), Some(Answer::Cases(pieces)) if pieces.len() == 1)
}
