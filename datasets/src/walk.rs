//! Walks: from one number to another by moves of a small set. Few enough right answers a prompt to be
//! listed, so what a model covers of them, and KL(p* || model), are exact.
//!
//! Prompt `3|19>43:`, answer `*2=38+7=45-2=43`: three moves of `+1 +3 +7 -2 -5 *2`, each with the number it
//! leads to, within 0 to 99; both ends are 1 to 99. A right answer is drawn uniformly from all of them.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::chain::{draw, ways};
use crate::verify::steps::{MAX_TOTAL, MOVES, Move, Walk};
use crate::{DataError, Dataset, Problem, Prompt, Result, Source};

/// The row of [`crate::SOURCES`].
pub const SOURCE: Source = Source {
    name: "walk",
    about: "moves between numbers, all right answers known; splits train, test, sft, longer, banned",
    load,
    examples,
};

/// Moves in the splits that models are trained on.
const STEPS: usize = 3;
/// Problems in a split when no limit is given.
const DEFAULT_PROBLEMS: usize = 96;

/// All right answers to a problem, in order; `None` for a text that is no problem.
pub fn answers(problem: &str) -> Option<Vec<String>> {
    let asked = Walk::read(problem)?;
    let moves: Vec<Move> = MOVES.into_iter().filter(|m| Some(m.operator) != asked.banned).collect();
    let mut open = vec![(asked.from, String::new())];
    for _ in 0..asked.steps {
        open = open
            .iter()
            .flat_map(|(value, text)| {
                moves.iter().filter_map(move |m| {
                    let to = m.of(*value)?;
                    Some((to, format!("{text}{}{}={to}", m.operator, m.digit)))
                })
            })
            .collect();
    }
    open.retain(|(value, _)| *value == asked.to);
    Some(open.into_iter().map(|(_, text)| text).collect())
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
            let moves: Vec<Move> =
                MOVES.into_iter().filter(|m| Some(m.operator) != banned).collect();
            let ways = ways(&moves, self.steps, to);
            let total = ways[self.steps][from as usize];
            if total == 0 {
                continue;
            }
            let solution = draw(&mut self.rng, &moves, &ways, self.steps, from);
            let ban = banned.map(|operator| format!("!{operator}")).unwrap_or_default();
            let statement = format!("{}|{from}>{to}{ban}", self.steps);
            return Problem {
                id: statement.clone(),
                prompt: Prompt::Text(format!("{statement}:")),
                answer: statement,
                solution: Some(solution),
                context: None,
                total: Some(total),
            };
        }
    }
}

fn load(split: &str, limit: Option<usize>) -> Result<Dataset> {
    let (split, steps, held_out, bans) = match split {
        "" | "train" => ("train", STEPS, false, false),
        "sft" => ("sft", STEPS, false, false),
        "test" => ("test", STEPS, true, false),
        "longer" => ("longer", STEPS + 1, true, false),
        "banned" => ("banned", STEPS, true, true),
        other => {
            return Err(DataError::Split {
                name: "walk",
                split: other.into(),
                known: "train, test, sft, longer, banned",
            });
        }
    };
    let rng = ChaCha8Rng::seed_from_u64(0x0a1c_2200);
    let mut generator = Generator { rng, steps, held_out, bans };
    let wanted = limit.unwrap_or(DEFAULT_PROBLEMS);
    let mut seen = std::collections::HashSet::new();
    let mut problems = Vec::with_capacity(wanted);
    let mut repeats = 0;
    while problems.len() < wanted && repeats < 20_000 {
        let problem = generator.problem();
        if seen.insert(problem.id.clone()) {
            problems.push(problem);
            repeats = 0;
        } else {
            repeats += 1;
        }
    }
    Ok(Dataset {
        name: format!("walk/{split}"),
        problems,
        verifier: Arc::new(Walk),
        notes: Vec::new(),
        unusable: Vec::new(),
        answers: Some(|problem| answers(&problem.answer)),
    })
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
    }

    #[test]
    fn the_number_of_answers_is_that_of_the_notes() {
        // verifier.md: 3,456 solvable pairs of three moves, 1 to 15 answers.
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
