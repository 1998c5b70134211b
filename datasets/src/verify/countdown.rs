//! Countdown: an expression that uses each given number once and equals the target, exactly.
//!
//! The problem's `answer` is the problem itself, `3,7,8,9=24`. The class of a correct answer is the
//! canonical form of its expression (see [`Expression::canonical`]); its features are its operators and its shape (see
//! [`Expression::features`]).

use dashu_ratio::RBig;

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

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        parse_problem(gold).is_none().then(|| "it is not numbers=target".into())
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
            let gold = super::short(&problem.answer);
            return Verdict::unjudged(format!("the gold `{gold}` is not numbers=target"));
        };
        let mut used = expression.numbers();
        used.sort_unstable();
        if used != numbers {
            return Verdict::because("uses other numbers than the given ones".into());
        }
        match expression.value() {
            None => Verdict::because("divides by zero".into()),
            Some(value) if value == RBig::from(target) => {
                let (class, value) = (expression.canonical(), target.to_string());
                Verdict::with_features(&class, &value, expression.features())
            }
            Some(value) => Verdict::Wrong {
                why: Some(format!("comes to {value}, not {target}")),
                answer: Some(value.to_string()),
            },
        }
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
        let problem = Problem::new("p", Prompt::Text("3,3,8,8=24:".into()), "3,3,8,8=24");
        Countdown.verify(&problem, completion)
    }

    #[test]
    fn each_number_must_be_used_exactly_once() {
        assert!(verdict("8/(3-8/3)").is_correct());
        for (text, why) in [
            ("8*3", "other numbers"),
            ("8*3+3-3", "other numbers"),
            ("8*3+8-8", "other numbers"),
            ("3+3+8+8", "comes to 22"),
            ("8/(3-3)+8", "divides by zero"),
        ] {
            match verdict(text) {
                Verdict::Wrong { why: Some(said), .. } => {
                    assert!(said.contains(why), "{text}: {said}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(verdict("  "), Verdict::NoAnswer);
        assert!(matches!(verdict("8/(3-8/3"), Verdict::Unparsable { .. }));
        assert!(matches!(verdict(&"8+".repeat(500_000)), Verdict::Unparsable { .. }));
    }
}
