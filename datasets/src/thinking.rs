//! Reasoning models think before they answer, between `<think>` and `</think>` or tags like them: what of a completion
//! is the answer.
//!
//! A prompt may end with the opening tag already, so that completions hold the closing one alone; a thought may never
//! be closed, opened again after the answer, or stripped by a server. Nothing inside a thought is an answer.

use memchr::memchr3_iter;

/// Tags around a thought, of the models of several makers.
const TAGS: [(&str, &str); 8] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<seed:think>", "</seed:think>"),
];

/// Harmony's channels: messages of the first two are thoughts, those of the last one answers.
const CHANNELS: [&str; 3] = ["<|channel|>analysis", "<|channel|>commentary", "<|channel|>final"];
/// How the text of a message begins.
const MESSAGE: &str = "<|message|>";
/// Harmony's last channel where a server left out the special tokens.
const STRIPPED_FINAL: &str = "assistantfinal";

/// A completion in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text after the last closed thought; none where a thought was never closed and nothing follows it.
    pub answer: Option<&'a str>,
    /// Whether the last thought was closed; none where there is no thought.
    pub is_finished: Option<bool>,
}

/// A tag of a thought in a text.
struct Tag {
    start: usize,
    end: usize,
    is_closing: bool,
}

/// The tags of thoughts, in order.
fn tags(text: &str) -> impl Iterator<Item = Tag> + '_ {
    // The first bytes of all tags.
    memchr3_iter(b'<', b'[', "◁".as_bytes()[0], text.as_bytes()).filter_map(|start| {
        let rest = text.get(start..)?;
        // `<<48/2=24>>`, `a < b`: most signs begin no tag.
        let is_tag = |byte: &u8| byte.is_ascii_alphabetic() || b"/|".contains(byte) || *byte > 127;
        rest.as_bytes().get(1).filter(|byte| is_tag(byte))?;
        let tag = |length: usize, is_closing| Tag { start, end: start + length, is_closing };
        for (open, close) in TAGS {
            if rest.starts_with(close) {
                return Some(tag(close.len(), true));
            }
            if rest.starts_with(open) {
                return Some(tag(open.len(), false));
            }
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
    if closed.is_none() && completion.starts_with("analysis") {
        closed = completion.rfind(STRIPPED_FINAL).map(|at| at + STRIPPED_FINAL.len());
        opened = opened.filter(|at| closed.is_none_or(|closed| *at > closed));
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

/// The tag that opens a thought at the end of a prompt, as templates of reasoning models write it.
pub fn opening(prompt: &str) -> Option<&'static str> {
    TAGS.iter().map(|(open, _)| *open).find(|open| prompt.trim_end().ends_with(open))
}

/// Whether a prompt ends with a tag that opens a thought.
pub fn opens(prompt: &str) -> bool {
    opening(prompt).is_some()
}

/// How many tags close a thought.
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
            ("analysis of the sum: 4", false, Some("analysis of the sum: 4"), None),
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
