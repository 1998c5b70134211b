//! Where the answer stands in a completion. One pass from the end for each rule, first match wins:
//! the last closed box, the last `<answer>` tag, "the answer is", `####`; in flexible mode also the
//! whole text if it is mathematics, the last formula, the last number, or a few words.

use std::borrow::Cow;

use super::Mode;
use super::parse::parse;
use super::tree::Answer;

/// Text beyond this is searched only at its end.
const MAX_SEARCHED: usize = 64 << 10;
/// Longest text that may be an answer as a whole.
const MAX_WHOLE: usize = 300;

/// An answer's text and the rule that found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted<'a> {
    /// The text; several boxes that belong together are joined by commas.
    pub span: Cow<'a, str>,
    /// Where it starts, in bytes of the completion; none for several boxes together.
    pub at: Option<usize>,
    /// `box`, `tag`, `phrase`, `hashes`, `whole`, `conclusion`, `formula`, `number` or `words`.
    pub rule: &'static str,
}

/// The answer that a completion gives.
pub fn extract(completion: &str, mode: Mode) -> Option<Extracted<'_>> {
    let mut start = completion.len().saturating_sub(MAX_SEARCHED);
    while !completion.is_char_boundary(start) {
        start += 1;
    }
    let text = &completion[start..];
    let text = crate::thinking::answer(text);
    // Text after a chat model's turn is not its answer.
    let text = text.split("<|im_").next().unwrap_or(text);
    // Spans are parts of the completion, so their addresses say where they stand.
    let place = |span: &str| (span.as_ptr() as usize).checked_sub(completion.as_ptr() as usize);
    let extracted = |span: &'_ str, rule| {
        Some(Extracted { span: Cow::Owned(span.to_owned()), at: place(span), rule })
    };
    let phrase = final_phrase(text);
    if let Some((at, inner)) = last_box(text)
        && phrase.is_none_or(|(phrase, said)| phrase < at || !is_answer(said))
    {
        if mode == Mode::Flexible
            && let Some(joined) = joined_boxes(text)
        {
            return Some(Extracted { span: Cow::Owned(joined), at: None, rule: "box" });
        }
        let inner = concluded(inner);
        return Some(Extracted { span: Cow::Borrowed(inner), at: place(inner), rule: "box" });
    }
    if let Some(inner) = tagged(text).filter(|inner| !inner.is_empty()) {
        return extracted(formula_in(inner).map_or(inner, |(_, inner)| inner), "tag");
    }
    if let Some((_, inner)) = phrase {
        return extracted(inner, "phrase");
    }
    if let Some(inner) = after_hashes(text) {
        return extracted(inner, "hashes");
    }
    if let Some(inner) = after_phrase(text) {
        return extracted(inner, "phrase");
    }
    if mode == Mode::Strict {
        return None;
    }
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.len() <= MAX_WHOLE && is_answer(trimmed) {
        return extracted(trimmed, "whole");
    }
    if let Some(inner) = conclusion(trimmed) {
        return extracted(inner, "conclusion");
    }
    if let Some((inner, rule)) = last_value(trimmed) {
        return extracted(inner, rule);
    }
    if trimmed.len() <= 80 { extracted(trimmed, "words") } else { None }
}

/// The conclusion of a sentence in a box; anything else in a box is the answer as it is.
fn concluded(inner: &str) -> &str {
    let has_words = inner.len() <= MAX_WHOLE && inner.contains(" is ");
    if has_words && !is_answer(inner) { conclusion(inner).unwrap_or(inner) } else { inner }
}

/// The end of the last sentence, after "is", an equals sign or a colon, if all of it is mathematics: a formula without
/// dollars, a point.
fn conclusion(text: &str) -> Option<&str> {
    let end = text.trim_end_matches(|c: char| c.is_whitespace() || c == '.' || c == '*');
    let line = end.lines().next_back()?;
    let line = line.rsplit(". ").next().unwrap_or(line);
    if line.len() > MAX_WHOLE {
        return None;
    }
    let marks = [" is ", " are ", "= ", ": "];
    let starts = marks.iter().filter_map(|mark| Some(line.rfind(mark)? + mark.len()));
    let tail = line[starts.max()?..].trim();
    let is_formula = !tail.is_empty() && !tail.contains('$') && is_answer(tail);
    (is_formula && !parse(tail).is_some_and(|answer| has_words(&answer))).then_some(tail)
}

/// The later of the last formula and the last number outside it.
fn last_value(text: &str) -> Option<(&str, &'static str)> {
    let number = last_number(text);
    let end = |span: &str| span.as_ptr() as usize + span.len();
    match (formula_in(text), number) {
        (Some((_, formula)), Some(number)) if end(number) > end(formula) + 2 => {
            Some((number, "number"))
        }
        (Some((_, formula)), _) => Some((formula, "formula")),
        (None, Some(number)) => Some((number, "number")),
        (None, None) => None,
    }
}

/// Whether a text is nothing but an answer: mathematics, or words without a number among them.
fn is_answer(text: &str) -> bool {
    // A sentence around a formula is no answer, though its letters could be read as words.
    let dollars = text.bytes().filter(|byte| *byte == b'$').count();
    let is_wrapped = text.starts_with('$') && text.ends_with('$');
    if dollars >= 2 && !is_wrapped {
        return false;
    }
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    parse(text).is_some_and(|answer| !(has_digit && has_words(&answer)))
}

fn has_words(answer: &Answer) -> bool {
    match answer {
        Answer::Words(_) => true,
        Answer::Chain(sides, _) => sides[1..].iter().any(has_words),
        Answer::Tuple(_, items, _)
        | Answer::Set(items)
        | Answer::List(items)
        | Answer::Union(items)
        | Answer::Ratio(items) => items.iter().any(has_words),
        Answer::Member(_, set) => has_words(set),
        _ => false,
    }
}

fn after_hashes(text: &str) -> Option<&str> {
    let (_, tail) = text.rsplit_once("####")?;
    let line = tail.trim_start().lines().next()?.trim();
    (!line.is_empty()).then_some(line)
}

fn tagged(text: &str) -> Option<&str> {
    let (_, tail) = text.rsplit_once("<answer>")?;
    Some(tail.split("</answer>").next()?.trim())
}

/// The text after the last "final answer is", and its position.
fn final_phrase(text: &str) -> Option<(usize, &str)> {
    let at = rfind_word(text.as_bytes(), b"final answer is")?;
    let tail = text[at + 15..].lines().next()?;
    Some((at, said(tail)?))
}

/// The text after the last "answer is" or "answer:" on its line.
fn after_phrase(text: &str) -> Option<&str> {
    for phrase in ["答案是", "答案为", "答案：", "答案:"] {
        if let Some((_, tail)) = text.rsplit_once(phrase)
            && let Some(extracted) = said(tail.lines().next().unwrap_or_default())
        {
            return Some(extracted);
        }
    }
    let bytes = text.as_bytes();
    let mut end = text.len();
    while let Some(at) = rfind_word(&bytes[..end], b"answer") {
        let tail = &text[at + 6..];
        end = at;
        // `**Answer:**`, `answer is:`, `answer to the question is`
        let line = tail.lines().next().unwrap_or_default();
        let mark = line.find(':').map(|at| (at, 1)).filter(|(at, _)| *at < 40);
        let verbs = [" is ", " is:", " = "];
        let verb = verbs.iter().filter_map(|verb| Some((line.find(verb)?, verb.len())));
        let verb = verb.filter(|(at, _)| *at < 60).min();
        // The answer may stand on the next line: `Answer:` and then 12.
        let Some((at, length)) = [verb, mark].into_iter().flatten().min() else { continue };
        let rest = &line[at + length..];
        let rest = if rest.trim_matches(['*', ' ']).is_empty() {
            tail[line.len()..].trim_start().lines().next().unwrap_or_default()
        } else {
            rest
        };
        if let Some(extracted) = said(rest) {
            return Some(extracted);
        }
    }
    None
}

/// The answer at the start of a line: all of it if it is one, else its last value.
fn said(line: &str) -> Option<&str> {
    let line = line.split("I hope it is").next().unwrap_or(line);
    let is_edge = |c: char| c.is_whitespace() || c == '*' || c == ':';
    let line = line.trim_matches(is_edge);
    let line = line.split(". ").next().unwrap_or(line).trim_end_matches(['.', '*']).trim();
    if line.is_empty() {
        return None;
    }
    if is_answer(line) {
        return Some(line);
    }
    Some(last_value(line).map_or(line, |(inner, _)| inner))
}

/// The last place of a lower-case word, whatever its case in the text.
fn rfind_word(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(word.len())?;
    (0..=last).rev().find(|at| bytes[*at..at + word.len()].eq_ignore_ascii_case(word))
}

/// The last `$...$`, `\(...\)` or `\[...\]`.
fn formula_in(text: &str) -> Option<(usize, &str)> {
    let dollars = || {
        let end = text.rfind('$')?;
        let start = text[..end].trim_end_matches('$').rfind('$')?;
        // Money is not a formula: `$5 and $6`.
        let inner = text[start + 1..end].trim_matches('$').trim();
        (!inner.is_empty() && !text[..start].ends_with('\\')).then_some((start, inner))
    };
    let pair = |open: &str, close: &str| {
        let end = text.rfind(close)?;
        let start = text[..end].rfind(open)?;
        Some((start, text[start + open.len()..end].trim()))
    };
    [dollars(), pair("\\(", "\\)"), pair("\\[", "\\]")]
        .into_iter()
        .flatten()
        .filter(|(_, inner)| parse(inner).is_some())
        .max_by_key(|(start, _)| *start)
}

/// The last closed `\boxed{..}`, `\fbox{..}`, or `\boxed 5`: its place and its contents.
pub(super) fn last_box(text: &str) -> Option<(usize, &str)> {
    let (mut end, mut limit) = (text.len(), text.len());
    // A box that does not close is looked at once: what comes before it ends there. So the scan stays
    // linear.
    while let Some(start) = text[..end].rfind("box") {
        end = start;
        let is_box = text[..start].ends_with('\\') || text[..start].ends_with("\\f");
        if !is_box {
            continue;
        }
        let tail = &text[start + 3..limit];
        let tail = tail.strip_prefix("ed").unwrap_or(tail);
        let Some(inner) = tail.trim_start().strip_prefix('{') else {
            let word = tail.trim_start().split([' ', '$', '\n', '.']).next().unwrap_or_default();
            if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
                return Some((start, word));
            }
            continue;
        };
        match closing(inner) {
            Some(at) => return Some((start, inner[..at].trim())),
            None => limit = start,
        }
    }
    None
}

/// Boxes that follow each other closely, or with "and", "or" or a comma between, as a list; `None` for
/// a single one.
fn joined_boxes(text: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    let mut end = text.len();
    while let Some((at, inner)) = last_box(&text[..end]) {
        if !parts.is_empty() {
            let after = inner.as_ptr() as usize + inner.len() - text.as_ptr() as usize;
            let gap = text.get(after..end)?.trim_start_matches([' ', '}']);
            let gap = gap.strip_suffix('\\').unwrap_or(gap);
            if !links(gap) {
                break;
            }
        }
        if !parts.contains(&inner) {
            parts.push(inner);
        }
        end = at;
        if parts.len() == 16 {
            break;
        }
    }
    parts.reverse();
    (parts.len() > 1).then(|| parts.join(", "))
}

/// Whether the text between two boxes makes them one list: nothing but signs, "and", "or" and names
/// with an equals sign, or an "and" right before the second. `\boxed{4}, no wait: \boxed{5}` is one answer after another.
fn links(gap: &str) -> bool {
    let are_known = gap.split(|c: char| !c.is_ascii_alphabetic()).all(|word| {
        word.len() <= 1 || matches!(word, "and" | "or" | "text" | "quad" | "qquad" | "mathrm")
    });
    let joins = gap.contains([',', ';']) || gap.contains("and") || gap.contains("or");
    let end = gap.trim_end_matches([' ', '}', '$']);
    let is_and = end.ends_with(" and") || end.ends_with(" or");
    gap.len() < 70 && (is_and || (are_known && (joins || (gap.len() < 10 && !gap.contains('=')))))
}

/// Where the brace that was open before `inner` closes; escaped braces do not count.
fn closing(inner: &str) -> Option<usize> {
    let mut depth = 1_usize;
    let mut is_escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' if !is_escaped => depth += 1,
            b'}' if !is_escaped => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    None
}

/// The last number in running text: sign, digits with thousands separators, decimals, `a/b`.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'/');
    let mut start = end - 1;
    while start > 0 && is_part(bytes[start - 1]) {
        start -= 1;
    }
    while !bytes[start].is_ascii_digit() && bytes[start] != b'.' {
        start += 1;
    }
    // A minus sign belongs to the number unless it joins it to what stands before.
    if start > 0 && bytes[start - 1] == b'-' {
        let before = start.checked_sub(2).map(|at| bytes[at]);
        if before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && byte != b')') {
            start -= 1;
        }
    }
    end += usize::from(bytes.get(end) == Some(&b'%'));
    // Part of a name, as in `A2B`, it is no number.
    if text[..start].ends_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    Some(&text[start..end])
}
