//! The same objectives on several tasks: where the tasks agree, and the mean difference over tasks.
//!
//! Tasks have problems of their own and are trained and sampled separately, so their differences are independent given
//! the base and the seeds, which they share. The estimand of a mean is the average over exactly these tasks, and not
//! over all tasks that there could be.

use serde::{Deserialize, Serialize};

use super::result::{Comparison, Curves};
use super::verdict::{ONE_SEED, listed, name, short, signed_with_interval};
use crate::Estimate;
use crate::inference::holm;
use crate::number::{counted, signed};

/// What a row of [`task_rows`] is.
pub const TASKS_NOTE: &str = "Each task by itself: the base, and the range of Pass@1 over which each objective is \
compared with the reference.";
/// What a row of [`pair_rows`] is.
pub const PAIRS_NOTE: &str = "Mean difference from the reference at equal Pass@1, with 95 % intervals over seeds and \
problems that are not adjusted for the number of tests. * marks p < .05 after Holm's adjustment for the tests of all \
tasks. The last column is the average over the tasks that compare the objective; it is descriptive.";

/// A study of one task among several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskCurves {
    /// The name of the task.
    pub task: String,
    /// The task's curves; none where they could not be drawn.
    pub curves: Option<Curves>,
    /// Why there are none.
    pub without_curves: Option<String>,
}

/// The comparison of objectives with the reference over several tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcrossTasks {
    /// The tasks whose curves are compared, in order.
    pub tasks: Vec<String>,
    /// Every objective that at least one task compares with the reference, baselines included.
    pub pairs: Vec<PairAcrossTasks>,
    /// The conclusion in words.
    pub text: String,
}

/// An objective and the reference on every task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairAcrossTasks {
    /// The objective that is subtracted from.
    pub first: String,
    /// The reference, which is subtracted.
    pub second: String,
    /// The pair on each task, in the order of the tasks.
    pub tasks: Vec<PairOnTask>,
    /// The mean of the differences over the tasks that compare the pair; none where one task alone does.
    pub mean: Option<Estimate>,
}

/// An objective and the reference on one task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairOnTask {
    /// The mean difference over the task's range of Pass@1; none where there is no range.
    pub difference: Option<Estimate>,
    /// The p-value adjusted for the tests of all tasks (Holm); none for a baseline.
    pub p_holm: Option<f64>,
    /// Whether `p_holm` is below 1 minus the confidence, over at least two seeds.
    pub is_significant: bool,
}

impl PairAcrossTasks {
    /// The tasks on which the first objective is significantly higher (`sign` 1) or lower (-1).
    fn significant(&self, tasks: &[String], sign: f64) -> Vec<String> {
        let is = |on: &PairOnTask| {
            on.is_significant && on.difference.is_some_and(|one| one.value * sign > 0.0)
        };
        let named = tasks.iter().zip(&self.tasks).filter(|(_, on)| is(on));
        named.map(|(task, _)| task.clone()).collect()
    }

    fn differences(&self) -> impl Iterator<Item = Estimate> {
        self.tasks.iter().filter_map(|on| on.difference)
    }

    fn is_tested(&self) -> bool {
        self.tasks.iter().any(|on| on.p_holm.is_some())
    }
}

/// Compares the objectives of several tasks; none where fewer than two tasks have curves.
///
/// P-values are adjusted once more than a task's own: over the tests of all tasks. The interval of a mean combines the
/// tasks' intervals by the squares of their half-widths, end by end (MOVER, Zou and Donner 2008).
pub fn across_tasks(studies: &[TaskCurves]) -> Option<AcrossTasks> {
    let with: Vec<(&str, &Curves)> = studies
        .iter()
        .filter_map(|study| Some((study.task.as_str(), study.curves.as_ref()?)))
        .collect();
    let (_, first) = with.first().filter(|_| with.len() > 1)?;
    let tests = || with.iter().flat_map(|(_, curves)| &curves.comparisons);
    let p_values: Vec<f64> = tests().filter_map(|one| one.p_value).collect();
    let count = p_values.len();
    let mut adjusted = holm(&p_values).into_iter();
    // In the order of the tests above: all of a task, then the next task's.
    let adjusted: Vec<Vec<Option<f64>>> = with
        .iter()
        .map(|(_, curves)| {
            let all = curves.comparisons.iter();
            all.map(|one| one.p_value.and_then(|_| adjusted.next())).collect()
        })
        .collect();
    let with_reference = first.comparisons.iter().filter(|one| one.second == first.reference);
    let pairs = with_reference.filter_map(|pair| {
        let on = |((_, curves), adjusted): (&(&str, &Curves), &Vec<Option<f64>>)| {
            on_task(curves, adjusted, pair)
        };
        let tasks: Vec<PairOnTask> = with.iter().zip(&adjusted).map(on).collect();
        let differences: Vec<Estimate> = tasks.iter().filter_map(|on| on.difference).collect();
        (!differences.is_empty()).then(|| PairAcrossTasks {
            first: pair.first.clone(),
            second: pair.second.clone(),
            tasks,
            mean: (differences.len() > 1).then(|| mean(&differences)),
        })
    });
    let mut across = AcrossTasks {
        tasks: with.iter().map(|(task, _)| (*task).to_owned()).collect(),
        pairs: pairs.collect(),
        text: String::new(),
    };
    across.text = text(&across, first, count, studies);
    Some(across)
}

/// The pair on a task.
fn on_task(curves: &Curves, adjusted: &[Option<f64>], pair: &Comparison) -> PairOnTask {
    let is = |one: &Comparison| one.first == pair.first && one.second == pair.second;
    let found = curves.comparisons.iter().zip(adjusted).find(|(one, _)| is(one));
    let (difference, p_holm, seeds) =
        found.map_or((None, None, 0), |(one, p)| (one.difference, *p, one.seeds));
    let is_small = p_holm.is_some_and(|p| p < 1.0 - curves.confidence);
    PairOnTask { difference, p_holm, is_significant: is_small && seeds != 1 }
}

/// The mean of independent estimates with its interval.
fn mean(estimates: &[Estimate]) -> Estimate {
    let count = estimates.len() as f64;
    let value = estimates.iter().map(|one| one.value).sum::<f64>() / count;
    let width = |end: fn(&Estimate) -> f64| {
        // MOVER: the distance of an end from the estimate stands for z times its error, and independent errors add in
        // squares.
        estimates.iter().map(|one| (end(one) - one.value).powi(2)).sum::<f64>().sqrt() / count
    };
    Estimate { value, low: value - width(|one| one.low), high: value + width(|one| one.high) }
}

/// The conclusion: which objectives differ on which tasks, and where tasks contradict each other.
fn text(across: &AcrossTasks, curves: &Curves, tests: usize, studies: &[TaskCurves]) -> String {
    let measure = name(curves.measure);
    if !curves.is_tested {
        return described(across, curves);
    }
    let tested = || across.pairs.iter().filter(|pair| pair.is_tested());
    let mut sentences: Vec<String> =
        tested().flat_map(|pair| differing(pair, across, &measure)).collect();
    let all = studies.iter().filter_map(|study| study.curves.as_ref());
    let mut seeds = all.flat_map(|one| &one.comparisons).filter(|one| one.p_value.is_some());
    let adjusted = format!(
        "after Holm's adjustment for {} on {} tasks",
        counted(tests, "test"),
        across.tasks.len()
    );
    if tests == 0 {
        sentences.push(format!(
            "No objective and {} share a range of pass@1 above the base's, so nothing is tested.",
            curves.reference
        ));
    } else if seeds.all(|one| one.seeds == 1) {
        sentences.push(ONE_SEED.to_owned());
    } else if sentences.is_empty() {
        let reference = &curves.reference;
        sentences.push(format!(
            "No objective differs significantly from {reference} in {measure} at equal pass@1 on any task, {adjusted}."
        ));
    } else {
        sentences.push(format!("Significance is {adjusted}."));
    }
    let means = tested().filter_map(|pair| {
        Some(format!("{} {}", pair.first, signed_with_interval(&pair.mean?, curves.confidence)))
    });
    let means: Vec<String> = means.collect();
    if !means.is_empty() {
        let reference = &curves.reference;
        sentences
            .push(format!("Mean difference from {reference} over tasks: {}.", means.join("; ")));
    }
    let without = |study: &TaskCurves| {
        let reason = study.without_curves.as_deref().unwrap_or("no reason is recorded");
        study.curves.is_none().then(|| format!("No curves on {}: {reason}.", study.task))
    };
    sentences.extend(studies.iter().filter_map(without));
    sentences.join(" ")
}

/// Where an objective differs significantly from the reference, and what the other tasks say.
fn differing(pair: &PairAcrossTasks, across: &AcrossTasks, measure: &str) -> Vec<String> {
    let sentence = |(sign, word): (f64, &str)| {
        let on = pair.significant(&across.tasks, sign);
        if on.is_empty() {
            return None;
        }
        let others = pair.differences().filter(|one| one.value * sign < 0.0).count();
        let others = match others {
            0 => String::new(),
            1 => "; on 1 task the difference has the opposite sign".to_owned(),
            some => format!("; on {some} tasks the difference has the opposite sign"),
        };
        let PairAcrossTasks { first, second, .. } = pair;
        let on = listed(&on);
        Some(format!(
            "At equal pass@1, {first} has {word} {measure} than {second} on {on}{others}."
        ))
    };
    [(1.0, "a significantly higher"), (-1.0, "a significantly lower")]
        .into_iter()
        .filter_map(sentence)
        .collect()
}

/// A measure that is not tested: the means over tasks.
fn described(across: &AcrossTasks, curves: &Curves) -> String {
    let one = |pair: &PairAcrossTasks| {
        let mean = signed_with_interval(&pair.mean?, curves.confidence);
        Some(format!("{} {mean}", pair.first))
    };
    let all: Vec<String> = across.pairs.iter().filter_map(one).collect();
    format!(
        "Difference of the {} from {} at equal pass@1, mean over tasks, descriptive and not tested: {}.",
        name(curves.measure),
        curves.reference,
        if all.is_empty() { "nothing is compared on two tasks".to_owned() } else { all.join("; ") }
    )
}

/// Each task's base and what is compared there, one row a task, under a header.
pub fn task_rows(studies: &[TaskCurves]) -> Vec<Vec<String>> {
    let measure = studies.iter().find_map(|study| study.curves.as_ref()).map(|one| one.measure);
    let measure = measure.map_or("measure".to_owned(), |measure| measure.to_string());
    let header = ["task", "base pass@1", &format!("base {measure}"), "compared at pass@1"];
    let row = |study: &TaskCurves| {
        let mut cells = vec![study.task.clone()];
        let Some(curves) = &study.curves else {
            cells.extend(["-", "-", "no curves"].map(str::to_owned));
            return cells;
        };
        cells.push(short(curves.base.pass_at_1.value));
        cells.push(short(curves.base.value.value));
        let range = |one: &Comparison| {
            let (low, high) = one.range?;
            Some(format!("{} {} to {}", one.first, short(low), short(high)))
        };
        let with_reference = curves.comparisons.iter().filter(|one| one.second == curves.reference);
        let ranges: Vec<String> = with_reference.filter_map(range).collect();
        cells.push(if ranges.is_empty() { "nothing".to_owned() } else { ranges.join(", ") });
        cells
    };
    std::iter::once(header.map(str::to_owned).to_vec()).chain(studies.iter().map(row)).collect()
}

/// One row an objective, under a header: its difference from the reference on each task, and the mean over tasks.
pub fn pair_rows(across: &AcrossTasks) -> Vec<Vec<String>> {
    let header = std::iter::once("difference".to_owned())
        .chain(across.tasks.iter().cloned())
        .chain(std::iter::once("mean over tasks".to_owned()));
    let shown = |one: &Estimate, mark: &str| {
        let [value, low, high] = [one.value, one.low, one.high].map(|x| signed(x, 3));
        format!("{value}{mark} ({low} to {high})")
    };
    let row = |pair: &PairAcrossTasks| {
        let on = |on: &PairOnTask| match &on.difference {
            Some(difference) => shown(difference, if on.is_significant { "*" } else { "" }),
            None => "not compared".to_owned(),
        };
        let mean = pair.mean.map_or("-".to_owned(), |mean| shown(&mean, ""));
        let compared = pair.differences().count();
        let mean = match compared == across.tasks.len() {
            true => mean,
            false => format!("{mean}, {compared} of {} tasks", across.tasks.len()),
        };
        std::iter::once(format!("{} - {}", pair.first, pair.second))
            .chain(pair.tasks.iter().map(on))
            .chain(std::iter::once(mean))
            .collect()
    };
    std::iter::once(header.collect()).chain(across.pairs.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::world::{COLLAPSES, KEEPS, Objective, Study};
    use super::*;
    use crate::curve::{Measure, Request, curves};

    fn task(name: &str, objectives: &[(&str, Objective)], key: u64, is_tested: bool) -> TaskCurves {
        let (base, paths) = Study { seeds: 5, ..Study::default() }.draw(objectives, key);
        let request = Request { is_tested, ..Request::new(Measure::PassAtK(8)) };
        let curves = Some(curves(&base, &paths, &request).unwrap());
        TaskCurves { task: name.to_owned(), curves, without_curves: None }
    }

    /// Differences that are tested.
    fn tests(across: &AcrossTasks) -> usize {
        across.pairs.iter().flat_map(|pair| &pair.tasks).filter(|on| on.p_holm.is_some()).count()
    }

    const BOTH: [(&str, Objective); 3] = [("grpo", COLLAPSES), ("js", KEEPS), ("dapo", COLLAPSES)];

    #[test]
    fn tests_of_all_tasks_are_adjusted_together_and_means_are_over_tasks() {
        let studies = [task("one", &BOTH, 1, true), task("two", &BOTH, 2, true)];
        let across = across_tasks(&studies).unwrap();
        assert_eq!((across.tasks.len(), across.pairs.len(), tests(&across)), (2, 2, 4));
        let js = &across.pairs[0];
        assert_eq!((js.first.as_str(), js.second.as_str()), ("js", "grpo"));
        let on: Vec<f64> = js.differences().map(|one| one.value).collect();
        let mean = js.mean.unwrap();
        assert!((mean.value - (on[0] + on[1]) / 2.0).abs() < 1e-12 && mean.low > 0.0);
        let own = studies[0].curves.as_ref().unwrap().comparisons[0].p_value.unwrap();
        assert!(js.tasks[0].p_holm.unwrap() >= own);
        assert!(
            across.text.contains("js has a significantly higher pass@8 than grpo on one and two."),
            "{}",
            across.text
        );
        assert!(across.text.contains("4 tests on 2 tasks"), "{}", across.text);
        assert!(!across.text.contains("dapo has"), "{}", across.text);
        assert!(pair_rows(&across)[1][1].contains('*') && pair_rows(&across).len() == 3);
        assert_eq!(task_rows(&studies).len(), 3);
        // One task alone is no comparison over tasks; an untested measure is described.
        assert!(across_tasks(&studies[..1]).is_none());
        let described = [task("one", &BOTH, 1, false), task("two", &BOTH, 2, false)];
        let across = across_tasks(&described).unwrap();
        assert!(across.text.contains("descriptive and not tested: js +"), "{}", across.text);
        assert_eq!(tests(&across), 0);
    }

    #[test]
    fn contradicting_tasks_are_reported() {
        let reversed = [("grpo", KEEPS), ("js", COLLAPSES), ("dapo", COLLAPSES)];
        let none = TaskCurves {
            task: "three".into(),
            curves: None,
            without_curves: Some("too few".into()),
        };
        let studies = [task("one", &BOTH, 1, true), task("two", &reversed, 2, true), none];
        let text = across_tasks(&studies).unwrap().text;
        assert!(
            text.contains(
                "js has a significantly higher pass@8 than grpo on one; on 1 task the difference"
            ),
            "{text}"
        );
        assert!(
            text.contains("js has a significantly lower pass@8 than grpo on two; on 1 task"),
            "{text}"
        );
        assert!(text.contains("No curves on three: too few."), "{text}");
    }
}
