//! The same answers by a second, independent rule: how often the two disagree, and which conclusions change.

use serde::{Deserialize, Serialize};

use super::rows::Row;
use crate::Tally;
use crate::contrast::{Contrast, Evaluations};
use crate::inference::{Effect, paired};
use crate::transition::Aligned;

/// What a second rule says of one pair of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecondRule {
    /// The two rules.
    pub rules: [String; 2],
    /// Of the base and of the tuned model: completions that both rules judge, those that the first alone accepts, those
    /// that the second alone accepts.
    pub counts: [[usize; 3]; 2],
    /// The share of completions that the rules disagree on, the tuned model's less the base's: a verifier that errs on
    /// both models alike changes no difference.
    pub disagreement: Effect,
    /// The changes by the first rule and by the second.
    pub changes: Vec<RuleChange>,
    /// Completions that the rules disagree on.
    pub examples: Vec<Disagreement>,
}

/// A conclusion by both rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleChange {
    /// Name of the measure.
    pub measure: String,
    /// Its change by each rule.
    pub effects: [Effect; 2],
    /// Whether they conclude otherwise: one finds a rise or a fall, and the other does not.
    pub is_other: bool,
}

/// A completion that the rules disagree on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Its model.
    pub model: String,
    /// Its problem.
    pub problem: String,
    /// The gold answer.
    pub gold: String,
    /// The end of the completion.
    pub text: String,
    /// Whether the first rule accepts it, and not the second.
    pub is_first: bool,
}

impl SecondRule {
    /// Of the base's rows and the tuned model's; none without a second rule.
    pub(super) fn new(
        set: &Aligned<'_>,
        (base, tuned): (&[Row], &[Row]),
        first: &Contrast,
        rules: [String; 2],
    ) -> Option<Self> {
        let second = |row: &Row| row.second;
        let counted: Option<Vec<_>> =
            base.iter().zip(tuned).map(|(b, t)| Some([second(b)?, second(t)?])).collect();
        let says = |one: &super::rows::Second| one.samples > 0;
        let counted = counted.filter(|all| all.iter().flatten().any(says))?;
        let counts = [0, 1].map(|run| {
            counted.iter().fold([0; 3], |sum, pair| {
                let one = &pair[run];
                [sum[0] + one.samples, sum[1] + one.only_first, sum[2] + one.only_second]
            })
        });
        let share = |run: usize| -> Vec<f64> {
            let disputed = |pair: &[super::rows::Second; 2]| {
                let one = pair[run];
                (one.only_first + one.only_second) as f64 / one.samples.max(1) as f64
            };
            counted.iter().map(disputed).collect()
        };
        let judged = counted.iter().filter(|pair| pair.iter().all(|one| one.samples > 0));
        let tally = |run: usize| -> Vec<Tally> {
            let one = |pair: &[super::rows::Second; 2]| Tally {
                samples: pair[run].samples,
                correct: pair[run].correct,
                ..Tally::default()
            };
            judged.clone().map(one).collect()
        };
        let (of_base, of_tuned) = (tally(0), tally(1));
        let runs = [of_tuned.as_slice()];
        let evaluations = Evaluations { base: &of_base, second: None, runs: &runs, table: &runs };
        let ks = [1, set.most()];
        let other = Contrast::new(&evaluations, if ks[1] > 1 { &ks } else { &ks[..1] });
        let change = |(k, effect): &(usize, Effect)| {
            let before = first.pass.iter().find(|(at, _)| at == k)?.1;
            Some(RuleChange {
                measure: format!("pass@{k}"),
                is_other: sign(&before) != sign(effect),
                effects: [before, *effect],
            })
        };
        Some(Self {
            rules,
            counts,
            disagreement: paired(&share(1), &share(0), 1.0).within(-1.0, 1.0),
            changes: other.pass.iter().filter_map(change).collect(),
            examples: Vec::new(),
        })
    }
}

/// What an interval concludes: a rise, a fall or neither.
fn sign(effect: &Effect) -> i8 {
    i8::from(effect.low > 0.0) - i8::from(effect.high < 0.0)
}
