//! Reasoning models think before they answer, between `<think>` and `</think>` or marks like them: what of a completion
//! is the answer.
//!
//! A prompt may end with the opening mark already, so that completions hold the closing one alone; a thought may never
//! be closed, opened again after the answer, or stripped by a server. Nothing inside a thought is an answer.

use memchr::memchr3_iter;

use crate::verify::tail;

/// The last word of a mark's name is one of these: `<Think>`, `<seed:think>`, `<|END_THINKING|>`, `[THINK]`.
const THOUGHT: [&str; 6] = ["think", "thinking", "thought", "thoughts", "reasoning", "cot"];
/// Words of a name that say which end of a thought it marks, and those that say that it marks none.
const BEGINS: [&str; 5] = ["begin", "of", "start", "open", "prefix"];
const ENDS: [&str; 4] = ["end", "close", "stop", "suffix"];
const NOT: [&str; 3] = ["no", "not", "non"];
/// Most characters inside a mark with attributes, `<think time=3>`, and bytes of a prompt's end that are searched for
/// one.
const LONGEST: usize = 96;
/// Marks whose names do not say it: Gemma's and MedGemma's.
const NAMELESS: [(&str, bool); 4] = [
    ("<|channel>thought", false),
    ("<channel|>", true),
    ("<unused94>thought", false),
    ("<unused95>", true),
];

/// Harmony's channels: messages of the first two are thoughts, those of the last one answers.
const CHANNELS: [&str; 3] = ["<|channel|>analysis", "<|channel|>commentary", "<|channel|>final"];
/// How the text of a message begins.
const MESSAGE: &str = "<|message|>";
/// Harmony's channels where a server left out the special tokens.
const STRIPPED: [&str; 3] = ["analysis", "assistant", "final"];

/// A completion in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text after the last closed thought; none where a thought was never closed and nothing follows it.
    pub answer: Option<&'a str>,
    /// Whether the last thought was closed; none where there is no thought.
    pub is_finished: Option<bool>,
}

/// A mark of a thought in a text.
struct Tag {
    start: usize,
    end: usize,
    is_closing: bool,
}

/// The length of the mark that a text begins with, and whether it closes a thought. `details` counts a thought's open
/// `<details>`.
fn mark(text: &str, details: &mut usize) -> Option<(usize, bool)> {
    if let Some((mark, is_closing)) = NAMELESS.iter().find(|(mark, _)| text.starts_with(mark)) {
        return Some((mark.len(), *is_closing));
    }
    let (open, close) = [('<', '>'), ('[', ']'), ('◁', '▷')]
        .into_iter()
        .find(|(open, _)| text.starts_with(*open))?;
    let inner = &text[open.len_utf8()..];
    // `<<48/2=24>>`, `[0, 1]`: most signs begin no mark.
    let is_first = |letter: char| letter.is_alphabetic() || "/|｜ ".contains(letter);
    inner.starts_with(is_first).then_some(())?;
    let length = inner.char_indices().take(LONGEST).find(|(_, letter)| *letter == close)?.0;
    let body = inner[..length].trim();
    let bare = body.trim_matches(['|', '｜']);
    let name = bare.trim_start_matches('/').trim_start();
    let (name, attributes) = name.split_once(char::is_whitespace).unwrap_or((name, ""));
    let is_slashed = bare.starts_with('/');
    let length = open.len_utf8() + length + close.len_utf8();
    // Open WebUI's; other details are part of an answer, or of the thought that they stand in.
    if name == "details" {
        let opens = attributes.contains("type=\"reasoning\"");
        let depth = *details;
        *details = match is_slashed {
            true => depth.saturating_sub(1),
            false => depth + usize::from(opens || depth > 0),
        };
        return (opens || is_slashed && depth == 1).then_some((length, is_slashed));
    }
    let is_plain = !attributes.trim().is_empty() && !attributes.contains('=');
    if is_plain || name.ends_with('/') || open == '[' && name != "THINK" {
        return None;
    }
    let lower = name.to_lowercase();
    let words =
        || lower.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
    let is_side = |word: &&str| BEGINS.contains(word) || ENDS.contains(word);
    let last = words().rfind(|word| !is_side(word))?;
    // Apertus' `<|inner_prefix|>`.
    let is_thought =
        THOUGHT.contains(&last) || last == "inner" && words().any(|word| is_side(&word));
    let is_closing = is_slashed || words().any(|word| ENDS.contains(&word));
    (is_thought && !words().any(|word| NOT.contains(&word))).then_some((length, is_closing))
}

/// The marks of thoughts, in order.
fn tags(text: &str) -> impl Iterator<Item = Tag> + '_ {
    let mut details = 0;
    // The first bytes of all marks.
    memchr3_iter(b'<', b'[', "◁".as_bytes()[0], text.as_bytes()).filter_map(move |start| {
        let rest = text.get(start..)?;
        let tag = |length: usize, is_closing| Tag { start, end: start + length, is_closing };
        if let Some((length, is_closing)) = mark(rest, &mut details) {
            return Some(tag(length, is_closing));
        }
        let number = CHANNELS.iter().position(|channel| rest.starts_with(channel))?;
        let name = CHANNELS[number].len();
        // `<|channel|>final <|constrain|>json<|message|>`
        let head = rest.as_bytes().get(..name + 64).unwrap_or(rest.as_bytes());
        let next = memchr::memmem::find(&head[name..], b"<|channel");
        let head = &head[..next.map_or(head.len(), |at| name + at)];
        let message = memchr::memmem::find(head, MESSAGE.as_bytes());
        Some(tag(message.map_or(name, |at| at + MESSAGE.len()), number == 2))
    })
}

/// Where the answer begins in a text of Harmony's channels without their tokens, and whether it is one at all:
/// `analysis` at its start, before a capital letter where no last channel follows.
fn stripped(text: &str) -> Option<Option<usize>> {
    let [analysis, assistant, last] = STRIPPED;
    let thought = text.strip_prefix(analysis)?;
    let mut ends = memchr::memmem::rfind_iter(text.as_bytes(), assistant).filter_map(|at| {
        let joined = &text[at + assistant.len()..];
        let is_inside = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == ' ');
        let rest = if is_inside { joined } else { joined.trim_start() };
        let answer = rest.strip_prefix(last)?;
        // The assistant finally answers.
        let is_mark = rest.len() == joined.len() || !answer.starts_with(char::is_lowercase);
        is_mark.then(|| text.len() - answer.len())
    });
    let end = ends.next();
    let is_joined = thought.starts_with(char::is_uppercase);
    (end.is_some() || is_joined).then_some(end)
}

/// Parts a completion; `starts_inside` says that its prompt ended with the opening tag.
pub fn parts(completion: &str, starts_inside: bool) -> Parts<'_> {
    let (mut closed, mut opened): (Option<usize>, Option<usize>) = (None, None);
    let mut read = 0;
    for tag in tags(completion) {
        // A tag inside of another: `<|channel|>final <think><|message|>`.
        if tag.start < read {
            continue;
        }
        read = tag.end;
        match tag.is_closing {
            true => (closed, opened) = (Some(tag.end), None),
            false => opened = opened.or(Some(tag.start)),
        }
    }
    if let (None, Some(end)) = (closed, stripped(completion)) {
        closed = end;
        opened = match end {
            Some(end) => opened.filter(|at| *at > end),
            None => Some(0),
        };
    }
    let start = closed.unwrap_or(0);
    let outside = &completion[start..opened.unwrap_or(completion.len())];
    let is_reopened = opened.is_some();
    let never_outside = closed.is_none() && starts_inside;
    let is_empty = is_reopened && outside.trim().is_empty();
    let has_thought = closed.is_some() || starts_inside || is_reopened;
    Parts {
        answer: (!never_outside && !is_empty).then_some(outside),
        is_finished: has_thought.then_some(closed.is_some() && !is_reopened),
    }
}

/// The mark that opens a thought at the end of a prompt, as templates of reasoning models write it.
pub fn opening(prompt: &str) -> Option<&str> {
    let tail = tail(prompt.trim_end(), LONGEST);
    let last = tags(tail).last().filter(|tag| tag.end == tail.len() && !tag.is_closing)?;
    Some(&tail[last.start..])
}

/// Whether a prompt ends with a mark that opens a thought.
pub fn opens(prompt: &str) -> bool {
    opening(prompt).is_some()
}

/// Whether a completion closes a thought that it did not open, as its prompt then did.
pub fn closes_unopened(completion: &str) -> bool {
    let first = tags(completion).next().filter(|tag| tag.is_closing);
    first.is_some_and(|tag| !completion[tag.start..].starts_with(CHANNELS[2]))
}

/// How many marks close a thought.
pub fn closings(completion: &str) -> usize {
    tags(completion).filter(|tag| tag.is_closing).count()
}

/// The answer of a completion whose prompt opened no thought; empty where there is none.
pub fn answer(completion: &str) -> &str {
    parts(completion, false).answer.unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Problem, judge, verify};

    fn is_right(spec: &str, completion: &str, starts_inside: bool) -> bool {
        let problem = Problem::new("a", tealight_core::Prompt::Text("2 + 2?".into()), "4");
        let verifier = verify::open(spec).unwrap();
        judge::grade(&*verifier, &problem, completion, starts_inside).verdict.is_correct()
    }

    #[test]
    fn answer_is_the_text_outside_thoughts() {
        for (completion, starts_inside, answer, is_finished) in [
            ("4", false, Some("4"), None),
            // The prompt opened it (trl#6966, trl#7141).
            ("2 plus 2.</think>\nIt is 4.", true, Some("\nIt is 4."), Some(true)),
            // The same, from a file that does not say so; and with both tags.
            ("2 plus 2.</think>4", false, Some("4"), Some(true)),
            ("<think>2 plus 2.</think>4", false, Some("4"), Some(true)),
            // Never closed: all of it is thought.
            ("so \\boxed{4}", true, None, Some(false)),
            ("<think>so \\boxed{4}", false, None, Some(false)),
            // Several; nested; one that is opened again.
            ("<think>3</think>3<think>no</think>4", false, Some("4"), Some(true)),
            ("<think>a<think>b</think>4", false, Some("4"), Some(true)),
            ("<think>a</think>4<think>or 5", false, Some("4"), Some(false)),
            ("<think>a</think> <think>or 5", false, None, Some(false)),
            // Thoughts and nothing else.
            ("<think>4</think>", false, Some(""), Some(true)),
            ("", true, None, Some(false)),
            // Other makers' tags.
            ("<thinking>8</thinking>4", false, Some("4"), Some(true)),
            ("<thought>8</thought>4", false, Some("4"), Some(true)),
            (
                "<reasoning>8</reasoning><answer>4</answer>",
                false,
                Some("<answer>4</answer>"),
                Some(true),
            ),
            ("[THINK]8[/THINK]4", false, Some("4"), Some(true)),
            ("◁think▷8◁/think▷4", false, Some("4"), Some(true)),
            ("8◁/think▷4", true, Some("4"), Some(true)),
            ("[THINK]8", false, None, Some(false)),
            // Harmony: the answer is in the last channel, or there is none.
            (
                "<|channel|>analysis<|message|>8<|end|><|start|>assistant<|channel|>final<|message|>4",
                false,
                Some("4"),
                Some(true),
            ),
            ("<|channel|>analysis<|message|>4<|end|>", false, None, Some(false)),
            // Broken tags of channels.
            (
                "8<|channel|>final<|mes 5<|channel|>analysis<|message|>4",
                false,
                Some("<|mes 5"),
                Some(false),
            ),
            ("<|channel|>final <think><|message|>4", false, Some("4"), Some(true)),
            ("analysisWe add 2 and 2.assistantfinal4", false, Some("4"), Some(true)),
            ("analysis 8.assistant final 4", false, Some(" 4"), Some(true)),
            ("analysisThe user asks. So \\boxed{4}", false, None, Some(false)),
            ("analysisLet the assistant finally say 4", false, None, Some(false)),
            ("analysis\n\nIt is 4", false, Some("analysis\n\nIt is 4"), None),
            ("analysis of the sum: 4", false, Some("analysis of the sum: 4"), None),
            // Marks by their names, whatever their case and brackets.
            ("<|channel>thought\n8<channel|>4", false, Some("4"), Some(true)),
            ("<|channel>thought\n\\boxed{4}", false, None, Some(false)),
            ("<unused94>thought\n8<unused95>4", false, Some("4"), Some(true)),
            ("<|START_THINKING|>8<|END_THINKING|>4", false, Some("4"), Some(true)),
            ("<longcat_think>8</longcat_think>4", false, Some("4"), Some(true)),
            ("<|inner_prefix|>8<|inner_suffix|>4", false, Some("4"), Some(true)),
            ("<｜begin▁of▁thinking｜>8<｜end▁of▁thinking｜>4", false, Some("4"), Some(true)),
            ("<|think|>8<|/think|>4", false, Some("4"), Some(true)),
            ("<Think time=\"3\">8</ think >4", false, Some("4"), Some(true)),
            (
                "<details type=\"reasoning\" done=\"true\">8</details>4<details>5</details>",
                false,
                Some("4<details>5</details>"),
                Some(true),
            ),
            (
                "<details type=\"reasoning\">8<details>5</details></details>4",
                false,
                Some("4"),
                Some(true),
            ),
            // Names of something else.
            ("[Think] 4", false, Some("[Think] 4"), None),
            ("<no_think>4", false, Some("<no_think>4"), None),
            ("<thinking_time>4", false, Some("<thinking_time>4"), None),
            ("[Reasoning] so [Answer] 4", false, Some("[Reasoning] so [Answer] 4"), None),
            ("<think twice> 4</details>", false, Some("<think twice> 4</details>"), None),
            ("<think/>4", false, Some("<think/>4"), None),
            // No tag at all.
            ("a < b, [x], ◁", false, Some("a < b, [x], ◁"), None),
        ] {
            let split = parts(completion, starts_inside);
            assert_eq!(split, Parts { answer, is_finished }, "{completion}");
        }
    }

    #[test]
    fn no_verifier_finds_an_answer_in_a_thought() {
        for spec in ["math", "math:strict", "exact", "numeric", "regex:([0-9]+)"] {
            assert!(!is_right(spec, "<think>\\boxed{4}", false), "{spec}");
            assert!(!is_right(spec, "\\boxed{4}", true), "{spec}");
            assert!(!is_right(spec, "<think>\\boxed{4}</think>", false), "{spec}");
            assert!(!is_right(spec, "<think>\\boxed{4}</think>5", false), "{spec}");
        }
        for spec in ["math", "exact", "numeric", "regex:([0-9]+)"] {
            assert!(is_right(spec, "<think>5</think>4", false), "{spec}");
            assert!(is_right(spec, "5</think>4", true), "{spec}");
        }
    }
}
