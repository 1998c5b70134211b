//! "The final answer is 7", "Answer: 7", "答案是 7": the first complete expression behind the phrase.

use memchr::memmem::Finder;

use super::MAX_LINE;
use super::clause::stated;
use super::scan::{Needle, ends_with, head};

/// The middle of "answer", in both cases.
static LOWER: Needle = Needle::new(|| Finder::new("nswer"));
static UPPER: Needle = Needle::new(|| Finder::new("NSWER"));

/// "respuesta es" and "Antwort ist", without the letters that may be capitals.
static SPANISH: Needle = Needle::new(|| Finder::new("espuesta es"));
static GERMAN: Needle = Needle::new(|| Finder::new("ntwort ist"));

/// Most phrases that are looked at.
const MAX_PHRASES: usize = 64;

/// Phrases of other languages, up to the answer.
const OTHERS: [&str; 22] = [
    "答案是",
    "答案为",
    "答案：",
    "答案:",
    "答え：",
    "答え:",
    "答えは",
    "정답은",
    "정답:",
    "답은",
    "respuesta es",
    "Respuesta:",
    "réponse est",
    "Réponse :",
    "Réponse:",
    "Antwort ist",
    "Antwort lautet",
    "Antwort:",
    "risposta è",
    "resposta é",
    "Resposta:",
    "Ответ:",
];

/// The answer behind the last "final answer", and where the phrase begins.
pub(super) fn final_answer(text: &str) -> Option<(usize, &str)> {
    let is_final = |at: &usize| ends_with(text[..*at].trim_end(), "final");
    let places: Vec<usize> = places(text).into_iter().filter(is_final).collect();
    places.into_iter().rev().take(MAX_PHRASES).find_map(|at| Some((at, behind(text, at)?)))
}

/// The answer behind the last "answer".
pub(super) fn answer(text: &str) -> Option<&str> {
    let mut last = places(text).into_iter().rev().take(MAX_PHRASES);
    if let Some(answer) = last.find_map(|at| behind(text, at)) {
        return Some(answer);
    }
    let end = match text.is_ascii() {
        true => {
            let ends = [(&SPANISH, 11), (&GERMAN, 10)].into_iter();
            ends.filter_map(|(needle, length)| Some(needle.places(text).last()? + length)).max()
        }
        false => OTHERS.iter().filter_map(|word| Some(text.rfind(word)? + word.len())).max(),
    };
    stated(paragraph(&text[end?..]))
}

/// Where the word "answer" stands.
fn places(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is_word = |at: usize, first: u8| {
        let start = at.checked_sub(1)?;
        let is_alone = start.checked_sub(1).is_none_or(|at| !bytes[at].is_ascii_alphabetic());
        (bytes[start].eq_ignore_ascii_case(&first) && is_alone).then_some(start)
    };
    let mut places: Vec<usize> =
        LOWER.places(text).chain(UPPER.places(text)).filter_map(|at| is_word(at, b'a')).collect();
    places.sort_unstable();
    places
}

/// The answer behind the word "answer" at `at`, where a verb or a colon says that it is one.
fn behind(text: &str, at: usize) -> Option<&str> {
    let tail = head(&text[at + 6..], MAX_LINE);
    let line = tail.lines().next().unwrap_or_default();
    // `answer is:`, `answer to the question is`, `**Answer:**`
    let verbs = [" is ", " is:", " is\u{a0}", " = ", " would be ", " should be ", " equals "];
    let verb = verbs.iter().filter_map(|verb| Some((line.find(verb)?, verb.len())));
    let verb = verb.filter(|(at, _)| *at < 60).min();
    let colons = [(line.find(':'), 1), (line.find('：'), 3)];
    let colon = colons.iter().filter_map(|(at, length)| Some(((*at)?, *length)));
    let colon = colon.filter(|(at, _)| *at < 40).min();
    let mark = [verb, colon].into_iter().flatten().min();
    // The answer may stand on the next line: `Answer:` and then 12, or a heading and then 12.
    let rest = match mark {
        Some((at, length)) => &tail[at + length..],
        None if is_heading(text, at, line) => &tail[line.len()..],
        None if line.ends_with(" is") => &tail[line.len()..],
        None => return None,
    };
    // "The answer is not 7" says what it is not.
    let is_negated = rest.trim_start().starts_with("not ");
    if is_negated { None } else { stated(paragraph(rest)) }
}

/// The first line with letters or digits.
fn paragraph(text: &str) -> &str {
    let is_blank = |line: &&str| !line.contains(|c: char| c.is_alphanumeric());
    let lines = || text.split_inclusive('\n');
    let skipped: usize = lines().take_while(is_blank).map(str::len).sum();
    let rest = &text[skipped..];
    // A formula may take several lines: from `\[` or `$$` to its end.
    let before = text[..skipped].trim();
    let close = if before.ends_with("\\[") {
        "\\]"
    } else if before.ends_with("$$") {
        "$$"
    } else {
        return head(rest, MAX_LINE).lines().next().unwrap_or_default();
    };
    rest.split(close).next().unwrap_or(rest)
}

/// Whether a line is nothing but "Answer" or "Final Answer" with marks of emphasis.
fn is_heading(text: &str, at: usize, rest: &str) -> bool {
    let mark = |c: char| !c.is_alphanumeric() && c != '\n';
    let mut start = at.saturating_sub(24);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let before = text[start..at].trim_end();
    let before = if ends_with(before, "final") { &before[..before.len() - 5] } else { before };
    let before = before.trim_end_matches(mark);
    rest.chars().all(mark) && (before.is_empty() || before.ends_with('\n'))
}
