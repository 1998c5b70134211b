//! The part of a completion that is searched: without thoughts, up to the end of the turn, and up to a next question
//! that a model without an end goes on with.

use memchr::{memchr_iter, memchr2_iter, memmem};

use super::super::super::tail;
use super::super::scan::{before_end, begins, head, is_digit, is_one_of, lowered, without};

/// Text beyond this is searched only at its end.
const MAX_SEARCHED: usize = 64 << 10;
/// Most next questions that are looked at.
const MAX_QUESTIONS: usize = 4;

/// How special tokens begin that end a turn, or begin that of another.
const ENDS: &str = "<|im_end <|eot <|EOT <|end|> <|endoftext|> <|end_of_text|> <|end_of_turn|> <|eom <|return|> <|\
    user <|system <|observation </s> <eos> <end_of_turn> <end_of_utterance> <｜end <｜User [EOS] [INST]";

/// The same of those that may begin a turn of the model.
const TURNS: &str =
    "<|im_ <|end_header <|start <|assistant <|pad <pad> <start_of_turn> <｜ [/INST]";

/// Names of tags around notes that a model writes for itself.
const NOTES: &str = "scratch|plan|planning|inner_thoughts|thoughts|critique|notes|reflection|scratchpad|reflect|\
    analysis|draft|verification";

/// What a next question is called, before its number and a colon.
const QUESTIONS: &str = "next problem|here's another problem|here is another problem|let's try another problem|question|problem|q|exercise|human|user|instruction|input|example|task|prompt|query|问题|题目|問題|質問|\
    习题|질문|문제|pregunta|problema|ejercicio|pergunta|questão|exercício|domanda|esercizio|exercice|problème|frage|\
    aufgabe|вопрос|задача|vraag|opgave|soru|soal|câu|câu hỏi|bài|bài toán|swali|zadanie|pytanie|السؤال|سؤال|\
    প্রশ্ন|प्रश्न|सवाल|คำถาม|โจทย์";

/// The part of a completion that holds its answer.
pub(super) fn searched(completion: &str) -> &str {
    let text = crate::thinking::answer(tail(completion, MAX_SEARCHED));
    let turn = turn(text);
    // A turn without tokens.
    let end =
        memmem::find(turn.as_bytes(), b"\nuser\n").filter(|end| !turn[..*end].trim().is_empty());
    without_notes(&turn[..end.unwrap_or(turn.len())])
}

/// The text behind the last note, or before it where nothing follows: a reflection is no answer.
fn without_notes(text: &str) -> &str {
    let mut text = text;
    for _ in 0..8 {
        let opened = memchr_iter(b'<', text.as_bytes()).rev().filter(|at| begins_tag(text, *at));
        let mut named = opened.map(|at| (at, head(&text[at + 1..], 20).split('>').next()));
        let found = named.find(|(_, name)| name.is_some_and(|name| is_one_of(name, NOTES)));
        let Some((at, Some(name))) = found else { break };
        let close = format!("</{name}>");
        let end = text[at..].find(&close).map_or(text.len(), |end| at + end + close.len());
        if text[end..].contains(char::is_alphanumeric) {
            return &text[end..];
        }
        text = &text[..at];
    }
    text
}

/// Whether a letter or mark of tags follows the sign at `at`: most signs begin none.
fn begins_tag(text: &str, at: usize) -> bool {
    let next = text.as_bytes().get(at + 1);
    next.is_some_and(|byte| byte.is_ascii_alphabetic() || b"/|".contains(byte) || *byte > 127)
}

/// Roles before the text of a turn, of the model and of others.
const ROLES: &str = "assistant\n|model\n";
const OTHERS: &str = "user\n|system\n|human\n|tool\n";

/// The text of the first turn that has any; none where an end comes first, or where another speaks.
fn turn(text: &str) -> &str {
    let is_any = |at: usize, tokens: &'static str| {
        tokens.split(' ').any(|token| text[at..].starts_with(token))
    };
    let (mut start, mut end) = (0, text.len());
    for at in memchr2_iter(b'<', b'[', text.as_bytes()) {
        if at < start || !begins_tag(text, at) {
            continue;
        }
        let is_end = is_any(at, ENDS);
        if !is_end && !is_any(at, TURNS) {
            continue;
        }
        // A completion may begin with the tokens that begin a turn, and its role.
        if is_end || !is_one_of(text[start..at].trim(), "|assistant|model|final") {
            end = at;
            break;
        }
        start = text[at..].find(['>', ']']).map_or(text.len(), |end| at + end + 1);
    }
    let turn = &text[start..end];
    match start {
        0 => turn,
        _ if begins(turn, OTHERS) => "",
        _ => without(turn, ROLES),
    }
}

/// Where next questions begin: `Question:`, `**Problem 2:**`, `Q:` after the end of a line or sentence.
pub(super) fn next_questions(text: &str) -> impl Iterator<Item = usize> + '_ {
    // The first byte of a colon, or of one in full width.
    memchr2_iter(b':', 0xef, text.as_bytes())
        .filter(|at| text.is_char_boundary(*at) && text[*at..].starts_with([':', '：']))
        .filter_map(|at| question(text, at))
        // `## Problem 2`
        .chain(memmem::find_iter(text.as_bytes(), "\n#").filter_map(|at| {
            let line = text[at + 1..].lines().next()?;
            // `#### 18` has no name.
            let is_named = line.ends_with(is_digit)
                && line.bytes().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
            is_named.then(|| question(text, at + 1 + line.len())).flatten()
        }))
        .take(MAX_QUESTIONS)
}

/// Where the question begins whose name ends with the colon at `colon`.
fn question(text: &str, colon: usize) -> Option<usize> {
    let is_number = |c: char| c == ' ' || c == '*' || c == '#' || c.is_ascii_digit();
    // Names are short: a colon after a long number costs no more than one after a name.
    let near = tail(&text[..colon], 40);
    let head = colon - near.len();
    let named = near.trim_end_matches(is_number);
    named.ends_with(|c: char| c.is_alphabetic() || !c.is_ascii()).then_some(())?;
    let small = lowered(named);
    let marks = [' ', '*', '#', '>', '\t', '_', '['];
    let before = before_end(&small, QUESTIONS)?.trim_end_matches(marks);
    let before = &named[..before.len()];
    let is_first = head == 0 && before.is_empty();
    let ends = ['\n', '.', '!', '?', '}', '$', '>', '。', ')'];
    (!is_first && before.ends_with(ends)).then_some(head + before.len())
}
