//! Answers in the place that a format reserves for them: `<answer>7</answer>`, `#### 7`.

use memchr::{memmem, memrchr_iter};

use super::super::scan::{head, is_digit, strip_prefix};
use super::super::standing::{self, corrects, is_denied, is_foreign, is_unstated, without_reason};
use super::super::words::opening;
use super::clause::{comes_to, is_related, leading, stated};
use super::numbers::formula_in;
use super::phrase;
use super::{MAX_LINE, is_answer, is_placeholder, is_value, offset_in};

/// Most `####` that are looked at.
const MAX_MARKS: usize = 64;

/// Longest text in a tag.
const MAX_TAGGED: usize = 4096;

/// Tags around an answer.
const TAGS: [(&str, &str); 3] = [
    ("<answer>", "</answer>"),
    ("<final_answer>", "</final_answer>"),
    ("<|begin_of_box|>", "<|end_of_box|>"),
];

/// The last tag that holds an answer, and where it begins.
pub(super) fn tag(text: &str) -> Option<(usize, &str)> {
    let is_open = |at: &usize| text[at + 1..].starts_with(['a', 'A', 'f', 'F', '|']);
    let opened = memrchr_iter(b'<', text.as_bytes()).filter(is_open).filter_map(|at| {
        let opened = |(open, close)| Some((at, strip_prefix(&text[at..], open)?, close));
        TAGS.into_iter().find_map(opened)
    });
    let mut inner = opened.take(MAX_MARKS).filter_map(|(at, inner, close)| {
        // A tag that is never closed reaches as far as an answer may.
        let rest = head(inner, MAX_TAGGED);
        let (inner, after) = rest.split_once(close).unwrap_or((rest, ""));
        let is_denied = is_unstated(&text[..at], after);
        let inner = inner.trim();
        Some((at, standing::stated("", inner)?.trim()))
            .filter(|_| !is_denied && !is_placeholder(inner))
    });
    let (at, inner) = inner.next()?;
    Some((at, tagged(inner)))
}

/// The answer among the words of a tag.
fn tagged(inner: &str) -> &str {
    if opening(inner).is_some() || inner.starts_with(['<', '>', '≤', '≥']) || is_related(inner)
    {
        return inner;
    }
    if standing::is_operation(inner) {
        return comes_to(inner).unwrap_or(inner);
    }
    if is_answer(inner) {
        return if is_value(inner) { inner } else { without_reason(inner) };
    }
    if !inner.contains('\n')
        && without_reason(inner).len() < inner.len()
        && is_answer(without_reason(inner))
    {
        return without_reason(inner);
    }
    match formula_in(inner) {
        Some((_, formula)) if inner.matches('$').count() <= 2 => formula,
        _ if !inner.contains('\n') => {
            stated(inner).filter(|part| stands(inner, part)).unwrap_or(inner)
        }
        _ => phrase::answer(inner, &phrase::places(inner)).unwrap_or(inner),
    }
}

/// Whether nothing behind an answer in a line takes it back.
fn stands(line: &str, answer: &str) -> bool {
    let behind = &line[offset_in(line, answer) + answer.len()..];
    behind.is_empty() || !is_denied("", behind)
}

/// The first `####` before an answer: it ends a solution, so what follows is another one. The marks of headings such as
/// `#### Step 2` and `#### 1. The sum` are none.
pub(super) fn hashes(text: &str) -> Option<(usize, &str)> {
    let mut all = lines(text).filter_map(|(at, line)| {
        let digits = line.trim_start_matches(is_digit);
        let is_numbered = digits.len() < line.len()
            && digits.strip_prefix(['.', ')']).is_some_and(|rest| {
                rest.trim_start_matches([' ', '*']).starts_with(char::is_alphabetic)
            });
        let is_assignment = matches!(line.as_bytes(), [b'a'..=b'z', b' ', b'i', b's', b' ', ..]);
        let line = if is_assignment { &line[5..] } else { line };
        if is_numbered {
            None
        } else {
            Some((at, leading(line).filter(|part| stands(line, part))?))
        }
    });
    let first = all.next()?;
    // "#### 18, wait: #### 20"
    let rest = &text[first.0 + 4..];
    if corrects(&rest[..rest.find("####").unwrap_or(0)]) {
        return all.next().or(Some(first));
    }
    // `#### 1 #### 2` is a list of candidates.
    let line = rest.trim_start().lines().next().unwrap_or_default();
    Some(if line.contains("####") { (first.0, line) } else { first })
}

/// Words behind the last `####`: an answer where no other rule finds one.
pub(super) fn words(text: &str) -> Option<&str> {
    let (_, line) = lines(text).last()?;
    let line = without_reason(line.trim_matches(['*', ' ', '.']));
    (!line.is_empty() && !line.ends_with(':')).then_some(line)
}

/// The lines behind each `####`, and where the marks stand; the line may be the next one.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let line = move |at: usize| {
        // A longer run of marks was looked at where it begins.
        let is_first = !text[..at].ends_with('#');
        let rest = head(text[at..].trim_start_matches('#').trim_start(), MAX_LINE);
        let line = rest.lines().next().unwrap_or_default().trim();
        // `Finish with "#### 42"`
        let is_shown = || text[..at].ends_with(['"', '“', '`']) && is_foreign(&text[..at], "");
        (is_first && !line.is_empty() && !line.starts_with('#') && !is_shown())
            .then_some((at, line))
    };
    memmem::find_iter(text.as_bytes(), "####").take(MAX_MARKS).filter_map(line)
}
