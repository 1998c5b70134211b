//! Which words of a completion are its answer: one order of rules, each a function that returns a part of the text.
//!
//! 1. `scope` leaves out thoughts, text after an end token, and a next question after the answer.
//! 2. The last of the explicit marks: a box, a tag, `####`, "final answer is".
//! 3. "answer is", "answer:".
//! 4. In the flexible mode only: the whole text, the conclusion of the last sentence, the last value, a few words.
//!
//! Every scan is linear, and no rule reads more than the last 64 KB.

mod boxes;
mod clause;
mod concluded;
mod courtesy;
mod endings;
mod flexible;
mod formula;
pub mod found;
mod marks;
pub(super) mod numbers;
mod parts;
mod phrase;
mod remarks;
mod restated;
mod scope;
mod sentences;

use super::scan::{are_digits, begins, has_digits, holds, is_one_of, pattern, without};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;

use memchr::memchr2_iter;
use regex::Captures;

use super::Mode;
use super::alphabet::digit;
use super::read::parse;
use super::tree::Answer;
pub(super) use boxes::all_boxes;
pub(crate) use boxes::last_box;
pub(super) use courtesy::is_refusal;
pub(super) use flexible::answer as unmarked;
pub(crate) use formula::closing;
pub(super) use formula::left_side;
pub use found::{Found, Location, Rule};
pub(super) use parts::same_parts;
pub(super) use phrase::says_how;
pub(super) use restated::also_stated;
pub(super) use sentences::{REFUSED, last_sentence};

/// Words in the place of an answer that only stand for one.
const STAND_INS: &str = "answer|your answer|the answer|final answer|your final answer|the final answer|your answer \
    here|final answer here|answer here|insert answer here|ldots|dots|cdots|final result|result|the result|your result";

/// Longest text that may be an answer as a whole.
const MAX_WHOLE: usize = 300;
/// Longest part of a line that is read behind a mark.
const MAX_LINE: usize = 400;

/// The answer that a completion gives, and where; none where no rule of the mode finds one.
///
/// ```
/// use tealight_datasets::verify::math::{Mode, answer};
///
/// let text = "6 times 7 is \\boxed{42}, as wanted.";
/// let found = answer::find(text, Mode::Strict).expect("a box");
/// assert_eq!((&*found.text, found.rule), ("42", answer::Rule::Box));
/// assert_eq!(&text[found.span], "42");
/// ```
pub fn find<'a>(completion: &'a str, mode: Mode) -> Option<Found<'a>> {
    let Some(plain) = with_plain_digits(completion) else { return find_in(completion, mode) };
    // Character by character the same text: spans are counted in characters.
    let found = find_in(&plain, mode)?;
    let moved = |at: usize| {
        let count = plain[..at].chars().count();
        completion.char_indices().nth(count).map_or(completion.len(), |(at, _)| at)
    };
    let span = moved(found.span.start)..moved(found.span.end);
    Some(Found { text: Cow::Owned(found.text.into_owned()), span, rule: found.rule })
}

/// A text with the digits of other scripts as those of ASCII, raised and lowered text as in TeX, and without what is
/// struck out, `~~5~~`; none where it has nothing of these.
fn with_plain_digits(text: &str) -> Option<String> {
    if holds(text, "</sup>|</sub>|</b>") {
        // With as many characters.
        let text = text.replace("<sup>", "^{   ").replace("<sub>", "_{   ").replace("<b>", "   ");
        let text =
            text.replace("</sup>", "}     ").replace("</sub>", "}     ").replace("</b>", "    ");
        return Some(with_plain_digits(&text).unwrap_or(text));
    }
    if let Some(text) = without_comments(text) {
        return Some(with_plain_digits(&text).unwrap_or(text));
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, blanks, after)) = struck_out(rest) {
        out.push_str(before);
        out.extend(std::iter::repeat_n(' ', blanks));
        rest = after;
    }
    let is_struck = !out.is_empty();
    let plain = if is_struck { Cow::Owned(out + rest) } else { Cow::Borrowed(text) };
    let is_other = |c: char| digit(c).is_some_and(|c| c.is_ascii_digit() || c == '=');
    if plain.is_ascii() || !plain.chars().any(is_other) {
        return is_struck.then(|| plain.into_owned());
    }
    Some(plain.chars().map(|c| digit(c).unwrap_or(c)).collect())
}

/// A text without LaTeX's comments that name an answer, `% the answer is 42`, which nobody sees.
fn without_comments(text: &str) -> Option<String> {
    let comment =
        pattern!(r"(?m)(^ *|[.$] +)(% *(?:[Tt]he |[Ff]inal |[Cc]orrect )*[Aa]nswer\b[^\n]*)");
    let is_likely = memchr::memchr(b'%', text.as_bytes()).is_some() && comment.is_match(text);
    let blank = |found: &Captures<'_>| found[1].to_owned() + &" ".repeat(found[2].chars().count());
    is_likely.then(|| comment.replace_all(text, blank).into_owned())
}

/// What stands before the first text that is struck out, its characters with its marks, and what stands behind.
fn struck_out(text: &str) -> Option<(&str, usize, &str)> {
    const STRUCK: [(&str, &str); 4] =
        [("~~", "~~"), ("<s>", "</s>"), ("<del>", "</del>"), ("<!--", "-->")];
    let opened = |at: usize| {
        let may_be = matches!(text.as_bytes().get(at + 1), Some(b'~' | b's' | b'd' | b'!'));
        let marks = if may_be { &STRUCK[..] } else { &[] };
        marks.iter().find(|(open, _)| text[at..].starts_with(open))
    };
    let mut marks = memchr2_iter(b'~', b'<', text.as_bytes());
    let (at, (open, close)) = marks.find_map(|at| Some((at, opened(at)?)))?;
    let (before, rest) = (&text[..at], &text[at + open.len()..]);
    let (struck, after) = rest.split_once(close)?;
    let is_struck = (open != close || !struck.contains(['\n', ' ']))
        && !struck.is_empty()
        && !before.ends_with(char::is_alphanumeric);
    is_struck.then(|| (before, struck.chars().count() + open.len() + close.len(), after))
}

fn find_in<'a>(completion: &'a str, mode: Mode) -> Option<Found<'a>> {
    let text = scope::searched(completion);
    let offset = offset_in(completion, text);
    let moved = |found: Found<'a>| Found {
        span: found.span.start + offset..found.span.end + offset,
        ..found
    };
    (!is_broken_off(text)).then_some(())?;
    // A model without an end that answers at once: `8`, and then a question of its own with another answer.
    let questions: Vec<usize> = scope::next_questions(text).collect();
    let first = questions.first().map(|end| text[..*end].trim());
    let is_bare =
        |first: &&str| first.len() <= MAX_WHOLE && is_value(first) && by_marks(first).is_none();
    if let Some(first) = first.filter(is_bare) {
        return (mode == Mode::Flexible).then(|| moved(part(text, first, Rule::Whole)));
    }
    // Up to a next question first: the question that a completion repeats before it answers ends nothing.
    let parts = || questions.iter().map(|end| &text[..*end]).chain([text]);
    if let Some((part, found)) = parts().find_map(|part| Some((part, by_marks(part)?))) {
        let Some(rest) = super::standing::withdrawn(part, &found) else {
            return Some(moved(found));
        };
        // Of what takes the mark back, the last answer counts.
        let later = by_marks(rest);
        let later = later.or_else(|| (mode == Mode::Flexible).then(|| by_position(rest, true))?);
        let start = offset_in(text, rest);
        let span = |found: &Found<'_>| found.span.start + start..found.span.end + start;
        return later.map(|found| moved(Found { span: span(&found), ..found }));
    }
    (mode != Mode::Strict).then_some(())?;
    parts().find_map(|part| by_position(part, part.len() == text.len())).map(moved)
}

/// Whether a text breaks off in its only box: `\\boxed{15`, which may go on. Where its formula ends, `$\\boxed{15$`,
/// the brace was forgotten.
fn is_broken_off(text: &str) -> bool {
    // Backwards a text is searched slowly, and most have no box.
    let last = if holds(text, "box") { text.rfind("box") } else { None };
    let inner = last.and_then(|at| without(&text[at + 3..], "ed").strip_prefix('{'));
    inner.is_some_and(|inner| {
        !holds(inner, "$|\n|\\)|\\]|</") && closing(inner).is_none() && last_box(text).is_none()
    })
}

/// The answer that a mark names: the last of the explicit ones, else "answer is", else words after `####`.
pub(super) fn by_marks(text: &str) -> Option<Found<'_>> {
    let places = phrase::places(text);
    let explicit = [
        boxes::last(text),
        phrase::answer_line(text, &places).map(|(at, inner)| (at, part(text, inner, Rule::Phrase))),
        marks::tag(text).map(|(at, inner)| (at, part(text, inner, Rule::Tag))),
        marks::hashes(text).map(|(at, inner)| (at, part(text, inner, Rule::Hashes))),
        phrase::final_answer(text, &places)
            .map(|(at, inner)| (at, part(text, inner, Rule::Phrase))),
    ];
    let last = explicit.into_iter().flatten().max_by_key(|(at, _)| *at);
    let stated = || Some(part(text, phrase::answer(text, &places)?, Rule::Phrase));
    // `\boxed{number}` in the words of a format, before the answer.
    let is_form = |(at, found): &(usize, Found<'_>)| {
        found.text.len() > 1
            && found.text.bytes().all(|byte| byte.is_ascii_alphabetic())
            && places.last().is_some_and(|place| place > at)
    };
    let later = last.as_ref().filter(|last| is_form(last)).and_then(|_| stated());
    let later = later.filter(|found| is_value(&found.text));
    later
        .or(last.map(|(_, found)| found))
        .or_else(stated)
        .or_else(|| Some(part(text, marks::words(text)?, Rule::Hashes)))
}

/// The answer by the flexible rules. Before a next question, a number in passing answers nothing.
fn by_position(text: &str, is_whole: bool) -> Option<Found<'_>> {
    let (inner, rule) = flexible::answer(text.trim())?;
    // A box in it is one that the text denies.
    let start = offset_in(text, inner);
    let is_inner = text[..start].ends_with("\\boxed{") && closing(&text[start..]).is_some();
    let is_boxed = inner.contains("\\boxed{") || is_inner;
    (!is_boxed).then_some(())?;
    let is_passing = matches!(rule, Rule::Number | Rule::Words);
    let found = part(text, inner, rule);
    // "No. For n = 4 it fails."
    let stands = !has_digits(inner)
        || super::words::polarity(text).is_some()
        || super::standing::withdrawn(text, &found).is_none();
    ((is_whole || !is_passing) && stands).then_some(found)
}

/// A part of a text, as an answer.
pub(super) fn part<'a>(text: &str, part: &'a str, rule: Rule) -> Found<'a> {
    let start = offset_in(text, part);
    Found { text: Cow::Borrowed(part), span: start..start + part.len(), rule }
}

/// Where a part of a text begins in it: a part is a slice, so its address says so.
pub(super) fn offset_in(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

/// Whether a text is nothing but an answer: mathematics, or words without a number among them.
fn is_answer(text: &str) -> bool {
    if is_integer(text) {
        return true;
    }
    // A sentence around a formula is no answer, though its letters could be read as words.
    let dollars = text.bytes().filter(|byte| *byte == b'$').count();
    let is_wrapped = text.starts_with('$') && text.ends_with('$');
    if dollars >= 2 && !is_wrapped {
        return is_value(text) && text.starts_with('$');
    }
    let has_digit = has_digits(text);
    worded(text).is_some_and(|has_words| !(has_digit && has_words))
}

/// Whether what a text is read as has words in it; none where it is not read.
fn worded(text: &str) -> Option<bool> {
    // Several rules ask about the same few texts.
    const MAX_KNOWN: usize = 8;
    thread_local! {
        static KNOWN: RefCell<VecDeque<(String, Option<bool>)>> = const { RefCell::new(VecDeque::new()) };
    }
    let known = KNOWN.with_borrow(|known| {
        known.iter().find(|(other, _)| other == text).map(|(_, worded)| *worded)
    });
    known.unwrap_or_else(|| {
        let worded = parse(text).map(|answer| has_words(&answer));
        if text.len() <= MAX_WHOLE {
            KNOWN.with_borrow_mut(|known| {
                known.truncate(MAX_KNOWN - 1);
                known.push_front((text.to_owned(), worded));
            });
        }
        worded
    })
}

/// Whether a text is digits alone, as most answers are: what needs no parser.
pub(super) fn is_integer(text: &str) -> bool {
    const MAX_DIGITS: usize = 40;
    (1..=MAX_DIGITS).contains(&text.len()) && are_digits(text)
}

/// Whether a text is mathematics without words.
pub(super) fn is_value(text: &str) -> bool {
    is_integer(text) || worded(text) == Some(false)
}

fn has_words(answer: &Answer) -> bool {
    // A value and where it is taken are no list: "42, attained at x = 3".
    let is_place = |item: &Answer| {
        matches!(item, Answer::Chain(sides, _)
            if matches!(&sides[0], Answer::Words(words) if begins_place(words)))
    };
    match answer {
        Answer::Words(_) => true,
        Answer::List(items) if matches!(items[0], Answer::Value(_) | Answer::Marked(..)) => {
            items.iter().any(|item| has_words(item) || is_place(item))
        }
        Answer::Tuple(_, items, _)
        | Answer::Set(items)
        | Answer::List(items)
        | Answer::Union(items)
        | Answer::Ratio(items) => items.iter().any(has_words),
        Answer::Chain(sides, _) => sides[1..].iter().any(has_words),
        Answer::Member(_, set) => has_words(set),
        _ => false,
    }
}

/// Whether words before an equation say where a value is taken: "attained at x", but not "perimeter".
fn begins_place(words: &str) -> bool {
    const BEGINNINGS: &str = "attained|achieved|reached|obtained|taken|occurs|occurring|at|when|where|if|since|as|\
        using|equality";
    let words = words.trim_start_matches([' ', '~']);
    let (first, rest) = words.split_once([' ', '~']).unwrap_or((words, ""));
    is_one_of(first, BEGINNINGS)
        || first == "for" && rest.trim().len() == 1
        || first == "with" && (rest.trim().len() == 1 || begins(rest.trim_start(), "equality"))
}

/// Whether a text in the place of an answer only stands for one: `...`, `your answer`.
fn is_placeholder(text: &str) -> bool {
    if matches!(text, "<" | ">" | "=" | "≤" | "≥") {
        return false;
    }
    // A last box that was cut off: `Answer: \bo`.
    if text.len() > 1 && "\\boxed{".starts_with(text) {
        return true;
    }
    let is_mark = |c: char| !c.is_alphanumeric() && !"-+−∞∅√π½⅓⅔¼¾°%".contains(c);
    let bare = text
        .trim_start_matches("\\text")
        .trim_matches(|c: char| c.is_whitespace() || "{}<>[]()$*_.,…:?\"'`\\".contains(c));
    if bare.is_empty() {
        // Brackets around nothing are the empty set.
        return text.is_empty() || (text.chars().all(is_mark) && !text.contains("\\{"));
    }
    if bare.len() > 40 || !bare.ends_with(['r', 'R', 't', 'T', 'e', 'E', 's', 'S', 'n', 'N']) {
        return false;
    }
    STAND_INS.split('|').any(|known| bare.eq_ignore_ascii_case(known))
}
