//! Distinct correct answers at equal numbers of them, by every way of telling two apart, and whether the ways agree.

use serde::Serialize;

use super::rows::{Row, Way};
use crate::contrast::{CORRECT, LEAST};
use crate::inference::{Effect, crossed, paired};

/// The change of distinct correct answers by one way of telling them apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Strategy {
    /// When two answers are the same.
    pub by: String,
    /// Whether that looks at words and not at solutions.
    pub is_surface: bool,
    /// The base's mean and the tuned model's.
    pub distinct: [f64; 2],
    /// The change.
    pub change: Effect,
}

/// The strategies of two models.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Strategies {
    /// Number of correct answers that are compared; 0 where too few problems have two of each model.
    pub correct: usize,
    /// Problems on which both models have so many.
    pub problems: usize,
    /// By each way.
    pub ways: Vec<Strategy>,
    /// Entropy of the words of completions, in nats: the base's mean, the tuned model's, the change.
    pub word_entropy: Option<(f64, f64, Effect)>,
}

impl Strategies {
    /// From the rows of both models, at the largest number of correct answers that a quarter of the problems have, or
    /// else at the largest that enough have.
    pub(super) fn new(base: &[Row], tuned: &[Row], ways: &[Way]) -> Self {
        let shared = |at: usize| -> Vec<usize> {
            let has = |row: &Row| row.correct >= CORRECT[at];
            (0..base.len()).filter(|i| has(&base[*i]) && has(&tuned[*i])).collect()
        };
        let enough = |least: usize| (0..CORRECT.len()).rev().find(|at| shared(*at).len() >= least);
        let at = enough((base.len() / 4).max(LEAST)).or_else(|| enough(LEAST));
        let word_entropy = word_entropy(base, tuned);
        let Some(at) = at else { return Self { word_entropy, ..Self::default() } };
        let problems = shared(at);
        let one = |(index, way): (usize, &Way)| {
            let values = |rows: &[Row]| -> Vec<f64> {
                problems.iter().filter_map(|i| rows[*i].by[index].distinct[at]).collect()
            };
            let (base, tuned) = (values(base), values(tuned));
            // As many as any problem showed, another may gain or lose.
            let most = base.iter().chain(&tuned).copied().fold(1.0, f64::max);
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            Strategy {
                by: way.name().to_owned(),
                is_surface: way.is_surface(),
                distinct: [mean(&base), mean(&tuned)],
                change: paired(&tuned, &base, most - 1.0).within(1.0 - most, most - 1.0),
            }
        };
        Self {
            correct: CORRECT[at],
            problems: problems.len(),
            ways: ways.iter().enumerate().map(one).collect(),
            word_entropy,
        }
    }

    /// Ways whose changes contradict each other, in words; none where all agree.
    pub fn disagreement(&self) -> Option<String> {
        let moves = |effect: &Effect| match effect {
            effect if effect.high < 0.0 => "fall",
            effect if effect.low > 0.0 => "rise",
            _ => "do not change measurably",
        };
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        // Where every problem has one answer, that it stays one says nothing.
        for way in self.ways.iter().filter(|way| way.distinct != [1.0, 1.0]) {
            let word = moves(&way.change);
            match groups.iter_mut().find(|(known, _)| *known == word) {
                Some((_, names)) => names.push(&way.by),
                None => groups.push((word, vec![&way.by])),
            }
        }
        let phrase =
            |(word, names): &(&str, Vec<&str>)| format!("by {} they {word}", names.join(" and "));
        (groups.len() > 1).then(|| groups.iter().map(phrase).collect::<Vec<_>>().join("; "))
    }
}

fn word_entropy(base: &[Row], tuned: &[Row]) -> Option<(f64, f64, Effect)> {
    let pairs = base.iter().zip(tuned);
    let pairs: Vec<(f64, f64)> =
        pairs.filter_map(|(b, t)| Some((b.word_entropy?, t.word_entropy?))).collect();
    let (base, tuned): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let most = base.iter().chain(&tuned).copied().fold(0.0, f64::max);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let row = tuned.iter().zip(&base).map(|(t, b)| t - b).collect();
    (!base.is_empty()).then(|| (mean(&base), mean(&tuned), crossed(&[row], most)))
}
