//! Narrower, or only cleaner: the change of diversity in two parts that add up to it exactly.
//!
//! Diversity D is the chance that two answers of a problem differ. With A, M and W the chances that both are correct,
//! that one is and that none is, and C and I the chances that two correct and two incorrect ones differ,
//! `D = A C + M + W I`, without bias in every part when pairs are drawn without replacement. A difference of products
//! is `x1 y1 - x0 y0 = (x1 - x0)(y0 + y1)/2 + (x0 + x1)/2 (y1 - y0)`, so the change of D is the sum of
//! - incorrect answers that went away, `dA mean(C) + dM + dW mean(I)`, and those that became alike, `mean(W) dI`;
//! - correct answers that became alike, `mean(A) dC`.
//!
//! Where a model has fewer than two correct answers its C is unknown and taken to be the other's: such a problem says
//! nothing of correct answers that became alike. So with I.

use serde::Serialize;

use super::rows::Row;
use crate::inference::{Effect, crossed};

/// The change of diversity and its parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiversityChange {
    /// When two correct answers are the same.
    pub by: String,
    /// Problems with at least two answers of each model.
    pub problems: usize,
    /// Those where both models have two correct answers, which alone say whether these became alike.
    pub comparable: usize,
    /// The chance that two answers of the base differ, and that two of the tuned model do.
    pub diversity: [f64; 2],
    /// The change.
    pub change: Effect,
    /// The part of incorrect answers, which is the sum of the next two.
    pub incorrect: Effect,
    /// Incorrect answers that went away.
    pub incorrect_gone: Effect,
    /// Incorrect answers that became alike.
    pub incorrect_alike: Effect,
    /// The part of correct answers that became alike.
    pub correct_alike: Effect,
}

#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    diversity: [f64; 2],
    gone: f64,
    incorrect_alike: f64,
    correct_alike: f64,
}

/// One model's chances on a problem: two correct, one, none; two correct differ, two incorrect differ.
struct Chances {
    both: f64,
    one: f64,
    none: f64,
    correct: Option<f64>,
    incorrect: Option<f64>,
}

impl Chances {
    fn new(row: &Row, way: usize) -> Option<Self> {
        let (n, c) = (row.samples as f64, row.correct as f64);
        let pairs = n * (n - 1.0);
        (row.samples > 1).then(|| Self {
            both: c * (c - 1.0) / pairs,
            one: 2.0 * c * (n - c) / pairs,
            none: (n - c) * (n - c - 1.0) / pairs,
            correct: row.by[way].differ,
            incorrect: row.differ_incorrect,
        })
    }
}

fn parts(base: &Chances, tuned: &Chances) -> Parts {
    // Unknown under one model: the other's. Unknown under both: no pair has it, whatever it is.
    let known = |first: Option<f64>, second: Option<f64>| {
        [first.or(second).unwrap_or(0.0), second.or(first).unwrap_or(0.0)]
    };
    let c = known(base.correct, tuned.correct);
    let i = known(base.incorrect, tuned.incorrect);
    let diversity =
        |at: usize, chances: &Chances| chances.both * c[at] + chances.one + chances.none * i[at];
    let mean = |pair: [f64; 2]| (pair[0] + pair[1]) / 2.0;
    Parts {
        diversity: [diversity(0, base), diversity(1, tuned)],
        gone: (tuned.both - base.both) * mean(c)
            + (tuned.one - base.one)
            + (tuned.none - base.none) * mean(i),
        incorrect_alike: mean([base.none, tuned.none]) * (i[1] - i[0]),
        correct_alike: mean([base.both, tuned.both]) * (c[1] - c[0]),
    }
}

impl DiversityChange {
    /// From the rows of both models, with correct answers told apart by the way at this place; none without problems
    /// that have two answers of each.
    pub(super) fn new(base: &[Row], tuned: &[Row], (way, by): (usize, &str)) -> Option<Self> {
        let chances = |row| Chances::new(row, way);
        let pairs = base.iter().zip(tuned).filter_map(|(b, t)| Some((chances(b)?, chances(t)?)));
        let pairs: Vec<(Chances, Chances)> = pairs.collect();
        let all: Vec<Parts> = pairs.iter().map(|(b, t)| parts(b, t)).collect();
        let effect = |value: &dyn Fn(&Parts) -> f64| {
            crossed(&[all.iter().map(value).collect()], 1.0).within(-1.0, 1.0)
        };
        let mean =
            |at: usize| all.iter().map(|parts| parts.diversity[at]).sum::<f64>() / all.len() as f64;
        let is_comparable =
            |(b, t): &&(Chances, Chances)| b.correct.is_some() && t.correct.is_some();
        (!all.is_empty()).then(|| Self {
            by: by.to_owned(),
            problems: all.len(),
            comparable: pairs.iter().filter(is_comparable).count(),
            diversity: [mean(0), mean(1)],
            change: effect(&|parts| parts.diversity[1] - parts.diversity[0]),
            incorrect: effect(&|parts| parts.gone + parts.incorrect_alike),
            incorrect_gone: effect(&|parts| parts.gone),
            incorrect_alike: effect(&|parts| parts.incorrect_alike),
            correct_alike: effect(&|parts| parts.correct_alike),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ByClass;
    use super::*;
    use crate::simulated::Draws;

    /// A row of answers: each a class and whether it is correct; and the share of their pairs that differ, counted.
    fn row(answers: &[(usize, bool)]) -> (Row, f64) {
        let share = |some: &[(usize, bool)]| {
            let n = some.len();
            let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
            let differing = pairs.filter(|(i, j)| some[*i] != some[*j]).count();
            (n > 1).then(|| differing as f64 / (n * (n - 1) / 2) as f64)
        };
        let of_kind = |is: bool| -> Vec<(usize, bool)> {
            answers.iter().copied().filter(|(_, correct)| *correct == is).collect()
        };
        let correct = of_kind(true);
        let by = vec![ByClass { differ: share(&correct), ..ByClass::default() }];
        let row = Row {
            samples: answers.len(),
            correct: correct.len(),
            by,
            differ_incorrect: share(&of_kind(false)),
            ..Row::default()
        };
        (row, share(answers).unwrap())
    }

    #[test]
    fn parts_add_up_to_the_counted_change_of_every_problem() {
        let mut draws = Draws::new(5);
        let mut answers = || -> Vec<(usize, bool)> {
            let (n, p, classes) =
                (2 + draws.pick(&[1.0; 7]), draws.uniform(), draws.pick(&[1.0; 4]));
            let mut one =
                || ((draws.uniform() * (classes + 1) as f64) as usize, draws.uniform() < p);
            (0..n).map(|_| one()).collect()
        };
        let (mut base, mut tuned, mut counted) = (Vec::new(), Vec::new(), [0.0; 2]);
        for _ in 0..500 {
            let ((b, before), (t, after)) = (row(&answers()), row(&answers()));
            let one = parts(&Chances::new(&b, 0).unwrap(), &Chances::new(&t, 0).unwrap());
            let sum = one.gone + one.incorrect_alike + one.correct_alike;
            assert!((one.diversity[0] - before).abs() < 1e-12, "{b:?}");
            assert!((one.diversity[1] - after).abs() < 1e-12, "{t:?}");
            assert!((sum - (after - before)).abs() < 1e-12, "{sum} {before} {after}");
            counted = [counted[0] + before / 500.0, counted[1] + after / 500.0];
            base.push(b);
            tuned.push(t);
        }
        let change = DiversityChange::new(&base, &tuned, (0, "class")).unwrap();
        assert!((change.diversity[0] - counted[0]).abs() < 1e-9);
        assert!((change.change.value - (counted[1] - counted[0])).abs() < 1e-9);
        let sum = change.incorrect.value + change.correct_alike.value;
        assert!((sum - change.change.value).abs() < 1e-12);
    }

    #[test]
    fn cleaner_and_narrower_models_are_told_apart() {
        let base = row(&[(0, true), (1, true), (2, true), (0, false), (1, false), (2, false)]).0;
        let cleaner = row(&[(0, true), (1, true), (2, true), (0, true), (1, true), (2, true)]).0;
        let narrower =
            row(&[(0, true), (0, true), (0, true), (0, false), (1, false), (2, false)]).0;
        let change = |tuned: &Row| {
            let rows = |row: &Row| vec![row.clone(); 40];
            DiversityChange::new(&rows(&base), &rows(tuned), (0, "class")).unwrap()
        };
        let (cleaner, narrower) = (change(&cleaner), change(&narrower));
        assert!(cleaner.change.value < 0.0 && cleaner.incorrect.excludes_zero());
        assert!((narrower.change.value - narrower.correct_alike.value).abs() < 1e-12);
        assert!(narrower.correct_alike.high < 0.0 && narrower.incorrect.value == 0.0);
    }

    #[test]
    fn intervals_of_the_parts_cover_95_percent() {
        // Of a problem: the base is correct in p of answers, the tuned model more often and in fewer ways.
        let models = |draws: &mut Draws, problems: usize| -> [Vec<Row>; 2] {
            let mut both: [Vec<Row>; 2] = Default::default();
            for _ in 0..problems {
                let (p, kinds) = (draws.beta(0.8, 0.8), 1 + draws.pick(&[1.0; 4]));
                let fewer = 1 + (draws.uniform() * kinds as f64) as usize;
                for (rows, (p, kinds)) in both.iter_mut().zip([(p, kinds), (p.sqrt(), fewer)]) {
                    let answer = |_| {
                        let is_correct = draws.uniform() < p;
                        let kinds = if is_correct { kinds } else { 5 };
                        ((draws.uniform() * kinds as f64) as usize, is_correct)
                    };
                    let answers: Vec<(usize, bool)> = (0..8).map(answer).collect();
                    rows.push(row(&answers).0);
                }
            }
            both
        };
        let parts = |draws: &mut Draws, problems: usize| -> [Effect; 3] {
            let [base, tuned] = models(draws, problems);
            let change = DiversityChange::new(&base, &tuned, (0, "class")).unwrap();
            [change.change, change.incorrect, change.correct_alike]
        };
        let truth = parts(&mut Draws::new(1), 60_000).map(|effect| effect.value);
        let mut draws = Draws::new(2);
        for problems in [12, 24, 80] {
            let (studies, mut covered) = (600, [0.0; 3]);
            for _ in 0..studies {
                let found = parts(&mut draws, problems);
                for ((count, effect), truth) in covered.iter_mut().zip(found).zip(truth) {
                    *count += f64::from(u8::from(effect.low <= truth && truth <= effect.high));
                }
            }
            let covered = covered.map(|count| count / f64::from(studies));
            println!("{problems} problems: change, incorrect, correct covered {covered:.3?}");
            // Four standard errors below .93.
            assert!(covered.iter().all(|share| *share > 0.93 - 0.042), "{covered:?}");
        }
    }
}
