//! Chains: reach a number by a given count of one-digit steps with running totals.
//!
//! Prompt `3|24:`, answer `7*4=28-9=19+5=24`: a digit, then three steps, each an operator of `+ - *`, a
//! digit and the total, which stays within 0 to 99. How many answers there are is known exactly, by
//! counting paths; a correct answer is drawn uniformly from all of them, so the base that learns from them
//! tends to p* itself.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::verify::steps::{Chain, MAX_TOTAL, Move};
use crate::{DataError, Dataset, Problem, Prompt, Result, Source};

/// The row of [`crate::SOURCES`].
pub const SOURCE: Source = Source {
    name: "chain",
    about: "running totals, hundreds of correct answers; splits train, test, sft, longer, banned",
    load,
    examples,
};

/// Steps in the splits that models are trained on.
const STEPS: usize = 3;
/// Targets; every fifth is held out.
const TARGETS: std::ops::Range<u32> = 10..100;

/// Every move of a chain, in order.
fn moves(banned: Option<char>) -> Vec<Move> {
    let operators = ['+', '-', '*'].into_iter().filter(|operator| Some(*operator) != banned);
    operators.flat_map(|operator| (1..=9).map(move |digit| Move { operator, digit })).collect()
}

/// Counts the ways to a target: `ways[n][v]` is how many chains of n more steps lead from v to it.
pub(crate) fn ways(moves: &[Move], steps: usize, target: u32) -> Vec<Vec<u64>> {
    let values = MAX_TOTAL as usize + 1;
    let mut ways = vec![vec![0; values]];
    ways[0][target as usize] = 1;
    for _ in 0..steps {
        let last = &ways[ways.len() - 1];
        // ways[n + 1][v] = sum over moves of ways[n][where the move leads from v].
        let next = (0..=MAX_TOTAL)
            .map(|value| {
                moves.iter().filter_map(|m| m.apply(value)).map(|to| last[to as usize]).sum()
            })
            .collect();
        ways.push(next);
    }
    ways
}

/// A uniformly drawn continuation of `steps` moves from `value` to where `ways` lead.
pub(crate) fn draw(
    rng: &mut ChaCha8Rng,
    moves: &[Move],
    ways: &[Vec<u64>],
    steps: usize,
    mut value: u32,
) -> String {
    let mut text = String::new();
    for left in (0..steps).rev() {
        // A move by its share of the completions that it leads to: every whole answer is drawn with the same chance.
        let weight = |m: &Move| m.apply(value).map_or(0, |to| ways[left][to as usize]);
        let total: u64 = moves.iter().map(weight).sum();
        let mut at = rng.next_u64() % total.max(1);
        for step in moves {
            let weight = weight(step);
            if at < weight {
                value = step.apply(value).unwrap_or(value);
                text.push_str(&format!("{}{}={value}", step.operator, step.digit));
                break;
            }
            at -= weight;
        }
    }
    text
}

/// Most correct answers that are listed.
const MAX_ANSWERS: u64 = 4096;
/// Longest chains whose answers are counted at all.
const MAX_STEPS: usize = 8;

/// All correct answers to a problem, in order; `None` for a text that is no problem, and where there are more than
/// 4,096.
pub fn answers(problem: &str) -> Option<Vec<String>> {
    let asked = Chain::read(problem).filter(|asked| asked.steps <= MAX_STEPS)?;
    if asked.to > MAX_TOTAL {
        return Some(Vec::new());
    }
    let moves = moves(asked.banned);
    let ways = ways(&moves, asked.steps, asked.to);
    let starts = (1..=9_u32).filter(|digit| ways[asked.steps][*digit as usize] > 0);
    let total = (1..=9).map(|digit| ways[asked.steps][digit]).fold(0, u64::saturating_add);
    if total > MAX_ANSWERS {
        return None;
    }
    let mut all = Vec::new();
    for first in starts {
        let rest = continued(&moves, &ways, asked.steps, first);
        all.extend(rest.into_iter().map(|rest| format!("{first}{rest}")));
    }
    Some(all)
}

/// All continuations of `steps` moves from `value` to where `ways` lead, as text.
pub(crate) fn continued(
    moves: &[Move],
    ways: &[Vec<u64>],
    steps: usize,
    value: u32,
) -> Vec<String> {
    let mut open = vec![(value, String::new())];
    for left in (0..steps).rev() {
        let mut next = Vec::new();
        for (value, text) in &open {
            for step in moves {
                // Only what can still end at the target is followed.
                if let Some(to) = step.apply(*value).filter(|to| ways[left][*to as usize] > 0) {
                    next.push((to, format!("{text}{}{}={to}", step.operator, step.digit)));
                }
            }
        }
        open = next;
    }
    open.into_iter().map(|(_, text)| text).collect()
}

fn is_held_out(target: u32) -> bool {
    target % 5 == 2
}

fn problem(
    rng: &mut ChaCha8Rng,
    steps: usize,
    target: u32,
    banned: Option<char>,
) -> Option<Problem> {
    let moves = moves(banned);
    let ways = ways(&moves, steps, target);
    let starts: Vec<u64> = (1..=9).map(|digit: usize| ways[steps][digit]).collect();
    let total: u64 = starts.iter().sum();
    if total == 0 {
        return None;
    }
    let mut at = rng.next_u64() % total;
    let first = starts.iter().position(|weight| {
        let is_here = at < *weight;
        at -= if is_here { 0 } else { *weight };
        is_here
    })? + 1;
    let rest = draw(rng, &moves, &ways, steps, first as u32);
    Some(stated(steps, &target.to_string(), banned, format!("{first}{rest}"), total))
}

/// A problem from its parts: so many steps, from where to where, without an operator.
pub(crate) fn stated(
    steps: usize,
    ends: &str,
    banned: Option<char>,
    solution: String,
    total: u64,
) -> Problem {
    let ban = banned.map(|operator| format!("!{operator}")).unwrap_or_default();
    let statement = format!("{steps}|{ends}{ban}");
    Problem {
        solution: Some(solution),
        total: Some(total),
        ..Problem::new(statement.clone(), Prompt::Text(format!("{statement}:")), statement)
    }
}

/// A split, and how its problems differ from those of others.
pub(crate) struct Part {
    /// Its full name.
    pub(crate) split: &'static str,
    /// One step more than in training.
    pub(crate) is_longer: bool,
    /// Targets that training does not see.
    pub(crate) held_out: bool,
    /// An operator is forbidden.
    pub(crate) bans: bool,
}

/// The split of this name, of the dataset `name`.
pub(crate) fn part(name: &'static str, split: &str) -> Result<Part> {
    let (split, is_longer, held_out, bans) = match split {
        "" | "train" => ("train", false, false, false),
        "sft" => ("sft", false, false, false),
        "test" => ("test", false, true, false),
        "longer" => ("longer", true, true, false),
        "banned" => ("banned", false, true, true),
        other => {
            let known = "train, test, sft, longer, banned";
            return Err(DataError::Split { name, split: other.into(), known });
        }
    };
    Ok(Part { split, is_longer, held_out, bans })
}

fn load(split: &str, limit: Option<usize>) -> Result<Dataset> {
    let Part { split, is_longer, held_out, bans } = part("chain", split)?;
    let steps = STEPS + usize::from(is_longer);
    let mut rng = ChaCha8Rng::seed_from_u64(0x0c4a_1100);
    let problems: Vec<Problem> = TARGETS
        .filter(|target| is_held_out(*target) == held_out)
        .enumerate()
        .filter_map(|(index, target)| {
            let banned = bans.then(|| ['+', '-', '*'][index % 3]);
            problem(&mut rng, steps, target, banned)
        })
        .take(limit.unwrap_or(usize::MAX))
        .collect();
    let dataset = Dataset::generated(format!("chain/{split}"), problems, Chain);
    Ok(Dataset { spellings: Some(|problem| answers(&problem.answer)), ..dataset })
}

fn examples(seed: u64, step: u64, count: usize) -> Vec<Problem> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0c4a_1111);
    rng.set_stream(step);
    let targets: Vec<u32> = TARGETS.filter(|target| !is_held_out(*target)).collect();
    let mut problems = Vec::with_capacity(count);
    while problems.len() < count {
        let target = targets[(rng.next_u64() % targets.len() as u64) as usize];
        problems.extend(problem(&mut rng, STEPS, target, None));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verifier;
    use std::collections::HashMap;

    #[test]
    fn solutions_are_right_and_their_number_is_what_enumeration_finds() {
        for split in ["train", "test", "longer", "banned"] {
            let set = load(split, None).unwrap();
            for problem in &set.problems {
                let solution = problem.solution.as_deref().unwrap();
                assert!(Chain.verify(problem, solution).is_correct(), "{} {solution}", problem.id);
            }
        }
        // By brute force: every first digit and every sequence of three moves.
        let all = moves(None);
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for first in 1..=9 {
            for a in &all {
                for b in &all {
                    for c in &all {
                        let end = a.apply(first).and_then(|v| b.apply(v)).and_then(|v| c.apply(v));
                        end.into_iter().for_each(|end| *counts.entry(end).or_default() += 1);
                    }
                }
            }
        }
        let set = load("train", None).unwrap();
        for problem in &set.problems {
            let target: u32 = problem.answer.split('|').nth(1).unwrap().parse().unwrap();
            assert_eq!(problem.total, counts.get(&target).copied(), "{}", problem.id);
            let listed = answers(&problem.answer).unwrap();
            assert_eq!(listed.len() as u64, problem.total.unwrap(), "{}", problem.id);
            for answer in listed.iter().step_by(37) {
                assert!(Chain.verify(problem, answer).is_correct(), "{} {answer}", problem.id);
            }
        }
        // Of four steps there are too many, of sixteen they are not even counted.
        assert_eq!((answers("4|24"), answers("16|24"), answers("x")), (None, None, None));
        assert_eq!(answers("1|300").unwrap().len(), 0);
        let totals: Vec<u64> = set.problems.iter().filter_map(|problem| problem.total).collect();
        assert!(totals.iter().all(|total| (84..=3327).contains(total)), "{totals:?}");
    }

    #[test]
    fn answers_are_drawn_uniformly() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let total = problem(&mut rng, 1, 12, None).unwrap().total.unwrap();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for _ in 0..4000 {
            let solution = problem(&mut rng, 1, 12, None).unwrap().solution.unwrap();
            *counts.entry(solution).or_default() += 1;
        }
        assert_eq!(counts.len() as u64, total);
        let expected = 4000.0 / total as f64;
        let chi: f64 = counts.values().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
        assert!(chi < 3.0 * total as f64, "{chi} for {total}");
    }
}
