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
use super::verdict::{ONE_SEED, signed, signed_with_interval};
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
    /// Every pair of objectives that at least one task compares.
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
    /// The mean of the differences over the tasks that compare the pair; none where one task alone does.
    pub mean: Option<Interval>,
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

    /// Whether the difference has the same sign on every task that compares the pair.
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
        let has_mean = differences.len() > 1;
        let is_adjusted = has_mean && adjusted.len() == differences.len();
        // A pair that one task alone compares is among the tests, and may differ significantly there.
        (!differences.is_empty()).then(|| PairAcrossTasks {
            first: pair.first.clone(),
            second: pair.second.clone(),
            tasks,
            mean: has_mean.then(|| mean(&differences)),
            adjusted: is_adjusted.then(|| mean(&adjusted)),
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
    let of = format!("{tests} tests on {} tasks", across.tasks.len());
    let mut sentences: Vec<String> =
        across.pairs.iter().flat_map(|pair| differing(pair, across, fronts, &of)).collect();
    if sentences.is_empty() {
        sentences.extend(nothing_differs(across, &fronts.measure, tests, studies));
    }
    sentences.extend(means(across, &fronts.measure, fronts.confidence));
    sentences.extend(studies.iter().filter_map(|study| without(study, &fronts.measure)));
    sentences.join(" ")
}

/// That a pair differs significantly, in one direction or in both; `of` are the tests.
fn differing(
    pair: &PairAcrossTasks,
    across: &AcrossTasks,
    fronts: &Fronts,
    of: &str,
) -> Vec<String> {
    let list = |names: &[&str]| names.join(" and ");
    let compared = pair.differences().count();
    let directions = [(1.0, &pair.first, &pair.second), (-1.0, &pair.second, &pair.first)];
    let sentence = |(sign, better, worse): (f64, &String, &String)| {
        let on = pair.significant(&across.tasks, sign);
        if on.is_empty() {
            return None;
        }
        let opposite = pair.significant(&across.tasks, -sign);
        let others = if !opposite.is_empty() {
            format!("On {} the opposite difference is significant.", list(&opposite))
        } else if pair.differences().any(|value| value * sign < 0.0) {
            "On at least one other task the difference has the opposite sign.".to_owned()
        } else if compared == 1 {
            "No other task compares them.".to_owned()
        } else {
            format!(
                "No task of the {compared} that compare them has a difference of the opposite sign."
            )
        };
        let mean = pair.mean.map_or_else(String::new, |mean| {
            let mean = signed_with_interval(&signed(mean, sign), fronts.confidence);
            format!(" Mean over tasks, with an interval that is not adjusted: {mean}.")
        });
        Some(format!(
            "{better} has {} than {worse} on {} (significant after Holm's adjustment for {of}). {others}{mean}",
            more(&fronts.measure),
            list(&on)
        ))
    };
    directions.into_iter().filter_map(sentence).collect()
}

/// That no pair differs significantly and why, and how many pairs have one sign on all tasks.
fn nothing_differs(
    across: &AcrossTasks,
    measure: &Measure,
    tests: usize,
    studies: &[TaskFronts],
) -> Vec<String> {
    if across.pairs.is_empty() {
        return vec![
            "No two objectives reach a common level of pass@1, so nothing is tested.".to_owned(),
        ];
    }
    let measure = name(measure);
    let is_one_seed = has_one_seed(studies);
    let first = if tests == 0 {
        "No tested pair of objectives reaches a common level of pass@1, so nothing is tested."
            .to_owned()
    } else if is_one_seed {
        ONE_SEED.to_owned()
    } else {
        format!(
            "No tested pair of objectives differs significantly in {measure} at equal pass@1 on any task, after Holm's \
             adjustment for {tests} tests on {} tasks.",
            across.tasks.len()
        )
    };
    // The first sentence names the measure, where it is about the tests.
    let of = if is_one_seed { format!(" in {measure}") } else { String::new() };
    let several = || across.pairs.iter().filter(|pair| pair.mean.is_some());
    let agreeing = several().filter(|pair| pair.has_one_sign()).count();
    let second = match several().count() {
        0 => "No pair of objectives is compared on more than one task.".to_owned(),
        pairs => format!(
            "In {agreeing} of {pairs} pairs, the difference{of} has the same sign on every task that compares the pair."
        ),
    };
    vec![first, second]
}

/// Whether every tested pair has one seed, so that no difference is called significant.
fn has_one_seed(studies: &[TaskFronts]) -> bool {
    let pairs = studies.iter().filter_map(|study| study.fronts.as_ref()).flat_map(|one| &one.pairs);
    pairs.filter(|pair| pair.p_value.is_some()).all(|pair| pair.seeds == 1)
}

/// Why a task is not compared by the measure; nothing for one that is.
fn without(study: &TaskFronts, measure: &Measure) -> Option<String> {
    if study.fronts.is_some() {
        return None;
    }
    let reason = study.without_fronts.as_deref().unwrap_or("no reason is recorded");
    Some(match measure {
        Measure::PassAtK(_) => format!("No fronts on {}: {reason}.", study.task),
        Measure::Distinct(_) => {
            format!("Not compared by distinct solutions on {}: {reason}.", study.task)
        }
    })
}

/// Why distinct solutions are not compared over tasks, where [`across_tasks`] has nothing: fewer than two tasks have
/// fronts of them.
pub fn without_distinct(studies: &[TaskFronts]) -> String {
    // The number of correct samples is not in the text.
    let of = |study: &TaskFronts| without(study, &Measure::Distinct(0));
    let reasons = studies.iter().filter_map(of);
    std::iter::once("Distinct solutions are not compared over tasks.".to_owned())
        .chain(reasons)
        .collect::<Vec<_>>()
        .join(" ")
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
