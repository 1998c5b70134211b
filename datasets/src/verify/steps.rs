//! `chain` and `walk`: a sequence of moves with running totals, replayed exactly.
//!
//! The class of a correct answer is the answer: there is one spelling of each.

use crate::{Problem, Verdict, Verifier};

/// Largest total; the smallest is 0.
pub const MAX_TOTAL: u32 = 99;
/// Longest answer that is read.
const MAX_BYTES: usize = 256;
/// The moves of a walk.
pub const MOVES: [Move; 6] = [
    Move { operator: '+', digit: 1 },
    Move { operator: '+', digit: 3 },
    Move { operator: '+', digit: 7 },
    Move { operator: '-', digit: 2 },
    Move { operator: '-', digit: 5 },
    Move { operator: '*', digit: 2 },
];

/// One step: an operator of `+ - *` and a digit of 1 to 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Operation: `+`, `-` or `*`.
    pub operator: char,
    /// Right operand, 1 to 9.
    pub digit: u32,
}

impl Move {
    /// Where it leads from `value`, if not out of bounds.
    pub fn apply(&self, value: u32) -> Option<u32> {
        let to = match self.operator {
            '+' => value + self.digit,
            '-' => value.checked_sub(self.digit)?,
            _ => value * self.digit,
        };
        (to <= MAX_TOTAL).then_some(to)
    }
}

/// The task of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTask {
    /// Number of steps that a solution has.
    pub steps: usize,
    /// Where to begin; a chain chooses its first digit itself.
    pub from: u32,
    /// Number to end at.
    pub to: u32,
    /// An operator that must not be used.
    pub banned: Option<char>,
}

/// Checks chains: problems `3|24` and `3|24!*`, answers `7*4=28-9=19+5=24`.
#[derive(Debug, Clone, Copy)]
pub struct Chain;

/// Checks walks: problems `3|19>43` and `3|19>43!*`, answers `*2=38+7=45-2=43`.
#[derive(Debug, Clone, Copy)]
pub struct Walk;

/// `3|rest!*` into the number of steps, the rest and the banned operator.
fn split(problem: &str) -> Option<(usize, &str, Option<char>)> {
    let (steps, rest) = problem.trim().trim_end_matches(':').split_once('|')?;
    let (rest, banned) = match rest.split_once('!') {
        None => (rest, None),
        Some((rest, banned)) => (rest, Some(banned.parse().ok()?)),
    };
    let steps: usize = steps.parse().ok()?;
    (steps <= 16).then_some((steps, rest, banned))
}

impl Chain {
    /// Reads a problem.
    pub fn read(problem: &str) -> Option<StepTask> {
        let (steps, target, banned) = split(problem)?;
        Some(StepTask { steps, from: 0, to: target.parse().ok()?, banned })
    }
}

impl Walk {
    /// Reads a problem.
    pub fn read(problem: &str) -> Option<StepTask> {
        let (steps, ends, banned) = split(problem)?;
        let (from, to) = ends.split_once('>')?;
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        let is_within = from <= MAX_TOTAL && to <= MAX_TOTAL;
        is_within.then_some(StepTask { steps, from, to, banned })
    }
}

/// Replays the moves of `text` from `value`.
fn replay(
    task: StepTask,
    mut value: u32,
    text: &str,
    is_allowed: fn(Move) -> bool,
) -> Result<(), String> {
    let mut rest = text;
    for step in 1..=task.steps {
        let mut characters = rest.chars();
        let (operator, digit) = (characters.next(), characters.next().and_then(|c| c.to_digit(10)));
        let (Some(operator @ ('+' | '-' | '*')), Some(digit @ 1..=9)) = (operator, digit) else {
            return Err(format!("step {step} is not an operator and a digit"));
        };
        let taken = Move { operator, digit };
        if task.banned == Some(operator) || !is_allowed(taken) {
            return Err(format!("step {step} uses {operator}{digit}, which is not allowed"));
        }
        let total = characters.as_str().strip_prefix('=').unwrap_or_default();
        let end = total.find(|c: char| !c.is_ascii_digit()).unwrap_or(total.len());
        value = taken.apply(value).ok_or(format!("step {step} leaves 0 to {MAX_TOTAL}"))?;
        if total[..end] != value.to_string() {
            return Err(format!("step {step} comes to {value}, not `{}`", &total[..end.min(8)]));
        }
        rest = &total[end..];
    }
    if !rest.is_empty() {
        return Err(format!("goes on after {} steps", task.steps));
    }
    if value != task.to {
        return Err(format!("ends at {value}, not {}", task.to));
    }
    Ok(())
}

fn judged(
    problem: &Problem,
    completion: &str,
    task: Option<StepTask>,
    run: impl Fn(StepTask, &str) -> Result<(), String>,
) -> Verdict {
    let text = completion.trim();
    let Some(task) = task else {
        return Verdict::unjudged(format!(
            "`{}` is no problem of this task",
            super::short(&problem.answer)
        ));
    };
    if text.is_empty() {
        return Verdict::NoAnswer;
    }
    if text.len() > MAX_BYTES {
        return Verdict::Unparsable { found: super::short(text) };
    }
    match run(task, text) {
        Ok(()) => Verdict::correct(text, &task.to.to_string()),
        Err(why) => Verdict::because(why),
    }
}

impl Verifier for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        judged(problem, completion, Chain::read(&problem.answer), |asked, text| {
            let first = text.chars().next().and_then(|c| c.to_digit(10)).filter(|d| *d > 0);
            let first = first.ok_or("does not begin with a digit of 1 to 9")?;
            replay(asked, first, &text[1..], |_| true)
        })
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        Chain::read(gold).is_none().then(|| "it is not steps|target".into())
    }
}

impl Verifier for Walk {
    fn name(&self) -> &'static str {
        "walk"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        judged(problem, completion, Walk::read(&problem.answer), |asked, text| {
            replay(asked, asked.from, text, |taken| MOVES.contains(&taken))
        })
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        Walk::read(gold).is_none().then(|| "it is not steps|from>to".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prompt;

    fn verdict(verifier: &dyn Verifier, gold: &str, completion: &str) -> Verdict {
        let problem = Problem::new("p", Prompt::Text(gold.into()), gold);
        verifier.verify(&problem, completion)
    }

    #[test]
    fn every_step_is_replayed() {
        assert!(verdict(&Chain, "3|24", "7*4=28-9=19+5=24").is_correct());
        assert!(verdict(&Walk, "4|19>43", "*2=38+7=45-5=40+3=43").is_correct());
        for (gold, text, why) in [
            ("3|24", "7*4=28-9=19+5=25", "comes to 24"),
            ("3|24", "7*4=28-4=24", "step 3"),
            ("3|24", "7*4=28-9=19+5=24+0=24", "goes on"),
            ("3|24!*", "7*4=28-9=19+5=24", "not allowed"),
            ("3|25", "7*4=28-9=19+5=24", "ends at 24, not 25"),
            ("1|1", "x", "does not begin"),
            ("1|99", "9*9=81", "ends at 81"),
            ("2|4", "9*9=81*9=729", "leaves 0 to 99"),
        ] {
            match verdict(&Chain, gold, text) {
                Verdict::Wrong { why: Some(reason), .. } => {
                    assert!(reason.contains(why), "{reason}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(!verdict(&Walk, "1|10>14", "+4=14").is_correct(), "no move of a walk");
        assert_eq!(verdict(&Chain, "3|24", " "), Verdict::NoAnswer);
        assert!(matches!(verdict(&Walk, "3|24", "x"), Verdict::Unjudged { .. }));
        assert!(matches!(verdict(&Walk, "1|1>2", &"é".repeat(400)), Verdict::Unparsable { .. }));
        assert!(!verdict(&Walk, "1|1>2", "é+1=2").is_correct());
    }
}
