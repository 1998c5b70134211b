//! The same answers by a second, independent rule: how often the two disagree, and which conclusions change.

use anyhow::Result;
use serde::Serialize;
use tealight_datasets::judge;

use super::rows::{Row, Second};
use super::{AuditInput, SecondJudge, own_problem, shown};
use crate::Tally;
use crate::contrast::{Contrast, Evaluations};
use crate::inference::{Effect, paired};
use crate::number::counted;
use crate::transition::Aligned;

/// Disagreements of the rules that are shown of each model.
const SHOWN: usize = 4;

/// What a second rule says of one pair of models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SecondRule {
    /// The two rules.
    pub rules: [String; 2],
    /// Of the base and of the tuned model: completions that both rules judge, those that the first alone accepts, those
    /// that the second alone accepts.
    pub counts: [[usize; 3]; 2],
    /// Pass@1 on these by each rule, of the base and of the tuned model.
    pub pass_at_1: [[f64; 2]; 2],
    /// Completions of each that the first rule judges.
    pub completions: [usize; 2],
    /// The share of completions that the rules disagree on, the tuned model's less the base's: a verifier that errs on
    /// both models alike changes no difference.
    pub disagreement: Effect,
    /// The changes by the first rule and by the second.
    pub changes: Vec<RuleChange>,
    /// Completions that the rules disagree on.
    pub examples: Vec<Disagreement>,
}

/// A conclusion by both rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleChange {
    /// Name of the measure.
    pub measure: String,
    /// Its change by each rule.
    pub effects: [Effect; 2],
    /// Whether they conclude otherwise: one finds a rise or a fall, and the other does not.
    pub is_other: bool,
}

/// A completion that the rules disagree on.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// The measures that were compared, or those of them that the rules conclude otherwise on: "pass@1 and pass@8".
    pub(crate) fn measures(&self, is_other: bool) -> String {
        let some = self.changes.iter().filter(|change| change.is_other || !is_other);
        some.map(|change| change.measure.as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// Of the base's rows and the tuned model's; none without a second rule.
    pub(super) fn new(
        set: &Aligned<'_>,
        (base, tuned): (&[Row], &[Row]),
        rules: [String; 2],
    ) -> Option<Self> {
        // Both rules on the same problems and samples: those that the second judges for both models.
        let judged = |row: &Row| row.second.filter(|one| one.samples > 0);
        let pairs = base.iter().zip(tuned);
        let counted: Vec<[Second; 2]> =
            pairs.filter_map(|(b, t)| Some([judged(b)?, judged(t)?])).collect();
        if counted.is_empty() {
            return None;
        }
        let counts = [0, 1].map(|run| {
            counted.iter().fold([0; 3], |sum, pair| {
                let one = &pair[run];
                [sum[0] + one.samples, sum[1] + one.only_first, sum[2] + one.only_second]
            })
        });
        let share = |run: usize| -> Vec<f64> {
            let disputed = |one: &Second| (one.only_first + one.only_second) as f64;
            counted.iter().map(|pair| disputed(&pair[run]) / pair[run].samples as f64).collect()
        };
        let least = counted.iter().flatten().map(|one| one.samples).min().unwrap_or(1);
        let ks = [1, set.most().min(least)];
        let ks = if ks[1] > 1 { &ks[..] } else { &ks[..1] };
        let contrast = |correct: fn(&Second) -> usize| {
            let [of_base, of_tuned] = [0, 1].map(|run| -> Vec<Tally> {
                let one = |pair: &[Second; 2]| Tally {
                    samples: pair[run].samples,
                    correct: correct(&pair[run]),
                    ..Tally::default()
                };
                counted.iter().map(one).collect()
            });
            let runs = [of_tuned.as_slice()];
            let evaluations = Evaluations { base: &of_base, runs: &runs, table: &runs };
            Contrast::new(&evaluations, ks).pass
        };
        let first = contrast(|one| one.correct + one.only_first - one.only_second);
        let second = contrast(|one| one.correct);
        let change = |((k, before), (_, after)): (&(usize, Effect), &(usize, Effect))| RuleChange {
            measure: format!("pass@{k}"),
            is_other: sign(before) != sign(after),
            effects: [*before, *after],
        };
        let pass_at_1 = |correct: fn(&Second) -> usize| {
            [0, 1].map(|run: usize| {
                let share =
                    |pair: &[Second; 2]| correct(&pair[run]) as f64 / pair[run].samples as f64;
                counted.iter().map(share).sum::<f64>() / counted.len() as f64
            })
        };
        Some(Self {
            rules,
            pass_at_1: [
                pass_at_1(|one| one.correct + one.only_first - one.only_second),
                pass_at_1(|one| one.correct),
            ],
            counts,
            completions: [base, tuned].map(|rows| rows.iter().map(|row| row.samples).sum()),
            disagreement: paired(&share(1), &share(0), 1.0).within(-1.0, 1.0),
            changes: first.iter().zip(&second).map(change).collect(),
            examples: Vec::new(),
        })
    }
}

/// What an interval concludes: a rise, a fall or neither.
fn sign(effect: &Effect) -> i8 {
    i8::from(effect.low > 0.0) - i8::from(effect.high < 0.0)
}

/// What is to be said of a second rule that says nothing of the first: it judges or accepts no completion, accepts all,
/// or shares hardly a verdict.
pub(super) fn caution(input: &AuditInput<'_>, rows: &[Vec<Row>]) -> Option<String> {
    let (first, second) = input.second?;
    let [mut judged, mut accepted, mut by_first, mut differ] = [0; 4];
    for one in rows.iter().flatten().filter_map(|row| row.second) {
        (judged, accepted) = (judged + one.samples, accepted + one.correct);
        by_first += one.correct + one.only_first - one.only_second;
        differ += one.only_first + one.only_second;
    }
    let name = second.name();
    let all = counted(judged, "completion");
    match (judged, accepted) {
        (0, _) => {
            let refusal = match second {
                SecondJudge::Verifier(verifier) => {
                    let gold = input.set.questions.first().map_or("", |one| one.answer.as_str());
                    judge::refuse_gold(verifier, gold)
                        .map(|why| format!(" (the gold `{gold}`: {why})"))
                }
                SecondJudge::Column(_) => None,
            };
            let why = refusal.unwrap_or_default();
            Some(format!("{name} could not judge any completion{why}: it cannot check {first}"))
        }
        (_, 0) if by_first > 0 => Some(format!(
            "{name} accepts none of {all}, and {first} {by_first}: it may be no rule for these gold answers or completions"
        )),
        _ if judged > 3 && accepted == judged && by_first < judged => {
            Some(format!("{name} accepts all of {all}, and {first} {by_first}"))
        }
        _ if judged > 3 && 10 * differ > 9 * judged => Some(format!(
            "{name} and {first} differ on {differ} of {all}: one of them may say what is incorrect, or be no rule for these \
             files"
        )),
        _ => None,
    }
}

/// Some completions of each of two models that the rules disagree on.
pub(super) fn disputed(
    input: &AuditInput<'_>,
    judge: SecondJudge<'_>,
    runs: [(usize, &[Row]); 2],
) -> Result<Vec<Disagreement>> {
    let mut examples = Vec::new();
    for (run, rows) in runs {
        let is_disputed =
            |row: &Row| row.second.is_some_and(|second| second.only_first + second.only_second > 0);
        let places = (0..rows.len()).filter(|place| is_disputed(&rows[*place]));
        for place in places.take(SHOWN) {
            let problem = own_problem(input.set, &input.golds[run], place);
            let samples = input.samples[run].samples(&problem.id)?;
            let found = samples.iter().find_map(|sample| {
                let other = judge.accepts(sample, &problem)?;
                (other != sample.is_correct()).then(|| Disagreement {
                    model: input.names[run].clone(),
                    problem: problem.id.clone(),
                    gold: problem.answer.clone(),
                    text: shown(&sample.completion),
                    is_first: sample.is_correct(),
                })
            });
            examples.extend(found);
        }
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

    /// Forty problems of 8 samples, of which the first rule accepts 4. The second judges `judged` samples of each of
    /// the first ten and accepts `correct` of them.
    fn rows(judged: usize, correct: usize) -> Vec<Row> {
        let second = |i: usize| match i < 10 {
            true => Second {
                samples: judged,
                correct,
                only_first: judged / 2 - judged.min(correct) / 2,
                ..Second::default()
            },
            false => Second::default(),
        };
        let row = |i| Row { samples: 8, correct: 4, second: Some(second(i)), ..Row::default() };
        (0..40).map(row).collect()
    }

    #[test]
    fn both_rules_are_compared_on_what_the_second_judges() {
        let tallies: Vec<Tally> = (0..40)
            .map(|i| Tally { problem: i.to_string(), samples: 8, correct: 4, ..Tally::default() })
            .collect();
        let set = Aligned {
            name: "s".into(),
            questions: Vec::new().into(),
            runs: vec![std::borrow::Cow::from(&tallies); 2],
            second: None,
            summaries: vec![Summary::new(&tallies, &[1, 8]).unwrap(); 2],
            ks: vec![1, 8],
        };
        let rules = || ["a".to_owned(), "b".to_owned()];
        let (base, tuned) = (rows(4, 2), rows(2, 0));
        let found = SecondRule::new(&set, (&base, &tuned), rules()).unwrap();
        assert_eq!((found.counts[0][0], found.counts[1][0], found.completions), (40, 20, [320; 2]));
        // Two verdicts a problem say nothing of pass@8.
        let measures: Vec<&str> = found.changes.iter().map(|one| one.measure.as_str()).collect();
        assert_eq!(measures, ["pass@1", "pass@2"]);
        // The thirty problems without a second verdict say nothing.
        assert!((found.disagreement.value - 0.25).abs() < 1e-12, "{:?}", found.disagreement);
        assert!((found.changes[0].effects[1].value + 0.5).abs() < 1e-12);
        assert_eq!(found.pass_at_1[1], [0.5, 0.0]);
        assert!(SecondRule::new(&set, (&base, &rows(0, 0)), rules()).is_none());
    }
}
