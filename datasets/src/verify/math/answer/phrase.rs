//! "The final answer is 7", "Answer: 7", "答案是 7": the first complete expression behind the phrase.

use memchr::memmem;

use super::super::super::tail;
use super::super::scan::{
    begins, ends_with, first, has_digits, head, holds, is_digit, lowered, pattern, without,
};
use super::super::standing::{self, is_denied, is_doubted, is_unstated};
use super::super::words::{is_choice, opening};
use super::clause::stated;
use super::{MAX_LINE, is_placeholder, is_value};

/// Words before the letters of a choice, and what denies them.
const CHOSEN: &str =
    "([不未])?(?:故选|故選|选项|選項|选)[ ：:（(項项择擇为為是]*([A-J]+(?: ?[、和与及] ?[A-J])*)";

/// Most phrases that are looked at.
const MAX_PHRASES: usize = 64;

/// "Answer" in other languages, up to three words, and the verb or mark that the answer follows: in the group, for denials.
const OTHERS: &str = "(?:respuesta|antwort|resposta|risposta|réponse|odpowiedź|ответ|cevap|jawaban|antwoord|jibu|đáp \
    số|đáp án|উত্তর|उत्तर|సమాధానం|జవాబు|คำตอบ|الإجابة|الجواب|答案|正解|答え|答|정답|답)((?: [^ .,:;!?0-9]+){0,3}?[ \
    \u{a0}]*(?:[:：】]|(?:n['’])?(?:es|est|ist|lautet|is|é|è|adalah|bukan|не|dir|si[oy]?o?|ni|to|jest|là|है|হলো|হল|হবে|\
    هو|\
    هي)(?:[ \u{a0}]|:)|不?(?:是|应为|應為|为|為)|は|은|คือ)[:：]?(?: ?(?:la|die|el|le) )?)";

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
    let other = || {
        let verb = pattern!(OTHERS).captures_iter(&lowered(text)).last()?.get(1)?.range();
        let rest = paragraph(&text[verb.end..]);
        // "não, não é possível" denies no value.
        let is_polar = !has_digits(rest) && opening(rest.trim()).is_some();
        let rest = if is_polar { Some(rest) } else { standing::stated(&text[verb.clone()], rest) };
        let answer = rest.and_then(stated);
        Some((verb.end, answer.filter(|answer| is_stated(text, answer))))
    };
    if text.is_ascii() {
        return other()?.1;
    }
    let (choice, other) = (chinese_choice(text), other());
    let at = choice.map(|letters| super::offset_in(text, letters));
    match other {
        Some((end, rest)) if at.is_none_or(|at| at <= end) => rest,
        _ => choice,
    }
}

/// The letters of `故选：C`, `所以选B`, `选项A正确`, where nothing denies them.
fn chinese_choice(text: &str) -> Option<&str> {
    let found = pattern!(CHOSEN).captures_iter(text).filter(|found| found.get(1).is_none());
    let letters: Vec<&str> = found.filter_map(|found| Some(found.get(2)?.as_str())).collect();
    let is_stated = |letters: &&&str| {
        let behind = &text[super::offset_in(text, letters) + letters.len()..];
        let behind = behind.trim_start_matches([')', '）', ' ']);
        // "故选:C?不确定"
        let is_guess = pattern!(
            "^[吗嗎?？]|^[^A-J]{0,4}或|不确定|不確定|猜|也许|或许|不知道|不会做|没把握|大概|说不准|(?:^|[^不])可能"
        );
        !is_guess.is_match(head(behind, 90))
            && !behind.starts_with(['错', '錯', '不', '有', '误'])
            && !behind.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    letters.iter().rev().find(is_stated).copied()
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
    let is_short = is_short && !answer.contains(". ") && !is_placeholder(answer);
    (is_short && (is_value(answer) || is_choice(answer)) && answer.len() <= 40)
        .then_some((at, answer))
}

/// Where the word "answer" stands.
pub(super) fn places(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is_word = |at: usize| {
        let start = at.checked_sub(1)?;
        // `<answer>` is a mark of its own.
        let is_alone = start
            .checked_sub(1)
            .is_none_or(|at| !bytes[at].is_ascii_alphabetic() && !b"</".contains(&bytes[at]));
        (bytes[start].eq_ignore_ascii_case(&b'a') && is_alone).then_some(start)
    };
    let middles =
        ["nswer", "NSWER"].into_iter().flat_map(|middle| memmem::find_iter(bytes, middle));
    let mut places: Vec<usize> = middles.filter_map(is_word).collect();
    places.sort_unstable();
    places
}

/// The answer behind the word "answer" at `at`, where a verb or a colon says that it is one and no word denies it.
fn behind(text: &str, at: usize) -> Option<&str> {
    let answer = named(text, at)?;
    // Words before `Answer:` on their line are the end of another sentence.
    (!is_doubted(&text[..at]) && is_stated(text, answer)).then_some(answer)
}

/// Whether no words around an answer in a text deny it.
fn is_stated(text: &str, answer: &str) -> bool {
    let start = super::offset_in(text, answer);
    let after = head(&text[start + answer.len()..], 80);
    !is_denied("", after) && !is_unstated(&text[..start], after)
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
    // "The answer is not 7" says what it is not. JSON goes on with other names.
    let rest = standing::stated("", paragraph(rest))?;
    (!is_done(rest)).then_some(())?;
    let is_json = line.starts_with("\":") || line.starts_with("\" :");
    stated(if is_json { rest.split(", \"").next()? } else { rest })
}

/// Whether what follows "the answer is" says what was done: "found by multiplying 9 by 2".
fn is_done(rest: &str) -> bool {
    const DONE: &str = "found by |found in |found from |obtained |computed |calculated |derived |expected |explained |\
        verified |inside |in the box|shown |boxed |given above|stated above";
    begins(rest, DONE) && !rest.contains(" to be ")
}

/// Whether a sentence says how the answer is found, and not what it is.
pub(in super::super) fn says_how(sentence: &str) -> bool {
    sentence.split_once("nswer is ").is_some_and(|(_, rest)| is_done(rest))
}

/// The verb or colon behind the word "answer" that an answer follows: where it begins, and its length.
fn mark(line: &str) -> Option<(usize, usize)> {
    if line.starts_with(" is ") {
        return Some((0, 4));
    }
    // `answer is:`, `answer to the question is`, `**Answer:**`
    const VERBS: &str =
        " is | is:| is\u{a0}| = | would be | should be | must be | has to be | equals ";
    // "It is wrong to answer 20, since the endpoint is not in it."
    let is_number = line.trim_start().starts_with(is_digit);
    if is_number && line.trim_start().contains(',') {
        return None;
    }
    let lower = head(line, 72).to_ascii_lowercase();
    let end = ["? ", "! ", ". "].iter().filter_map(|end| lower.find(end)).min();
    let lower = &lower[..end.map_or(lower.len(), |end| end + 1)];
    let verb = first(lower, VERBS).map(|verb| (verb.start, verb.len())).into_iter();
    let negated = ["isn't", "isn’t"].iter().filter_map(|verb| Some((lower.find(verb)?, 2)));
    // "the answer that it cannot be is": what lies between may deny it.
    let verb = verb
        .chain(negated)
        .filter(|(at, _)| *at < 60 && !holds(&lower[..*at], " not | never "))
        .min();
    let colons = [(line.find(':'), 1), (line.find('：'), 3)];
    let colon = colons.iter().filter_map(|(at, length)| Some(((*at)?, *length)));
    let colon = colon.filter(|(at, _)| *at < 40).min();
    [verb, colon].into_iter().flatten().min()
}

/// The first line with letters or digits.
fn paragraph(text: &str) -> &str {
    let is_blank = |line: &&str| {
        !line.contains(|c: char| c.is_alphanumeric() || c == '∞') && !line.contains("\\{")
    };
    let lines = || text.split_inclusive('\n');
    let skipped: usize = lines().take_while(is_blank).map(str::len).sum();
    // The mark of a quotation begins a line; elsewhere it is a relation.
    let rest = &text[skipped..];
    let rest = if skipped > 0 { without(rest, "> ") } else { rest };
    // A list of assignments, one a line.
    let is_item = |line: &&str| {
        let line = line.trim_start();
        let number = line.trim_start_matches(is_digit);
        line.starts_with("- ") && line.contains('=')
            || number.len() < line.len() && number.starts_with(". ")
    };
    let items: usize = rest.split_inclusive('\n').take_while(is_item).map(str::len).sum();
    if items > 0 {
        return &rest[..items];
    }
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
