//! `exact`: the completion is the gold answer, white space at the ends aside.

use crate::{Problem, Verdict, Verifier};

/// Compares the whole completion with the answer, as text.
#[derive(Debug, Clone, Copy)]
pub struct Exact {
    /// Whether upper and lower case are one.
    pub ignores_case: bool,
}

impl Verifier for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let (gold, answer) = (problem.answer.trim(), completion.trim());
        if answer.is_empty() {
            return Verdict::NoAnswer;
        }
        let is_same =
            gold == answer || (self.ignores_case && gold.to_lowercase() == answer.to_lowercase());
        if is_same { Verdict::correct(gold, gold) } else { Verdict::wrong() }
    }
}
