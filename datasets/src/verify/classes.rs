//! Solution classes by a function of the user's, `python:FILE.py:FUNCTION`, beside any verifier.
//!
//! The function is given a correct completion, and by name `gold`, `prompt`, `messages` and `id`. It returns the class,
//! a text, a number or a list; None leaves the verifier's. It runs in the workers that Python verifiers run in.

use std::sync::Arc;

use super::{Program, python};
use crate::{CompletionText, DataError, Grade, Grading, Problem, Result, Verdict, Verifier};

/// A verifier whose correct completions have the classes of a function.
pub(crate) struct WithClasses {
    verifier: Arc<dyn Verifier>,
    function: Program,
    spec: String,
}

impl WithClasses {
    /// Opens the function that `spec` names.
    pub(crate) fn open(spec: &str, verifier: Arc<dyn Verifier>) -> Result<Arc<dyn Verifier>> {
        let refused = |what| DataError::Verifier { spec: spec.into(), what };
        let argument = spec.strip_prefix("python:").ok_or_else(|| {
            refused("--classes takes a Python function: python:FILE.py:FUNCTION".to_owned())
        })?;
        let function = python::open(argument, "classes").map_err(refused)?;
        Ok(Arc::new(Self { verifier, function, spec: spec.to_owned() }))
    }

    /// The verdict with the function's class. Where the function fails, nothing is known of the completion's class, and
    /// the verdict says so.
    fn classed(&self, problem: &Problem, completion: &str, verdict: Verdict) -> Verdict {
        let Verdict::Correct { class, value } = verdict else { return verdict };
        match self.function.class(problem, completion) {
            Ok(named) => Verdict::Correct { class: named.unwrap_or(class), value },
            Err(why) => Verdict::unjudged(format!("its solution class: {why}")),
        }
    }
}

impl Verifier for WithClasses {
    fn name(&self) -> &'static str {
        self.verifier.name()
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        self.classed(problem, completion, self.verifier.verify(problem, completion))
    }

    fn grade(&self, problem: &Problem, completion: CompletionText<'_>) -> Grade {
        let grade = self.verifier.grade(problem, completion);
        let text = completion.answer.unwrap_or(completion.full);
        Grade { verdict: self.classed(problem, text, grade.verdict), ..grade }
    }

    fn grading(&self) -> Grading {
        let grading = self.verifier.grading();
        Grading { identity: format!("{} classes={}", grading.identity, self.spec), ..grading }
    }

    fn asks_for_a_box(&self) -> bool {
        self.verifier.asks_for_a_box()
    }

    fn reads_thoughts(&self) -> bool {
        self.verifier.reads_thoughts()
    }

    fn complaint(&self) -> Option<String> {
        self.verifier.complaint().or_else(|| self.function.complaint())
    }

    fn probe(&self, problem: &Problem) -> std::result::Result<Option<String>, String> {
        let gold = super::math::gold(&problem.answer);
        self.function.class(problem, &gold).map_err(|why| format!("--classes: {why}"))?;
        self.verifier.probe(problem)
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        self.verifier.refuse_gold(gold)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::verify;
    use tealight_core::Prompt;

    #[test]
    fn a_function_names_the_classes_of_correct_completions() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.py");
        let text = "def by_words(completion, gold):\n    if 'fail' in completion:\n        raise ValueError('no')\n    \
                    return None if 'none' in completion else (len(completion.split()), gold)\n\n\
                    def none():\n    return 1\n";
        std::fs::write(&file, text).unwrap();
        let open = |function: &str| {
            WithClasses::open(
                &format!("python:{}:{function}", file.display()),
                verify::open("math").unwrap(),
            )
        };
        let classes = match open("by_words") {
            Ok(classes) => classes,
            Err(why) => {
                eprintln!("no python3, not tested: {why}");
                return;
            }
        };
        let problem = Problem::new("p", Prompt::Text("?".into()), "7");
        let class = |text: &str| match classes.verify(&problem, text) {
            Verdict::Correct { class, .. } => class,
            other => format!("{other:?}"),
        };
        assert_eq!(class("it is 7"), "(3, '7')");
        assert_eq!(class("so it is 7"), "(4, '7')");
        assert_eq!(class("none 7"), "7", "the verifier's");
        assert!(class("it is 8").starts_with("Wrong"));
        assert!(class("fail 7").contains("ValueError: no"));
        assert_eq!(classes.name(), "math");
        assert!(classes.grading().identity.contains("by_words"));
        assert!(WithClasses::open("exact", verify::open("math").unwrap()).is_err());
    }
}
