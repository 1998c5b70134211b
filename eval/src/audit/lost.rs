//! Problems that the base solves and the tuned model does not, and the reverse, beyond what chance alone moves.
//!
//! With `q` the chance that m tries of the base solve a problem and `r` the tuned model's, `q (1 - r)` problems are
//! expected to be lost; the base itself, drawn again, would lose `q (1 - q)`. Without a second draw the first one is
//! split: over all its halves of m, `P(the first solves it, the second does not) = pass@2m - pass@m`, exactly and
//! without bias. That takes the samples of the two models to be independent given the problem. A second draw needs no
//! such assumption.

use serde::Serialize;

use crate::Tally;
use crate::inference::{Effect, crossed};
use crate::measure::pass_at_k::{pass_at_k, tally_pass_at_k};
use crate::transition::Aligned;

/// How many problems moved, as expected numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// In all.
    pub all: f64,
    /// Those that the base itself would move, drawn again.
    pub by_chance: f64,
    /// The difference, a problem, with its interval.
    pub beyond: Effect,
}

/// A problem that the base solved and the tuned model never did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LostProblem {
    /// Its id.
    pub problem: String,
    /// Correct samples of the base, all its samples, all samples of the tuned model.
    pub counts: [usize; 3],
    /// The chance that none of the tuned model's samples is correct if both models are equally good at it, given how
    /// many correct ones there are together (Fisher's exact test, one-sided).
    pub chance: f64,
    /// A correct completion of the base, and one of the tuned model; empty for problems further down.
    pub texts: [String; 2],
}

/// What was lost and gained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lost {
    /// Tries in which a problem is to be solved.
    pub tries: usize,
    /// Problems.
    pub problems: usize,
    /// Whether a second draw of the base shows what chance moves, and not halves of the first.
    pub has_second_draw: bool,
    /// Solved by the base alone.
    pub lost: Moved,
    /// Solved by the tuned model alone.
    pub gained: Moved,
    /// Those without a correct sample of the tuned model, the least likely by chance first.
    pub listed: Vec<LostProblem>,
}

impl Lost {
    /// From the counts of the base and of run `run`; none where no problem has two samples.
    pub fn new(set: &Aligned<'_>, run: usize) -> Option<Self> {
        let (base, tuned, second) = (&set.runs[0], &set.runs[run], set.second.as_deref());
        let fewest = |run: &[Tally]| Tally::with_fewest(run).map_or(0, |tally| tally.samples);
        let tries = match second {
            Some(second) => fewest(base).min(fewest(second)),
            None => fewest(base) / 2,
        }
        .min(fewest(tuned));
        if tries == 0 {
            return None;
        }
        let at = |tally: &Tally| tally_pass_at_k(tally, tries);
        // By problem: lost, lost by chance, gained, gained by chance.
        let chances = |i: usize| -> [f64; 4] {
            let (q, r) = (at(&base[i]), at(&tuned[i]));
            match second.map(|second| at(&second[i])) {
                // The second draw says which are solved, and the first is what the tuned model is compared with.
                Some(other) => {
                    [other * (1.0 - r), other * (1.0 - q), (1.0 - other) * r, (1.0 - other) * q]
                }
                None => {
                    let split = tally_pass_at_k(&base[i], 2 * tries) - q;
                    [q * (1.0 - r), split, (1.0 - q) * r, split]
                }
            }
        };
        let rows: Vec<[f64; 4]> = (0..base.len()).map(chances).collect();
        let moved = |first: usize| {
            let sum = |at: usize| rows.iter().map(|row| row[at]).sum::<f64>();
            let beyond = rows.iter().map(|row| row[first] - row[first + 1]).collect();
            Moved {
                all: sum(first),
                by_chance: sum(first + 1),
                beyond: crossed(&[beyond], 1.0).within(-1.0, 1.0),
            }
        };
        Some(Self {
            tries,
            problems: rows.len(),
            has_second_draw: second.is_some(),
            lost: moved(0),
            gained: moved(2),
            listed: listed(base, tuned),
        })
    }
}

fn listed(base: &[Tally], tuned: &[Tally]) -> Vec<LostProblem> {
    let is_lost = |(b, t): &(&Tally, &Tally)| b.correct > 0 && t.correct == 0;
    let one = |(b, t): (&Tally, &Tally)| LostProblem {
        problem: b.problem.clone(),
        counts: [b.correct, b.samples, t.samples],
        // None of the tuned model's samples among the correct ones of both.
        chance: 1.0 - pass_at_k(b.samples + t.samples, b.correct, t.samples),
        texts: Default::default(),
    };
    let mut all: Vec<LostProblem> = base.iter().zip(tuned).filter(is_lost).map(one).collect();
    all.sort_by(|a, b| a.chance.total_cmp(&b.chance));
    all
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::fixtures;
    use crate::simulated::Draws;

    fn set(runs: [Vec<Tally>; 2], second: Option<Vec<Tally>>) -> Aligned<'static> {
        Aligned {
            name: String::new(),
            questions: Cow::Owned(Vec::new()),
            runs: runs.into_iter().map(Cow::Owned).collect(),
            second: second.map(Cow::Owned),
            summaries: Vec::new(),
            ks: vec![1],
        }
    }

    #[test]
    fn equal_models_lose_what_chance_loses_and_forgetting_is_found() {
        let mut draws = Draws::new(17);
        let (mut wrong, mut found, mut mean, studies) = ([0; 2], 0, 0.0, 400);
        for _ in 0..studies {
            let p: Vec<f64> = (0..100).map(|_| draws.beta(0.6, 1.7)).collect();
            let mut run = |chance: &dyn Fn(usize) -> f64| -> Vec<Tally> {
                let tally = |i| Tally {
                    samples: 16,
                    correct: draws.binomial(16, chance(i)),
                    ..Tally::default()
                };
                (0..p.len()).map(tally).collect()
            };
            let (base, same, again) = (run(&|i| p[i]), run(&|i| p[i]), run(&|i| p[i]));
            let forgets = run(&|i| if i % 4 == 0 { 0.0 } else { p[i] });
            let lost = |tuned: &[Tally], second: Option<&Vec<Tally>>| {
                Lost::new(&set([base.clone(), tuned.to_vec()], second.cloned()), 1).unwrap()
            };
            for (count, second) in wrong.iter_mut().zip([None, Some(&again)]) {
                *count += i32::from(lost(&same, second).lost.beyond.excludes_zero());
            }
            let forgotten = lost(&forgets, None);
            assert_eq!(forgotten.tries, 8);
            found += i32::from(forgotten.lost.beyond.low > 0.0);
            mean += lost(&same, None).lost.beyond.value / f64::from(studies);
        }
        let share = |count: i32| f64::from(count) / f64::from(studies);
        println!(
            "lost beyond chance, equal models: {:.3} by halves, {:.3} by a second draw; a quarter forgotten: {:.3}",
            share(wrong[0]),
            share(wrong[1]),
            share(found)
        );
        // Four standard errors of 400 studies at .07.
        assert!(wrong.iter().all(|count| share(*count) < 0.12), "{wrong:?}");
        assert!(share(found) > 0.95, "{found}");
        assert!(mean.abs() < 3e-3, "{mean}");
    }

    #[test]
    fn lost_problems_are_ordered_by_how_unlikely_they_are() {
        let tally = |problem, correct| fixtures::tally(problem, 4, correct);
        let base = vec![tally("a", 1), tally("b", 4), tally("c", 0), tally("d", 2)];
        let tuned = vec![tally("a", 0), tally("b", 0), tally("c", 0), tally("d", 1)];
        let lost = Lost::new(&set([base, tuned], None), 1).unwrap();
        let ids: Vec<&str> = lost.listed.iter().map(|one| one.problem.as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
        // Of 8 samples 4 are correct, all among the base's: 1 in C(8, 4).
        assert!((lost.listed[0].chance - 1.0 / 70.0).abs() < 1e-12);
        assert!((lost.listed[1].chance - 0.5).abs() < 1e-12);
    }
}
