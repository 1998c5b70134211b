//! `numeric[:rel=R,abs=A]`: the answer's number lies within a tolerance of the gold's:
//! `|a - g| <= max(A, R |g|)`, 1e-6 relative unless said otherwise.

use super::math::{self, Mode};
use crate::{Problem, Verdict, Verifier};

/// Compares numbers within a tolerance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numeric {
    /// Tolerance as a share of the gold's size.
    pub relative: f64,
    /// Tolerance as it is.
    pub absolute: f64,
}

impl Numeric {
    /// Reads `rel=1e-4,abs=0.5`; what is not named keeps its default.
    ///
    /// # Errors
    /// A key or a value that is none.
    pub fn new(argument: &str) -> Result<Self, String> {
        let mut read = Self { relative: 1e-6, absolute: 0.0 };
        for part in argument.split(',').filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is not key=value"))?;
            let value: f64 = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
            if !value.is_finite() || value < 0.0 {
                return Err(format!("a tolerance of {value} is not 0 or more"));
            }
            match key {
                "rel" => read.relative = value,
                "abs" => read.absolute = value,
                other => return Err(format!("`{other}` is not one of rel, abs")),
            }
        }
        Ok(read)
    }
}

impl Verifier for Numeric {
    fn name(&self) -> &'static str {
        "numeric"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let Some(gold) = math::number(&problem.answer) else {
            return Verdict::unjudged(format!(
                "the gold `{}` is no number",
                super::short(&problem.answer)
            ));
        };
        let Some(found) = math::answer::find(completion, Mode::Flexible) else {
            return Verdict::NoAnswer;
        };
        let Some(answer) = math::number(&found.text) else {
            return Verdict::Unparsable { found: super::short(&found.text) };
        };
        if (answer - gold).abs() <= self.absolute.max(self.relative * gold.abs()) {
            Verdict::correct(&math::solution(completion, &found.text), &gold.to_string())
        } else {
            Verdict::Wrong {
                why: Some(format!("{answer} is not within the tolerance of {gold}")),
                answer: Some(answer.to_string()),
            }
        }
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        math::number(gold).is_none().then(|| "it is no number".into())
    }
}
