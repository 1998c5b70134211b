//! Countdown: an expression that uses each given number once and equals the target, exactly.
//!
//! The problem's `answer` is the problem itself, `3,7,8,9=24`. The class of a right answer is the
//! canonical form of its expression (see [`Expression::canonical`]).

use num_rational::BigRational;

use super::Expression;
use crate::{Problem, Verdict, Verifier};

/// Longest completion that is parsed: no answer to five numbers is longer.
const MAX_BYTES: usize = 256;

/// Checks Countdown answers.
#[derive(Debug, Clone, Copy)]
pub struct Countdown;

impl Verifier for Countdown {
    fn name(&self) -> &'static str {
        "countdown"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let completion = completion.trim();
        if completion.is_empty() {
            return Verdict::NoAnswer;
        }
        if completion.len() > MAX_BYTES {
            return Verdict::Unparsable { found: completion.chars().take(64).collect() };
        }
        let Ok(expression) = Expression::parse(completion) else {
            return Verdict::Unparsable { found: completion.into() };
        };
        let Some((numbers, target)) = parse_problem(&problem.answer) else {
            return Verdict::Unparsable { found: problem.answer.clone() };
        };
        let mut used = expression.numbers();
        used.sort_unstable();
        let is_right =
            used == numbers && expression.value() == Some(BigRational::from_integer(target.into()));
        if is_right { Verdict::Correct { class: expression.canonical() } } else { Verdict::Wrong }
    }
}

/// Reads `3,7,8,9=24` into the sorted numbers and the target.
pub fn parse_problem(text: &str) -> Option<(Vec<u32>, u32)> {
    let (numbers, target) = text.split_once('=')?;
    let mut numbers: Vec<u32> =
        numbers.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
    numbers.sort_unstable();
    Some((numbers, target.trim_end_matches(':').trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prompt;

    fn verdict(completion: &str) -> Verdict {
        let problem = Problem {
            id: "p".into(),
            prompt: Prompt::Text("3,3,8,8=24:".into()),
            answer: "3,3,8,8=24".into(),
            solution: None,
        };
        Countdown.verify(&problem, completion)
    }

    #[test]
    fn each_number_must_be_used_exactly_once() {
        assert!(verdict("8/(3-8/3)").is_correct());
        assert_eq!(verdict("8*3"), Verdict::Wrong);
        assert_eq!(verdict("8*3+3-3"), Verdict::Wrong);
        assert_eq!(verdict("8*3+8-8"), Verdict::Wrong);
        assert_eq!(verdict("3+3+8+8"), Verdict::Wrong);
        assert_eq!(verdict("8/(3-3)+8"), Verdict::Wrong);
        assert_eq!(verdict("  "), Verdict::NoAnswer);
        assert!(matches!(verdict("8/(3-8/3"), Verdict::Unparsable { .. }));
        assert!(matches!(verdict(&"8+".repeat(500_000)), Verdict::Unparsable { .. }));
    }
}
