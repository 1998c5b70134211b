//! The verifier of every task: a completion, without the spaces around it, is an answer or is not.
//!
//! The problem's `answer` is its statement. A verdict costs at most one step a character of a completion of at most
//! [`MAX_BYTES`]; longer ones are not read.

use super::{Checked, Kind, MAX_BYTES};
use crate::{Problem, Verdict, Verifier, verify};

/// Checks answers to a task.
#[derive(Clone, Copy)]
pub struct Judge(pub &'static Kind);

impl Verifier for Judge {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let text = completion.trim();
        if text.is_empty() {
            return Verdict::NoAnswer;
        }
        if text.len() > MAX_BYTES {
            return Verdict::Unparsable { found: verify::short(text) };
        }
        match (self.0.check)(&problem.answer, text) {
            None => Verdict::unjudged(self.unreadable(&problem.answer)),
            Some(Checked::Answer(class)) => Verdict::correct(&class, &class),
            Some(Checked::Wrong(why)) => {
                Verdict::Wrong { why: Some(why.into()), answer: Some(text.into()) }
            }
            Some(Checked::Foreign(_)) => Verdict::Unparsable { found: verify::short(text) },
        }
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        (self.0.check)(gold, "").is_none().then(|| self.unreadable(gold))
    }
}

impl Judge {
    fn unreadable(&self, statement: &str) -> String {
        format!("`{}` is not a statement of task {}", verify::short(statement), self.0.name)
    }
}
