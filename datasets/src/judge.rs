//! A verifier's judgement of one completion, whatever the verifier does: the one place from which verifiers are called.
//! `tests/it/tidy.rs` looks for calls elsewhere.
//!
//! A verifier is total by contract, and a contract can be broken: then the completion is unjudged, with the panic's
//! text as the reason, and all others are judged as usual. Such a completion gets reward 0 in training, like one that
//! is too costly to compare: its text caused the panic, and would again after `--resume`.

use crate::verify::math::{self, Checked, Mode};
use crate::{CompletionText, Grade, Problem, Verdict, Verifier, thinking};
use tealight_core::guard::caught;

/// How the reason begins where a verifier panicked.
pub const PANICKED: &str = "the verifier panicked";

/// Judges and rewards what a completion answers; `starts_inside` as in [`thinking::parts`].
pub fn grade(
    verifier: &dyn Verifier,
    problem: &Problem,
    completion: &str,
    starts_inside: bool,
) -> Grade {
    let answer = thinking::parts(completion, starts_inside).answer;
    grade_text(verifier, problem, CompletionText { full: completion, answer })
}

/// The same with a completion whose answer was told from its thoughts.
pub fn grade_text(
    verifier: &dyn Verifier,
    problem: &Problem,
    completion: CompletionText<'_>,
) -> Grade {
    caught(|| verifier.grade(problem, completion))
        .unwrap_or_else(|panic| Grade::from_verdict(panicked(verifier.name(), &panic)))
}

/// Judges a text that holds no thoughts.
pub fn verify(verifier: &dyn Verifier, problem: &Problem, text: &str) -> Verdict {
    caught(|| verifier.verify(problem, text))
        .unwrap_or_else(|panic| panicked(verifier.name(), &panic))
}

/// Checks a text by the verifier of mathematics, with the place of the answer.
///
/// # Errors
/// The verdict on a text that makes the verifier panic.
pub fn check<'a>(gold: &str, text: &'a str, mode: Mode) -> Result<Checked<'a>, Verdict> {
    caught(|| math::check(gold, text, mode)).map_err(|panic| panicked("math", &panic))
}

/// Whether a text gives a gold answer; `None` if the math verifier cannot decide.
pub fn same(gold: &str, text: &str) -> Option<bool> {
    if gold.trim() == text.trim() {
        return Some(true);
    }
    match check(gold, text, Mode::Flexible).ok()?.outcome {
        math::Outcome::Correct => Some(true),
        math::Outcome::Wrong => Some(false),
        _ => None,
    }
}

/// Why a gold answer cannot be compared with, where that can be seen without an answer.
pub fn refuse_gold(verifier: &dyn Verifier, gold: &str) -> Option<String> {
    caught(|| verifier.refuse_gold(gold))
        .unwrap_or_else(|panic| Some(reason(verifier.name(), &panic)))
}

/// Tries the verifier on a problem's gold answer; see [`Verifier::probe`].
///
/// # Errors
/// Why it cannot judge.
pub fn probe(verifier: &dyn Verifier, problem: &Problem) -> Result<Option<String>, String> {
    // That of its gold answer says nothing of other problems.
    caught(|| verifier.probe(problem))
        .unwrap_or_else(|panic| Ok(Some(reason(verifier.name(), &panic))))
}

fn panicked(name: &str, panic: &str) -> Verdict {
    Verdict::Unjudged { why: reason(name, panic), is_too_costly: true }
}

fn reason(name: &str, panic: &str) -> String {
    format!("{PANICKED} (please report the text): {name}: {panic}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tealight_core::Prompt;

    /// Panics on one text, and on one gold answer.
    struct Fragile;

    impl Verifier for Fragile {
        fn name(&self) -> &'static str {
            "fragile"
        }

        fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
            let lengths: [usize; 2] = [problem.answer.len(), completion.len()];
            assert!(completion != "panic", "no text of length {}", lengths[1]);
            Verdict::correct("class", "value")
        }

        fn refuse_gold(&self, gold: &str) -> Option<String> {
            assert!(gold != "panic", "no such gold");
            None
        }

        fn probe(&self, problem: &Problem) -> Result<Option<String>, String> {
            self.refuse_gold(&problem.answer).map_or(Ok(None), Err)
        }
    }

    #[test]
    fn a_panic_is_one_unjudged_completion_with_its_text() {
        let problem = Problem::new("p", Prompt::question("?"), "panic");
        let reason = |verdict: Verdict| match verdict {
            Verdict::Unjudged { why, is_too_costly: true } => why,
            other => panic!("{other:?}"),
        };
        let why = reason(verify(&Fragile, &problem, "panic"));
        assert!(why.contains("fragile: no text of length 5 (judge.rs:"), "{why}");
        reason(grade(&Fragile, &problem, "<think>7</think>panic", false).verdict);
        assert!(verify(&Fragile, &problem, "7").is_correct());
        assert!(refuse_gold(&Fragile, "panic").is_some_and(|why| why.contains("no such gold")));
        assert_eq!(refuse_gold(&Fragile, "7"), None);
        assert!(probe(&Fragile, &problem).unwrap().is_some_and(|why| why.contains("no such gold")));
    }

    #[test]
    fn one_of_several_verifiers_that_panics_takes_its_own_share_alone() {
        let rewards = crate::Rewards {
            verifiers: vec!["fragile".into(), "exact".into()],
            ..crate::Rewards::default()
        };
        let open = |spec: &str| (spec == "fragile").then(|| Arc::new(Fragile) as Arc<dyn Verifier>);
        let both = rewards.open(open).unwrap();
        let problem = Problem::new("p", Prompt::question("?"), "panic");
        let graded = grade(&*both, &problem, "panic", false);
        assert_eq!((graded.reward, graded.parts.as_slice()), (0.5, &[0.0, 1.0][..]));
    }
}
