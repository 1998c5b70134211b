//! "The final answer is 7", "Answer: 7", "答案是 7": the first complete expression behind the phrase.

use memchr::memmem::Finder;

use super::super::super::tail;
use super::super::hedges::{is_denied, is_doubted};
use super::super::scan::{Needle, begins, ends_with, entries, head, past};
use super::super::text::is_choice;
use super::clause::stated;
use super::{MAX_LINE, is_value};

/// The middle of "answer", in both cases.
static LOWER: Needle = Needle::new(|| Finder::new("nswer"));
static UPPER: Needle = Needle::new(|| Finder::new("NSWER"));

/// "respuesta", "Antwort" and their like, without the letters that may be capitals.
static WESTERN: [(usize, Needle); 6] = [
    (8, Needle::new(|| Finder::new("espuesta"))),
    (6, Needle::new(|| Finder::new("ntwort"))),
    (7, Needle::new(|| Finder::new("esposta"))),
    (7, Needle::new(|| Finder::new("isposta"))),
    (6, Needle::new(|| Finder::new("awaban"))),
    (7, Needle::new(|| Finder::new("ntwoord"))),
];

/// What says behind such a word that the answer follows.
static VERBS: [&str; 10] =
    [" es ", " ist ", " lautet ", " lautet:", " é ", " è ", " adalah ", " is ", ":", " :"];

/// Words before the letters of a choice.
static CHINESE: [&str; 5] = ["故选", "故選", "选项", "選項", "选"];

/// Most phrases that are looked at.
const MAX_PHRASES: usize = 64;

/// Phrases of other languages, up to the answer.
static OTHERS: [&str; 32] = entries(
    "答案】|答案为：|答案應為|答案为|答：|答:|الإجابة:|الإجابة هي|الجواب:|উত্তর:|उत्तर:|उत्तर है|คำตอบคือ|คำตอบ:|Đáp án:|答案是|答案：|\
    答案:|答え：|答え:|答えは|정답은|정답:|답은|réponse est|Réponse :|Réponse:|risposta è|resposta é|Odpowiedź:|Ответ:|ответ:",
);

/// The answer behind the last "final answer", and where the phrase begins.
pub(super) fn final_answer<'a>(text: &'a str, places: &[usize]) -> Option<(usize, &'a str)> {
    let is_final = |at: &usize| ends_with(text[..*at].trim_end(), "final");
    let places: Vec<usize> = places.iter().copied().filter(is_final).collect();
    places.into_iter().rev().take(MAX_PHRASES).find_map(|at| Some((at, behind(text, at)?)))
}

/// The answer behind the last "answer".
pub(super) fn answer<'a>(text: &'a str, places: &[usize]) -> Option<&'a str> {
    let mut last = places.iter().copied().rev().take(MAX_PHRASES);
    if let Some(answer) = last.find_map(|at| behind(text, at)) {
        return Some(answer);
    }
    let western = WESTERN.iter().filter_map(|(length, needle)| {
        let noun = &text[needle.places(text).last()? + length..];
        let rest = past(noun, " final| finale| correcta| correta| correcte").unwrap_or(noun);
        let end = text.len() - rest.len();
        let verb = VERBS.iter().find(|verb| text[end..].starts_with(**verb))?;
        Some(end + verb.len())
    });
    let western = western.max();
    let stated = |rest: &'a str| {
        let denied = ["not ", "nicht ", "no ", "non ", "nie "];
        let is_denied = |rest: &str| denied.iter().any(|no| rest.trim_start().starts_with(no));
        // "no es 14, sino 15"
        let but = |but: &&str| Some(rest.split_once(*but)?.1);
        let rest = match is_denied(rest) {
            true => [" sino ", " sondern ", " mas ", " bensì "].iter().find_map(but)?,
            false => rest,
        };
        (!is_denied(rest)).then(|| stated(rest))?
    };
    if text.is_ascii() {
        return stated(paragraph(&text[western?..]));
    }
    let others = OTHERS.iter().filter_map(|word| Some(text.rfind(word)? + word.len()));
    let end = others.chain(western).max();
    let choice = chinese_choice(text);
    let at = choice.map(|letters| super::offset_in(text, letters));
    if end.is_none() || at > end {
        return choice;
    }
    stated(paragraph(&text[end?..]))
}

/// The letters of `故选：C`, `所以选B`, `选项A正确`.
fn chinese_choice(text: &str) -> Option<&str> {
    const MAX_PLACES: usize = 8;
    let mut places: Vec<(usize, usize)> = CHINESE
        .iter()
        .flat_map(|word| text.rmatch_indices(word).take(MAX_PLACES))
        .map(|(at, word)| (at + word.len(), word.len()))
        .collect();
    places.sort_unstable_by(|a, b| b.cmp(a));
    places.into_iter().find_map(|(end, length)| chosen(text, end - length, length))
}

/// The letters behind the word for a choice at `at`, where none denies them.
fn chosen(text: &str, at: usize, length: usize) -> Option<&str> {
    let is_mark = |c: char| " ：:（(項项择擇为為是".contains(c);
    let rest = text[at + length..].trim_start_matches(is_mark);
    let end = rest.find(|c: char| !('A'..='J').contains(&c)).unwrap_or(rest.len());
    let behind = rest[end..].trim_start_matches([')', '）', ' ']);
    let is_refused = behind.starts_with(['错', '錯', '不', '有', '误'])
        || behind.starts_with(|c: char| c.is_ascii_alphanumeric())
        || text[..at].ends_with(['不', '未']);
    (end > 0 && !is_refused).then(|| &rest[..end])
}

/// The answer of the last line that is nothing but "Answer: 7" or "**Answer: D**", and where it begins.
pub(super) fn answer_line<'a>(text: &'a str, places: &[usize]) -> Option<(usize, &'a str)> {
    const MAX_ANSWER_LINE: usize = 80;
    let at = *places.last()?;
    let line = head(&text[at + 6..], MAX_LINE).lines().next().unwrap_or_default();
    let line = line.trim_start_matches(['*', '_', ' ']).strip_prefix(':')?;
    let before = text[..at].lines().next_back().unwrap_or_default();
    let before = if text[..at].ends_with('\n') { "" } else { before };
    let is_mark = |c: char| !c.is_alphanumeric();
    let words = before.trim_matches(is_mark).to_lowercase();
    let is_first = matches!(words.as_str(), "" | "the" | "correct" | "the correct");
    let is_short = is_first && line.len() <= MAX_ANSWER_LINE;
    let answer = line.trim_matches(|c: char| c.is_whitespace() || "*_".contains(c));
    let answer = if answer.ends_with("..") { answer } else { answer.trim_end_matches(['.', '*']) };
    (is_short && (is_value(answer) || is_choice(answer)) && answer.len() <= 40)
        .then_some((at, answer))
}

/// Where the word "answer" stands.
pub(super) fn places(text: &str) -> Vec<usize> {
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

/// The answer behind the word "answer" at `at`, where a verb or a colon says that it is one and no word denies it.
fn behind(text: &str, at: usize) -> Option<&str> {
    let answer = named(text, at)?;
    let end = super::offset_in(text, answer) + answer.len();
    // Words before `Answer:` on their line are the end of another sentence.
    let before = &text[..at];
    let is_denied = is_doubted(before) || is_denied("", head(&text[end..], 80));
    (!is_denied).then_some(answer)
}

fn named(text: &str, at: usize) -> Option<&str> {
    let tail = head(&text[at + 6..], MAX_LINE);
    let line = tail.lines().next().unwrap_or_default();
    let mark = mark(line);
    // The answer may stand on the next line: `Answer:` and then 12, or a heading and then 12.
    let rest = match mark {
        Some((at, length)) => &tail[at + length..],
        None if is_heading(text, at, line) => &tail[line.len()..],
        None if line.ends_with(" is") => &tail[line.len()..],
        None => return None,
    };
    // "The answer is not 7" says what it is not.
    let is_negated = begins(rest.trim_start(), "not |nicht |no es ");
    if is_negated && let Some((_, rest)) = rest.split_once(" but ") {
        return stated(paragraph(rest));
    }
    if is_negated { None } else { stated(paragraph(rest)) }
}

/// The verb or colon behind the word "answer" that an answer follows: where it begins, and its length.
fn mark(line: &str) -> Option<(usize, usize)> {
    if line.starts_with(" is ") {
        return Some((0, 4));
    }
    // `answer is:`, `answer to the question is`, `**Answer:**`
    let verbs = [
        " is ",
        " is:",
        " is\u{a0}",
        " = ",
        " would be ",
        " should be ",
        " must be ",
        " has to be ",
        " equals ",
    ];
    let lower = head(line, 72).to_ascii_lowercase();
    let verb = verbs.iter().filter_map(|verb| Some((lower.find(verb)?, verb.len())));
    let verb = verb.filter(|(at, _)| *at < 60).min();
    let colons = [(line.find(':'), 1), (line.find('：'), 3)];
    let colon = colons.iter().filter_map(|(at, length)| Some(((*at)?, *length)));
    let colon = colon.filter(|(at, _)| *at < 40).min();
    [verb, colon].into_iter().flatten().min()
}

/// The first line with letters or digits.
fn paragraph(text: &str) -> &str {
    let is_blank =
        |line: &&str| !line.contains(|c: char| c.is_alphanumeric()) && !line.contains("\\{");
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
    let before = tail(&text[..at], 24).trim_end();
    let before = if ends_with(before, "final") { &before[..before.len() - 5] } else { before };
    let before = before.trim_end_matches(mark);
    rest.chars().all(mark) && (before.is_empty() || before.ends_with('\n'))
}
