//! Walks: from one number to another by moves of a small set. Few enough correct answers a prompt to be
//! listed, so what a model covers of them, and KL(p* || model), are exact.
//!
//! Prompt `3|19>43:`, answer `*2=38+7=45-2=43`: three moves of `+1 +3 +7 -2 -5 *2`, each with the number it
//! leads to, within 0 to 99; both ends are 1 to 99. A correct answer is drawn uniformly from all of them.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::chain::{Part, continued, draw, part, stated, ways};
use crate::verify::steps::{MAX_TOTAL, MOVES, Move, Walk};
use crate::{Dataset, List, Problem, Result, Source, distinct};

/// The row of [`crate::SOURCES`].
pub const SOURCE: Source = Source {
    name: "walk",
    about: "moves between numbers, all correct answers known; splits train, test, sft, longer, banned",
    load,
    examples,
};

/// Moves in the splits that models are trained on.
const STEPS: usize = 3;
/// Problems in a split when no limit is given.
const DEFAULT_PROBLEMS: usize = 96;

/// Most correct answers that are listed.
const MAX_ANSWERS: u64 = 4096;

/// All correct answers to a problem, in order; `None` for a text that is no problem, and where there are
/// more than 4,096.
pub fn answers(problem: &str) -> Option<Vec<String>> {
    let asked = Walk::read(problem)?;
    let moves = moves(asked.banned);
    let ways = ways(&moves, asked.steps, asked.to);
    if ways[asked.steps][asked.from as usize] > MAX_ANSWERS {
        return None;
    }
    if ways[asked.steps][asked.from as usize] == 0 {
        return Some(Vec::new());
    }
    Some(continued(&moves, &ways, asked.steps, asked.from))
}

/// The moves that are allowed.
fn moves(banned: Option<char>) -> Vec<Move> {
    MOVES.into_iter().filter(|m| Some(m.operator) != banned).collect()
}

/// Which of the pairs of numbers are held out: a fifth, by a hash.
fn is_held_out(from: u32, to: u32) -> bool {
    ((from * 7919 + to * 104_729) % 97).is_multiple_of(5)
}

struct Generator {
    rng: ChaCha8Rng,
    steps: usize,
    held_out: bool,
    bans: bool,
}

impl Generator {
    fn problem(&mut self) -> Problem {
        loop {
            let mut below = |bound: u32| (self.rng.next_u64() % u64::from(bound)) as u32;
            let (from, to) = (1 + below(MAX_TOTAL), 1 + below(MAX_TOTAL));
            let banned = self.bans.then(|| ['+', '-', '*'][below(3) as usize]);
            if from == to || is_held_out(from, to) != self.held_out {
                continue;
            }
            let moves = moves(banned);
            let ways = ways(&moves, self.steps, to);
            let total = ways[self.steps][from as usize];
            if total == 0 {
                continue;
            }
            let solution = draw(&mut self.rng, &moves, &ways, self.steps, from);
            return stated(self.steps, &format!("{from}>{to}"), banned, solution, total);
        }
    }
}

fn load(split: &str, limit: Option<usize>) -> Result<Dataset> {
    let Part { split, is_longer, held_out, bans } = part("walk", split)?;
    let steps = STEPS + usize::from(is_longer);
    let rng = ChaCha8Rng::seed_from_u64(0x0a1c_2200);
    let mut generator = Generator { rng, steps, held_out, bans };
    let wanted = limit.unwrap_or(DEFAULT_PROBLEMS);
    let problems = distinct(wanted, 20_000, || Some(generator.problem()));
    let dataset = Dataset::generated(format!("walk/{split}"), problems, Walk);
    let list: List = |problem| answers(&problem.answer);
    Ok(Dataset { answers: Some(list), spellings: Some(list), ..dataset })
}

fn examples(seed: u64, step: u64, count: usize) -> Vec<Problem> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0a1c_2222);
    rng.set_stream(step);
    let mut generator = Generator { rng, steps: STEPS, held_out: false, bans: false };
    (0..count).map(|_| generator.problem()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verifier;

    #[test]
    fn the_listed_answers_are_all_right_and_as_many_as_counted() {
        for split in ["train", "test", "longer", "banned"] {
            for problem in load(split, Some(50)).unwrap().problems {
                let answers = answers(&problem.answer).unwrap();
                assert_eq!(answers.len() as u64, problem.total.unwrap(), "{}", problem.id);
                assert!(answers.contains(problem.solution.as_ref().unwrap()));
                for answer in &answers {
                    assert!(Walk.verify(&problem, answer).is_correct(), "{} {answer}", problem.id);
                }
            }
        }
        assert_eq!(answers("nonsense"), None);
        // Neither a long walk nor an end out of reach takes long.
        assert_eq!(answers("16|19>43"), None);
        assert_eq!(answers("3|19>430"), None);
        assert_eq!(answers("2|9>99").map(|all| all.len()), Some(0));
    }

    #[test]
    fn three_moves_solve_3456_pairs_with_at_most_15_answers_each() {
        let moves = MOVES.to_vec();
        let mut totals = Vec::new();
        for to in 1..=MAX_TOTAL {
            let ways = ways(&moves, 3, to);
            totals.extend((1..=MAX_TOTAL).filter(|from| *from != to).map(|f| ways[3][f as usize]));
        }
        totals.retain(|total| *total > 0);
        assert_eq!((totals.len(), totals.iter().max()), (3456, Some(&15)));
    }
}
