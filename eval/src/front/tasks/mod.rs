//! The same objectives on several tasks: where the tasks agree, and the mean difference over tasks.
//!
//! Tasks have problems of their own and are trained and sampled separately, so their differences are independent given
//! the base and the seeds, which they share. The estimand of a mean is the average over exactly these tasks, and not
//! over all tasks that there could be.

mod rows;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::data::Measure;
use super::result::{Fronts, Interval};
use super::verdict::{signed, signed_with_interval};
use crate::inference::holm;

pub use rows::{PAIRS_NOTE, TASKS_NOTE, pair_rows, short_pair_rows, task_rows};

/// A study of one task among several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskFronts {
    /// The task.
    pub task: String,
    /// The task's fronts; none where they could not be drawn.
    pub fronts: Option<Fronts>,
    /// Why there are none.
    pub without_fronts: Option<String>,
}

/// The comparison of objectives over several tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcrossTasks {
    /// The tasks whose fronts are compared, in order.
    pub tasks: Vec<String>,
    /// Every pair of objectives that at least two tasks compare.
    pub pairs: Vec<PairAcrossTasks>,
    /// The conclusion in words.
    pub text: String,
}

/// Two objectives on every task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairAcrossTasks {
    /// The objective that is subtracted from.
    pub first: String,
    /// The objective that is subtracted.
    pub second: String,
    /// The pair on each task, in the order of the tasks.
    pub tasks: Vec<PairOnTask>,
    /// The mean of the differences over the tasks that compare the pair.
    pub mean: Interval,
    /// The same mean with an interval adjusted for all tested pairs; none for a pair that is not tested.
    #[serde(default)]
    pub adjusted: Option<Interval>,
}

/// Two objectives on one task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairOnTask {
    /// The mean difference over the task's levels; none where the two reach no level together.
    pub difference: Option<Interval>,
    /// The same with an interval adjusted for all tested pairs of the task, as the task's own results have it.
    #[serde(default)]
    pub adjusted: Option<Interval>,
    /// The p-value adjusted for all tested pairs of all tasks (Holm).
    pub p_holm: Option<f64>,
    /// Whether `p_holm` is below 1 minus the confidence, over at least two seeds.
    pub is_significant: bool,
}

impl PairAcrossTasks {
    /// The tasks on which the first objective is significantly higher (`sign` 1) or lower (-1).
    fn significant<'a>(&'a self, tasks: &'a [String], sign: f64) -> Vec<&'a str> {
        let is = |on: &PairOnTask| {
            on.is_significant
                && on.difference.is_some_and(|difference| difference.value * sign > 0.0)
        };
        let named = tasks.iter().zip(&self.tasks).filter(|(_, on)| is(on));
        named.map(|(task, _)| task.as_str()).collect()
    }

    /// The differences of the tasks that compare the pair.
    fn differences(&self) -> impl Iterator<Item = f64> {
        self.tasks.iter().filter_map(|on| on.difference).map(|one| one.value)
    }

    /// 1 or -1 where the adjusted interval of the mean lies above or below 0.
    fn sign_of_mean(&self) -> Option<f64> {
        let Interval { low, high, .. } = self.adjusted?;
        (low > 0.0).then_some(1.0).or((high < 0.0).then_some(-1.0))
    }

    /// Whether all tasks that compare the pair have a difference of one sign.
    fn has_one_sign(&self) -> bool {
        self.differences().all(|value| value > 0.0) || self.differences().all(|value| value < 0.0)
    }
}

/// Compares the objectives of several tasks; none where fewer than two tasks have fronts.
///
/// P-values are adjusted once more than a task's own: over all tested pairs of all tasks. The interval of a mean
/// combines the tasks' intervals by the squares of their half-widths, end by end (MOVER, Zou and Donner 2008).
pub fn across_tasks(studies: &[TaskFronts]) -> Option<AcrossTasks> {
    let with: Vec<(&str, &Fronts)> = studies
        .iter()
        .filter_map(|study| Some((study.task.as_str(), study.fronts.as_ref()?)))
        .collect();
    let (_, first) = with.first().filter(|_| with.len() > 1)?;
    let tests: Vec<f64> = with
        .iter()
        .flat_map(|(_, fronts)| fronts.pairs.iter().filter_map(|pair| pair.p_value))
        .collect();
    let mut adjusted = holm(&tests).into_iter();
    // In the order of the tests above: all pairs of a task, then the next task's.
    let adjusted: Vec<Vec<Option<f64>>> = with
        .iter()
        .map(|(_, fronts)| {
            let pairs = fronts.pairs.iter();
            pairs.map(|pair| pair.p_value.and_then(|_| adjusted.next())).collect()
        })
        .collect();
    let pairs = first.pairs.iter().filter_map(|pair| {
        let names = (pair.first.as_str(), pair.second.as_str());
        let on = |((_, fronts), adjusted): (&(&str, &Fronts), &Vec<Option<f64>>)| {
            on_task(fronts, adjusted, names)
        };
        let tasks: Vec<PairOnTask> = with.iter().zip(&adjusted).map(on).collect();
        let differences: Vec<Interval> = tasks.iter().filter_map(|on| on.difference).collect();
        let adjusted: Vec<Interval> = tasks.iter().filter_map(|on| on.adjusted).collect();
        (differences.len() > 1).then(|| PairAcrossTasks {
            first: pair.first.clone(),
            second: pair.second.clone(),
            tasks,
            mean: mean(&differences),
            adjusted: (adjusted.len() == differences.len()).then(|| mean(&adjusted)),
        })
    });
    let mut across = AcrossTasks {
        tasks: with.iter().map(|(task, _)| (*task).to_owned()).collect(),
        pairs: pairs.collect(),
        text: String::new(),
    };
    across.text = text(&across, first, tests.len(), studies);
    Some(across)
}

/// The pair on a task, whichever of the two the task subtracts.
fn on_task(fronts: &Fronts, adjusted: &[Option<f64>], names: (&str, &str)) -> PairOnTask {
    let found = fronts.pairs.iter().zip(adjusted).find_map(|(pair, p)| {
        let of = (pair.first.as_str(), pair.second.as_str());
        let sign = match of {
            of if of == names => 1.0,
            of if (of.1, of.0) == names => -1.0,
            _ => return None,
        };
        Some((pair, *p, sign))
    });
    let Some((pair, p_holm, sign)) = found else {
        return PairOnTask {
            difference: None,
            adjusted: None,
            p_holm: None,
            is_significant: false,
        };
    };
    let is_small = p_holm.is_some_and(|p| p < 1.0 - fronts.confidence);
    PairOnTask {
        difference: pair.mean.map(|mean| signed(mean, sign)),
        adjusted: pair.adjusted.map(|mean| signed(mean, sign)),
        p_holm,
        is_significant: is_small && pair.seeds != 1,
    }
}

/// The mean of independent estimates with its interval.
fn mean(estimates: &[Interval]) -> Interval {
    let count = estimates.len() as f64;
    let value = estimates.iter().map(|one| one.value).sum::<f64>() / count;
    let width = |end: fn(&Interval) -> f64| {
        estimates.iter().map(|one| (end(one) - one.value).powi(2)).sum::<f64>().sqrt() / count
    };
    Interval { value, low: value - width(|one| one.low), high: value + width(|one| one.high) }
}

/// The conclusion: which pairs differ on which tasks, and where tasks contradict each other.
fn text(across: &AcrossTasks, fronts: &Fronts, tests: usize, studies: &[TaskFronts]) -> String {
    let (tasks, measure) = (&across.tasks, &fronts.measure);
    let list = |names: &[&str]| names.join(" and ");
    let of = format!("{tests} tests on {} tasks", tasks.len());
    let mut sentences = Vec::new();
    for pair in &across.pairs {
        let compared = pair.differences().count();
        for (sign, better, worse) in
            [(1.0, &pair.first, &pair.second), (-1.0, &pair.second, &pair.first)]
        {
            let on = pair.significant(tasks, sign);
            if on.is_empty() {
                continue;
            }
            let opposite = pair.significant(tasks, -sign);
            let others = if !opposite.is_empty() {
                format!("On {} the opposite difference is significant.", list(&opposite))
            } else if pair.differences().any(|value| value * sign < 0.0) {
                "On at least one other task the difference has the opposite sign.".to_owned()
            } else {
                format!(
                    "No task of the {compared} that compare them has a difference of the opposite sign."
                )
            };
            let mean = signed(pair.mean, sign);
            sentences.push(format!(
                "{better} has {} than {worse} on {} (significant after Holm's adjustment for {of}). \
                 {others} Mean over tasks, with an interval that is not adjusted: {}.",
                more(measure),
                list(&on),
                signed_with_interval(&mean, fronts.confidence)
            ));
        }
    }
    let means = means(across, measure, fronts.confidence);
    if sentences.is_empty() {
        let agreeing = across.pairs.iter().filter(|pair| pair.has_one_sign()).count();
        sentences.push(format!(
            "No tested pair of objectives differs significantly in {} at equal pass@1 on any task, after Holm's adjustment \
             for {of}. In {agreeing} of {} pairs, all tasks that compare the pair have a difference of one sign.",
            name(measure),
            across.pairs.len()
        ));
    }
    sentences.extend(means);
    let without = studies.iter().filter(|study| study.fronts.is_none());
    sentences.extend(without.map(|study| {
        let reason = study.without_fronts.as_deref().unwrap_or("no reason is recorded");
        format!("No fronts on {}: {reason}.", study.task)
    }));
    sentences.join(" ")
}

/// The measure in a sentence.
fn name(measure: &Measure) -> String {
    match measure {
        Measure::PassAtK(k) => format!("pass@{k}"),
        Measure::Distinct(correct) => format!("distinct solutions among {correct} correct"),
    }
}

/// That one objective has more of the measure.
fn more(measure: &Measure) -> String {
    match measure {
        Measure::PassAtK(_) => format!("a higher {}", name(measure)),
        Measure::Distinct(_) => format!("more {}", name(measure)),
    }
}

/// What the adjusted intervals of the means over tasks say; nothing where no pair is tested.
fn means(across: &AcrossTasks, measure: &Measure, confidence: f64) -> Vec<String> {
    let is_tested = across.pairs.iter().any(|pair| pair.adjusted.is_some());
    let found = across.pairs.iter().filter_map(|pair| {
        let sign = pair.sign_of_mean()?;
        let (better, worse) =
            if sign > 0.0 { (&pair.first, &pair.second) } else { (&pair.second, &pair.first) };
        Some(format!(
            "Averaged over the tasks that compare them, {better} has {} than {worse}: {}, an interval adjusted for all \
             tested pairs.",
            more(measure),
            signed_with_interval(&signed(pair.adjusted?, sign), confidence)
        ))
    });
    let mut sentences: Vec<String> = found.collect();
    if sentences.is_empty() && is_tested {
        sentences.push(
            "Averaged over tasks, no difference is significant (intervals adjusted for all tested pairs)."
                .to_owned(),
        );
    }
    sentences
}
