//! Countdown: reach a target from given numbers, each used once. Many correct answers per prompt.
//!
//! Prompt `3,7,8,9=24:`, answer an expression over `+ - * /` such as `3*(7+9-8)`. Problems are made
//! from a fixed list in a fixed order, so every machine sees the same ones. The three splits share
//! no multiset of numbers: `sft` (what a base model is trained on), `train` (what RLVR is trained
//! on) and `test` (held out from both). `valid` has the numbers of `test` and none of its first 300 problems: what
//! coefficients and best models are chosen by.
//!
//! Every split is drawn from one distribution. A problem with many solutions is drawn more often, so the first problems
//! of `test` are the easy ones, and to leave them out of `valid` alone would leave the hard ones: `valid` weighs each
//! problem by the inverse of its chance to be none of them (Horvitz and Thompson 1952).

mod chance;
mod spellings;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::verify::{self, Expression, Operator};
use chance::Reported;
pub use spellings::spellings;

use crate::{DataError, Dataset, Problem, Result, Source, distinct};
use tealight_core::{Prompt, fnv};

/// Largest number given; the smallest is 1.
pub const MAX_NUMBER: u32 = 12;
/// Targets, both ends included.
pub const TARGETS: std::ops::RangeInclusive<u32> = 10..=40;
/// How many numbers a problem of the named source gives.
const NUMBERS: usize = 4;
/// The first problems of `test`, none of which are in `valid`.
const REPORTED: usize = 300;
/// Repeated problems in a row after which a split has no more.
const PATIENCE: usize = 100_000;
/// Problems in a split when no limit is given.
const DEFAULT_PROBLEMS: usize = 96;

/// The row of [`crate::SOURCES`].
pub const SOURCE: Source = Source { name: "countdown", load, examples };

fn examples(seed: u64, step: u64, count: usize) -> Vec<Problem> {
    let mut stream = CountdownStream::new(Split::Sft, seed, step);
    (0..count).map(|_| stream.next_problem()).collect()
}

/// Part of the problem space; no two parts share a multiset of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Eight tenths: base models learn the format and the arithmetic here.
    Sft,
    /// One tenth: fine-tuning prompts.
    Train,
    /// One tenth: held out.
    Test,
}

impl Split {
    /// Where a multiset of numbers belongs, by a hash of its sorted members.
    pub fn for_numbers(numbers: &[u32]) -> Self {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        // Numbers are small: each is a byte.
        let hash = fnv(sorted.iter().map(|number| *number as u8));
        match (hash >> 16) % 10 {
            0 => Split::Train,
            1 => Split::Test,
            _ => Split::Sft,
        }
    }
}

fn load(split: &str, limit: Option<usize>) -> Result<Dataset> {
    // `test-3`: with three numbers.
    let (name, numbers) = match split.rsplit_once('-') {
        Some((name, numbers @ ("3" | "4" | "5"))) => (name, numbers.parse().unwrap_or(NUMBERS)),
        _ => (split, NUMBERS),
    };
    let shown = if split.is_empty() { "train" } else { split };
    let (split, number) = match name {
        "" | "train" => (Split::Train, 0),
        "test" => (Split::Test, 0),
        "valid" => (Split::Test, 1),
        "sft" => (Split::Sft, 0),
        other => {
            return Err(DataError::Split {
                name: "countdown",
                split: other.into(),
                known: "train, valid, test, sft; with three or five numbers train-3, test-5 and so on",
            });
        }
    };
    let wanted = limit.unwrap_or(DEFAULT_PROBLEMS);
    let mut stream = CountdownStream { count: numbers, ..CountdownStream::new(split, 0, number) };
    let problems = match number {
        0 => distinct(wanted, PATIENCE, || Some(stream.next_problem())),
        _ => {
            let first = CountdownStream { count: numbers, ..CountdownStream::new(split, 0, 0) };
            Reported::new(first, REPORTED).others(stream, wanted)
        }
    };
    let name = format!("countdown/{shown}");
    let dataset = Dataset::plain(name, problems, verify::countdown::Countdown::default());
    Ok(Dataset { spellings: Some(|problem| spellings(&problem.answer)), ..dataset })
}

/// An endless, reproducible stream of solved problems of one split.
pub struct CountdownStream {
    split: Split,
    count: usize,
    rng: ChaCha8Rng,
    /// Numbers drawn so far, those included that made no problem.
    attempts: u64,
}

impl CountdownStream {
    /// The stream keyed by `seed` and `number`; 0 and 0 is the one the named source is made from.
    pub fn new(split: Split, seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x00c0_ffee);
        rng.set_stream(number);
        Self { split, count: NUMBERS, rng, attempts: 0 }
    }

    /// The next problem, its solution a random expression that reaches the target.
    ///
    /// Numbers, tree shape and operators are drawn uniformly and kept when the value is a whole
    /// number among [`TARGETS`]: solutions of one problem appear in proportion to how many trees
    /// spell them.
    pub fn next_problem(&mut self) -> Problem {
        loop {
            self.attempts += 1;
            let numbers: Vec<u32> = (0..self.count).map(|_| 1 + self.below(MAX_NUMBER)).collect();
            if Split::for_numbers(&numbers) != self.split {
                continue;
            }
            let expression = self.tree(&numbers);
            let Some(value) = expression.value() else { continue };
            if !value.is_int() {
                continue;
            }
            let Ok(target) = u32::try_from(value.numerator().clone()) else { continue };
            if TARGETS.contains(&target) {
                return self.problem(&numbers, target, &expression);
            }
        }
    }

    fn problem(&self, numbers: &[u32], target: u32, expression: &Expression) -> Problem {
        let mut shown = numbers.to_vec();
        shown.sort_unstable();
        let shown: Vec<_> = shown.iter().map(u32::to_string).collect();
        let statement = format!("{}={target}", shown.join(","));
        Problem {
            solution: Some(expression.to_string()),
            ..Problem::new(statement.clone(), Prompt::Text(format!("{statement}:")), statement)
        }
    }

    /// A random binary tree over `numbers`, which are already in random order.
    fn tree(&mut self, numbers: &[u32]) -> Expression {
        if let [number] = numbers {
            return Expression::Number(*number);
        }
        let cut = 1 + self.below(numbers.len() as u32 - 1) as usize;
        let operator = match self.below(4) {
            0 => Operator::Add,
            1 => Operator::Sub,
            2 => Operator::Mul,
            _ => Operator::Div,
        };
        let (left, right) = numbers.split_at(cut);
        let (left, right) = (Box::new(self.tree(left)), Box::new(self.tree(right)));
        Expression::Binary(operator, left, right)
    }

    fn below(&mut self, bound: u32) -> u32 {
        // The bias of a modulus is below 1e-8 for these bounds.
        self.rng.next_u32() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn valid_and_test_splits_share_no_problem() {
        let ids = |split: &str, count| -> Vec<String> {
            load(split, Some(count)).unwrap().problems.into_iter().map(|p| p.id).collect()
        };
        let (valid, test) = (ids("valid", 300), ids("test", REPORTED));
        assert_eq!(valid.len(), 300);
        assert!(valid.iter().all(|id| !test.contains(id)));
        assert_eq!(valid.iter().collect::<HashSet<_>>().len(), 300);
        assert_eq!(ids("valid", 96), valid[..96]);
    }

    #[test]
    fn every_generated_solution_is_right() {
        for split in [Split::Sft, Split::Train, Split::Test] {
            let mut stream = CountdownStream::new(split, 7, 1);
            for _ in 0..500 {
                let problem = stream.next_problem();
                let solution = problem.solution.clone().unwrap();
                let verdict = crate::Verifier::verify(
                    &verify::countdown::Countdown::default(),
                    &problem,
                    &solution,
                );
                assert!(verdict.is_correct(), "{} {solution}", problem.answer);
            }
        }
    }

    #[test]
    fn splits_share_no_numbers_and_problems_do_not_repeat() {
        let numbers = |split| -> HashSet<String> {
            let set = load(split, Some(300)).unwrap();
            assert_eq!(set.problems.len(), 300);
            let ids: HashSet<_> = set.problems.iter().map(|p| &p.id).collect();
            assert_eq!(ids.len(), 300);
            set.problems.iter().map(|p| p.id.split('=').next().unwrap().into()).collect()
        };
        let (train, test, sft) = (numbers("train"), numbers("test"), numbers("sft"));
        assert!(train.is_disjoint(&test) && train.is_disjoint(&sft) && test.is_disjoint(&sft));
    }

    #[test]
    fn an_unknown_split_is_refused_with_the_known_ones() {
        let message = load("dev", None).err().unwrap().to_string();
        assert!(
            message.contains("dev") && message.contains("train, valid, test, sft"),
            "{message}"
        );
    }
}
