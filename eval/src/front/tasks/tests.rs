//! Tests of the comparison over tasks.

use super::*;
use crate::front::{Measure, study_of_three};

#[test]
fn a_mean_over_tasks_has_the_interval_of_independent_estimates() {
    let one = |value, low, high| Interval { value, low, high };
    let of = mean(&[one(0.1, 0.0, 0.2), one(0.3, 0.2, 0.4), one(0.2, 0.1, 0.5)]);
    assert!((of.value - 0.2).abs() < 1e-12);
    assert!((of.low - (0.2 - 0.03_f64.sqrt() / 3.0)).abs() < 1e-12);
    assert!((of.high - (0.2 + 0.11_f64.sqrt() / 3.0)).abs() < 1e-12);
}

#[test]
fn tasks_agree_or_contradict_each_other_in_words() {
    let study = |task: &str, fronts| TaskFronts {
        task: task.into(),
        fronts: Some(fronts),
        without_fronts: None,
    };
    let base = study_of_three();
    assert_eq!(across_tasks(&[study("one", base.clone())]), None);
    let with = |value: f64, p: f64| {
        let mut fronts = base.clone();
        fronts.measure = Measure::PassAtK(8);
        for pair in &mut fronts.pairs {
            (pair.mean, pair.adjusted, pair.p_value) = (None, None, None);
        }
        let pair = &mut fronts.pairs[0];
        let interval = Interval { value, low: value - 0.02, high: value + 0.02 };
        let wide = Interval { value, low: value - 0.06, high: value + 0.06 };
        (pair.mean, pair.p_value, pair.seeds) = (Some(interval), Some(p), 3);
        pair.adjusted = Some(wide);
        fronts
    };
    let said = |values: [(f64, f64); 3]| {
        let tasks = ["countdown", "paths", "sat"];
        let studies: Vec<TaskFronts> =
            tasks.iter().zip(values).map(|(task, (v, p))| study(task, with(v, p))).collect();
        let across = across_tasks(&studies).unwrap();
        assert_eq!((across.pairs.len(), across.pairs[0].tasks.len()), (1, 3));
        (across.text.clone(), across)
    };
    let (first, second) = (&base.pairs[0].first, &base.pairs[0].second);
    // .02 times 3 tests is no longer below .05.
    let (text, across) = said([(0.05, 0.02), (0.04, 0.5), (0.03, 0.6)]);
    assert!(
        text.starts_with("No tested pair of objectives differs significantly in pass@8"),
        "{text}"
    );
    let agreement =
        "In 1 of 1 pairs, the difference has the same sign on every task that compares the pair.";
    assert!(text.contains(agreement), "{text}");
    // The half-width of the mean of three is that of one by the root of three.
    let adjusted = across.pairs[0].adjusted.unwrap();
    assert!((adjusted.low - (0.04 - 0.06 / 3.0_f64.sqrt())).abs() < 1e-12);
    assert!(
        text.contains("Averaged over the tasks that compare them, ")
            && text.contains("+.01 to +.07"),
        "{text}"
    );
    assert_eq!(across.pairs[0].tasks[0].p_holm, Some(0.06));
    let (text, across) = said([(0.05, 0.001), (0.04, 0.5), (0.03, 0.6)]);
    assert!(text.starts_with(&format!("{first} has a higher")), "{text}");
    assert!(
        text.contains("on countdown (significant") && text.contains("No task of the 3"),
        "{text}"
    );
    assert!((across.pairs[0].mean.unwrap().value - 0.04).abs() < 1e-12);
    let (text, _) = said([(-0.05, 0.001), (0.04, 0.001), (0.03, 0.6)]);
    assert!(text.contains(&format!("{second} has a higher")), "{text}");
    assert!(text.contains("On paths the opposite difference is significant"), "{text}");
    assert!(text.contains("Averaged over tasks, no difference is significant"), "{text}");
    let (text, _) = said([(-0.05, 0.001), (0.04, 0.4), (0.03, 0.6)]);
    assert!(text.contains("On at least one other task"), "{text}");
    let rows = pair_rows(&said([(0.05, 0.001), (0.04, 0.5), (0.03, 0.6)]).1);
    assert_eq!(rows[1][1], "+0.050* (+0.030 to +0.070)");
}

#[test]
fn p_values_are_adjusted_in_the_order_of_pairs_and_tasks() {
    let base = study_of_three();
    let study = |task: &str, p: [Option<f64>; 3]| {
        let mut fronts = base.clone();
        for (pair, p) in fronts.pairs.iter_mut().zip(p) {
            pair.p_value = p;
        }
        TaskFronts { task: task.into(), fronts: Some(fronts), without_fronts: None }
    };
    let lost = TaskFronts {
        task: "sat".into(),
        fronts: None,
        without_fronts: Some("too few problems".into()),
    };
    let studies = [
        study("one", [Some(0.04), None, Some(0.001)]),
        lost,
        study("two", [Some(0.5), Some(0.01), None]),
    ];
    let across = across_tasks(&studies).unwrap();
    assert_eq!(across.tasks, ["one", "two"]);
    let adjusted =
        |pair: usize| across.pairs[pair].tasks.iter().map(|on| on.p_holm).collect::<Vec<_>>();
    // Four tests: .001 * 4, .01 * 3, .04 * 2, .5.
    assert_eq!(adjusted(0), [Some(0.08), Some(0.5)]);
    assert_eq!(adjusted(1), [None, Some(0.03)]);
    assert_eq!(adjusted(2), [Some(0.004), None]);
    assert!(across.text.contains("No fronts on sat: too few problems."), "{}", across.text);
    assert_eq!(task_rows(&studies)[2][4], "no fronts");
}

#[test]
fn a_pair_is_found_whichever_objective_a_task_subtracts() {
    let mut fronts = study_of_three();
    let pair = fronts.pairs[0].clone();
    let names = (pair.first.as_str(), pair.second.as_str());
    let adjusted = vec![Some(0.01); fronts.pairs.len()];
    let straight = on_task(&fronts, &adjusted, names).difference.unwrap();
    (fronts.pairs[0].first, fronts.pairs[0].second) = (pair.second.clone(), pair.first.clone());
    let turned = on_task(&fronts, &adjusted, names).difference.unwrap();
    assert_eq!(
        (turned.value, turned.low, turned.high),
        (-straight.value, -straight.high, -straight.low)
    );
}

/// Studies of tasks `one`, `two` and so on, changed by `change`, which has the task's index.
fn studies(tasks: usize, change: impl Fn(usize, &mut Fronts)) -> Vec<TaskFronts> {
    let study = |index: usize| {
        let mut fronts = study_of_three();
        change(index, &mut fronts);
        let task = ["one", "two", "three"][index].to_owned();
        TaskFronts { task, fronts: Some(fronts), without_fronts: None }
    };
    (0..tasks).map(study).collect()
}

#[test]
fn a_significant_difference_counts_where_one_task_alone_compares_the_pair() {
    let alone = studies(3, |index, fronts| {
        for (at, pair) in fronts.pairs.iter_mut().enumerate() {
            if at > 0 || index > 0 {
                (pair.mean, pair.adjusted, pair.p_value) = (None, None, None);
                continue;
            }
            let interval = Interval { value: 0.05, low: 0.03, high: 0.07 };
            (pair.mean, pair.adjusted) = (Some(interval), Some(interval));
            (pair.p_value, pair.seeds) = (Some(1e-6), 3);
        }
    });
    let across = across_tasks(&alone).unwrap();
    let [pair] = across.pairs.as_slice() else { panic!("{:?}", across.pairs) };
    assert!(pair.tasks[0].is_significant);
    assert_eq!((pair.mean, pair.adjusted), (None, None));
    let said = format!("than {} on one (significant after Holm's", pair.second);
    assert!(across.text.contains(&said), "{}", across.text);
    assert!(across.text.contains("No other task compares them."), "{}", across.text);
    let text = &across.text;
    assert!(!text.contains("No tested pair") && !text.contains("Mean over tasks"), "{text}");
    let rows = pair_rows(&across);
    assert_eq!(rows[1][1], "+0.050* (+0.030 to +0.070)");
    assert_eq!(rows[1].last().map(String::as_str), Some("-, 1 of 3 tasks"));
}

#[test]
fn the_conclusion_says_why_nothing_can_be_significant() {
    let said = |change: &dyn Fn(&mut Fronts)| {
        across_tasks(&studies(2, |_, fronts| change(fronts))).unwrap().text
    };
    // Nothing is tested, because no level is shared.
    let text = said(&|fronts| {
        for pair in &mut fronts.pairs {
            (pair.mean, pair.adjusted, pair.p_value) = (None, None, None);
        }
    });
    assert_eq!(text, "No two objectives reach a common level of pass@1, so nothing is tested.");
    // Pairs that are not tested share levels.
    let text = said(&|fronts| {
        for pair in &mut fronts.pairs {
            (pair.adjusted, pair.p_value) = (None, None);
        }
    });
    assert!(text.starts_with("No tested pair of objectives reaches a common level"), "{text}");
    // One seed is no sample of seeds, however small the p-value.
    let text = said(&|fronts| {
        fronts.measure = Measure::PassAtK(8);
        for pair in &mut fronts.pairs {
            (pair.seeds, pair.adjusted, pair.p_value) = (1, None, Some(1e-9));
        }
    });
    assert!(text.starts_with(ONE_SEED) && !text.contains("Holm"), "{text}");
    assert!(text.contains("pairs, the difference in pass@8 has the same sign"), "{text}");
}

#[test]
fn a_task_without_distinct_solutions_is_named_with_its_reason() {
    let mut all = studies(3, |_, fronts| fronts.measure = Measure::Distinct(2));
    let lose = |one: &mut TaskFronts| {
        (one.fronts, one.without_fronts) = (None, Some("only 3 problems".into()));
    };
    lose(&mut all[0]);
    let across = across_tasks(&all).unwrap();
    let said = "Not compared by distinct solutions on one: only 3 problems.";
    assert!(across.text.ends_with(said), "{}", across.text);
    assert!(!across.text.contains("No fronts"), "{}", across.text);
    lose(&mut all[1]);
    assert_eq!(across_tasks(&all), None);
    assert_eq!(
        without_distinct(&all),
        format!(
            "Distinct solutions are not compared over tasks. {said} \
             Not compared by distinct solutions on two: only 3 problems."
        )
    );
}
