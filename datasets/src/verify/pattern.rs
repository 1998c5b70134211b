//! `regex:PATTERN`: the last match of a pattern in the completion is the gold answer: its first group
//! where it has one, else all of it. Patterns are those of the `regex` crate, which runs in linear time.

use regex::Regex;

use crate::{Problem, Verdict, Verifier};

/// Most of a completion that is searched, from its end.
const MAX_SEARCHED: usize = 1 << 20;

/// Longest pattern that the reason to refuse it shows, in bytes.
const MAX_SHOWN: usize = 200;

/// Compares what a pattern finds with the answer, as text.
#[derive(Debug, Clone)]
pub struct Pattern {
    pattern: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let why = |error: regex::Error| match error.to_string() {
            // The pattern stands above the reason.
            why if pattern.len() > MAX_SHOWN => why.lines().last().unwrap_or_default().to_owned(),
            why => why,
        };
        Ok(Self { pattern: Regex::new(pattern).map_err(why)? })
    }
}

impl Verifier for Pattern {
    fn name(&self) -> &'static str {
        "regex"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let text = super::tail(completion, MAX_SEARCHED);
        let Some(captures) = self.pattern.captures_iter(text).last() else {
            return Verdict::NoAnswer;
        };
        let span = captures.get(1).or_else(|| captures.get(0)).map_or("", |span| span.as_str());
        if span.trim() == problem.answer.trim() {
            Verdict::correct(span.trim(), span.trim())
        } else {
            Verdict::Wrong {
                why: Some(format!("found `{}`", super::short(span))),
                answer: Some(span.trim().into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_said_of_a_long_pattern_is_short() {
        for pattern in ["(".repeat(10_000), "[a-".repeat(10_000), "a".repeat(300) + "{9}{9999999}"]
        {
            let error = crate::verify::open(&format!("regex:{pattern}")).err().expect("refused");
            let error = error.to_string();
            assert!(error.len() < 600 && !error.ends_with(": "), "{error}");
        }
    }
}
