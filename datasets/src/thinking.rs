//! Reasoning models think between `<think>` and `</think>` before they answer: what of a completion is the answer.
//!
//! A prompt may end with the opening tag already, so that completions hold the closing one alone; a thought may never
//! be closed, opened again after the answer, or stripped by a server. Nothing inside a thought is an answer.

use crate::{CompletionText, Grade, Problem, Verdict, Verifier};

/// How a thought begins.
pub const OPEN: &str = "<think>";
/// How it ends.
pub const CLOSE: &str = "</think>";

/// A completion in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text after the last closed thought; none where a thought was never closed and nothing follows it.
    pub answer: Option<&'a str>,
    /// Whether the last thought was closed; none where there is no thought.
    pub is_finished: Option<bool>,
}

/// Parts a completion; `starts_inside` says that its prompt ended with the opening tag.
pub fn parts(completion: &str, starts_inside: bool) -> Parts<'_> {
    let closed = completion.rfind(CLOSE);
    let rest = closed.map_or(completion, |at| &completion[at + CLOSE.len()..]);
    let (outside, is_reopened) = match rest.find(OPEN) {
        Some(at) => (&rest[..at], true),
        None => (rest, false),
    };
    let never_outside = closed.is_none() && starts_inside;
    let is_empty = is_reopened && outside.trim().is_empty();
    let has_thought = closed.is_some() || starts_inside || is_reopened;
    Parts {
        answer: (!never_outside && !is_empty).then_some(outside),
        is_finished: has_thought.then_some(closed.is_some() && !is_reopened),
    }
}

/// The answer of a completion whose prompt opened no thought; empty where there is none.
pub fn answer(completion: &str) -> &str {
    parts(completion, false).answer.unwrap_or("")
}

/// Has `verifier` judge what `completion` answers; see [`parts`].
pub fn judge(
    verifier: &dyn Verifier,
    problem: &Problem,
    completion: &str,
    starts_inside: bool,
) -> Verdict {
    grade(verifier, problem, completion, starts_inside).verdict
}

/// The same with what it earns.
pub fn grade(
    verifier: &dyn Verifier,
    problem: &Problem,
    completion: &str,
    starts_inside: bool,
) -> Grade {
    let answer = parts(completion, starts_inside).answer;
    verifier.grade(problem, CompletionText { full: completion, answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify;

    fn is_right(spec: &str, completion: &str, starts_inside: bool) -> bool {
        let problem = Problem::new("a", crate::Prompt::Text("2 + 2?".into()), "4");
        judge(&*verify::open(spec).unwrap(), &problem, completion, starts_inside).is_correct()
    }

    #[test]
    fn what_stands_outside_thoughts_is_the_answer() {
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
