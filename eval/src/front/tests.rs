//! Fronts as a whole: what is reported of known data, and what is refused.

use super::world::{COLLAPSES, Design, KEEPS, Law, study_of_three};
use super::*;

/// Data for these laws, and what is asked of them.
fn data(laws: &[Law], seeds: usize, key: u64) -> (Checkpoint, Vec<RunPath>) {
    world::data(&Design::new(laws, seeds), key)
}

fn request(key: u64) -> Request {
    world::request(&Design::new(&[], 0), key)
}

#[test]
fn a_choice_is_made_on_valid_and_reported_on_test() {
    let counts = |correct: [usize; 2]| -> Vec<ProblemCounts> {
        (0..12).map(|i| ProblemCounts { n: 4, correct: correct[i % 2], classes: vec![] }).collect()
    };
    let point = |step: u64, valid: [usize; 2], test: [usize; 2]| Checkpoint {
        step,
        generated_tokens: step * 10,
        valid: counts(valid),
        test: counts(test),
    };
    let base = point(0, [1, 1], [1, 1]);
    let path = |objective: &str, checkpoints: Vec<Checkpoint>| RunPath {
        objective: objective.into(),
        configuration: "1e-4".into(),
        seed: Some(3),
        checkpoints,
    };
    let paths = [
        // Half of the problems lost on `valid`, all kept on `test`; then all of them on both.
        path("a", vec![point(1, [4, 0], [4, 4]), point(2, [2, 2], [3, 0])]),
        path("b", vec![point(1, [1, 1], [4, 4])]),
    ];
    let request = Request {
        measure: Measure::PassAtK(4),
        levels: Levels::At(vec![0.25, 0.5, 0.6]),
        ..request(1)
    };
    let result = fronts(&base, &paths, &request).unwrap();
    let steps = |front: usize, level: usize| {
        let chosen = result.fronts[front].levels[level].chosen.iter();
        chosen.map(|choice| choice.step).collect::<Vec<_>>()
    };
    // Of a's at .5 the one that solves all problems of `valid`, though `test` says otherwise.
    assert_eq!((steps(0, 1), steps(0, 2)), (vec![2], vec![]));
    // Equals of the base at .25: the more accurate.
    assert_eq!((steps(0, 0), steps(1, 0)), (vec![2], vec![0]));
    let at = &result.fronts[0].levels[1];
    assert_eq!((at.value.unwrap().value, at.pass_at_1.unwrap().value), (0.5, 0.375));
    assert_eq!((at.chosen[0].valid_value, at.chosen[0].valid_pass_at_1), (1.0, 0.5));
    let beyond = &result.fronts[1].levels[1];
    assert_eq!((beyond.reached, beyond.of, beyond.value), (0, 1, None));
    // One run each: never significant, and it says so.
    assert_eq!(result.pairs[0].levels.len(), 1);
    assert!(result.pairs[0].p_value.unwrap() < 0.05 && !result.pairs[0].is_significant);
    let verdict = result.verdict.unwrap();
    assert!(verdict.text.contains("two runs, not objectives"), "{}", verdict.text);
    assert_eq!(verdict.power, None);
}

#[test]
fn results_survive_json_and_the_same_key_gives_the_same_bits() {
    let result = study_of_three();
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<Fronts>(&text).unwrap(), result);
    assert_eq!(study_of_three(), result);
    let verdict = result.verdict.unwrap();
    println!("{}", verdict.text);
    assert!(verdict.text.starts_with("At pass@1 of at least ."), "{}", verdict.text);
    // Everybody reaches its level, and nobody a higher one in every seed.
    let reaching = |level: f64| {
        let at =
            |front: &&Front| front.levels.iter().any(|at| at.level == level && at.value.is_some());
        result.fronts.iter().filter(at).count()
    };
    assert_eq!(reaching(verdict.level), 3);
    for level in result.levels.iter().filter(|level| **level > verdict.level) {
        assert!(reaching(*level) < 3);
    }
    let power = verdict.power.unwrap();
    assert_eq!(power.seeds, 3);
    assert!(power.least > 0.0 && power.seeds_for_half.is_none_or(|seeds| seeds > 3));
}

#[test]
fn a_reference_that_fails_in_one_seed_leaves_the_others_to_compare() {
    let counts = |correct: usize| -> Vec<ProblemCounts> {
        let of = |i: usize| if i.is_multiple_of(3) { correct.saturating_sub(1) } else { correct };
        (0..24).map(|i| ProblemCounts { n: 4, correct: of(i), classes: vec![] }).collect()
    };
    let point = |step: u64, correct: usize| Checkpoint {
        step,
        generated_tokens: step,
        valid: counts(correct),
        test: counts(correct),
    };
    let base = point(0, 1);
    let path = |objective: &str, seed: u64, correct: usize| RunPath {
        objective: objective.into(),
        configuration: "1e-4".into(),
        seed: Some(seed),
        checkpoints: vec![point(1, correct)],
    };
    let paths = [
        path("grpo", 0, 3),
        path("grpo", 1, 0),
        path("js", 0, 3),
        path("js", 1, 3),
        path("kl-full", 0, 2),
        path("kl-full", 1, 2),
    ];
    let asked = Request {
        measure: Measure::PassAtK(4),
        levels: Levels::At(vec![0.1, 0.3, 0.6]),
        reference: Some("grpo".into()),
        ..request(1)
    };
    let verdict = fronts(&base, &paths, &asked).unwrap().verdict.unwrap();
    // At .1 all choose the base, which says nothing.
    assert_eq!((verdict.level, verdict.second.as_str()), (0.3, "kl-full"));
    assert!(verdict.text.contains("Not reached in every seed by grpo"), "{}", verdict.text);
}

#[test]
fn a_baseline_without_seeds_varies_over_problems_alone() {
    let (base, mut paths) = data(&[KEEPS, COLLAPSES], 3, 5);
    let mut colder = paths[0].clone();
    (colder.objective, colder.seed) = ("lower temperature".into(), None);
    paths.push(colder.clone());
    let reference = Some("lower temperature".into());
    let asked = Request { reference, levels: Levels::Auto, ..request(2) };
    let result = fronts(&base, &paths, &asked).unwrap();
    let front = &result.fronts[2];
    assert_eq!((front.seeds, front.levels[0].of), (0, 1));
    let pair = result.pairs.iter().find(|pair| pair.second == front.objective).unwrap();
    assert_eq!(pair.seeds, 3);
    // The same run as an only seed: the same numbers, but it may not speak for its objective.
    paths.pop();
    paths.push(RunPath { seed: Some(7), ..colder });
    let single = fronts(&base, &paths, &asked).unwrap();
    assert_eq!(single.fronts[2].levels[0].value, front.levels[0].value);
    let pair = single.pairs.iter().find(|pair| pair.second == front.objective).unwrap();
    assert_eq!((pair.seeds, pair.is_significant), (1, false));
    assert_eq!(result.verdict.unwrap().second, "lower temperature");
}

#[test]
fn distinct_solutions_are_counted_on_problems_that_all_have_enough_of() {
    let (mut base, mut paths) = data(&[KEEPS, KEEPS], 3, 6);
    let fill = |point: &mut Checkpoint, is_diverse: bool| {
        for counts in point.valid.iter_mut().chain(&mut point.test) {
            counts.classes =
                if is_diverse { vec![1; counts.correct] } else { vec![counts.correct] };
        }
    };
    fill(&mut base, true);
    for path in &mut paths {
        let is_diverse = path.objective == "objective 0";
        path.checkpoints.iter_mut().for_each(|point| fill(point, is_diverse));
    }
    // Where the base is not eligible, the second has one solution among two.
    let levels = Levels::At(vec![0.33]);
    let asked = Request { measure: Measure::Distinct(2), levels, ..request(6) };
    let result = fronts(&base, &paths, &asked).unwrap();
    let value = |front: usize| result.fronts[front].levels[0].value.unwrap();
    assert_eq!((value(0).value, value(1).value), (2.0, 1.0));
    assert!(value(0).low < 2.0 && value(0).high == 2.0, "{:?}", value(0));
    assert!(result.measured_problems < result.test_problems);
    let pair = &result.pairs[0];
    assert!(pair.is_significant && pair.mean.unwrap().low > 0.0, "{pair:?}");
    let text = result.verdict.unwrap().text;
    assert!(text.contains("has 2.00 distinct solutions among 2 correct"), "{text}");
    let all = Request { measure: Measure::Distinct(32), ..asked };
    let error = fronts(&base, &paths, &all).unwrap_err().to_string();
    assert!(error.contains("compare among fewer correct ones"), "{error}");
}

#[test]
fn budgets_end_paths() {
    let (_, paths) = data(&[KEEPS], 1, 1);
    let steps = |budget| {
        let within = paths[0].within(budget);
        within.checkpoints.iter().map(|point| point.step).collect::<Vec<_>>()
    };
    assert_eq!(steps(Budget::Steps(2)), [1, 2]);
    assert_eq!(steps(Budget::GeneratedTokens(199)), [1]);
}

#[test]
fn a_plan_knows_what_seeds_cannot_do() {
    let variances = Variances { seed: 0.0009, problem: 0.002, rest: 0.02 };
    let at = |seeds, problems| plan(&variances, seeds, problems, 6, 0.95).unwrap();
    let (few, more) = (at(2, 100), at(8, 100));
    assert!(more.least < few.least / 2.0, "{few:?} {more:?}");
    let enough = few.seeds_for_half.unwrap();
    assert!(at(enough, 100).least <= few.least / 2.0, "{enough}");
    assert!(at(enough - 1, 100).least > few.least / 2.0, "{enough}");
    // Problems alone limit it: no number of seeds helps.
    let problems = Variances { seed: 0.0, problem: 0.1, rest: 0.0 };
    let limited = plan(&problems, 8, 100, 1, 0.95).unwrap();
    assert_eq!(limited.seeds_for_half, None);
    assert!(power_line(&limited).contains("would need more than"));
    assert_eq!(plan(&variances, 1, 100, 6, 0.95), None);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let (base, paths) = data(&[KEEPS, COLLAPSES], 2, 4);
    type Change = fn(&mut Checkpoint, &mut Vec<RunPath>, &mut Request);
    let cases: [(&str, Change); 10] = [
        ("at least one path", |_, paths, _| paths.clear()),
        ("39 problems, but the base has 40", |_, paths, _| {
            paths[1].checkpoints[0].valid.pop();
        }),
        ("problem 3: 40 correct of 32", |_, paths, _| paths[1].checkpoints[0].test[2].correct = 40),
        ("pass@64 cannot be estimated", |_, _, asked| asked.measure = Measure::PassAtK(64)),
        ("0 samples in classes, but", |_, _, asked| asked.measure = Measure::Distinct(2)),
        ("given twice", |_, paths, _| paths.push(paths[0].clone())),
        ("every seed chooses among the same", |_, paths, _| {
            paths.remove(0);
        }),
        ("give each of its paths a seed", |_, paths, _| paths[0].seed = None),
        ("`grpo` is no objective here", |_, _, asked| asked.reference = Some("grpo".into())),
        ("numbers from 0 to 1", |_, _, asked| asked.levels = Levels::At(vec![30.0])),
    ];
    for (message, change) in cases {
        let (mut base, mut paths, mut asked) = (base.clone(), paths.clone(), request(1));
        change(&mut base, &mut paths, &mut asked);
        let error = fronts(&base, &paths, &asked).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // A problem that could not be judged once counts nowhere.
    let mut gap = base.clone();
    gap.test[5] = ProblemCounts::default();
    assert_eq!(fronts(&gap, &paths, &request(1)).unwrap().test_problems, base.test.len() - 1);
}

#[test]
fn an_interval_is_longer_where_other_problems_would_choose_what_loses_more() {
    // With other problems in `valid` seeds of the second reach a level only where much is lost, seldom where less is.
    let laws = [KEEPS, COLLAPSES].map(|law| Law { spread: 0.3, ..law });
    let design = Design { test: 240, ..Design::new(&laws, 8) };
    let (mut above, mut below) = (0.0, 0.0);
    for key in 0..5 {
        let (base, paths) = world::data(&design, key);
        let result = fronts(&base, &paths, &world::request(&design, key)).unwrap();
        let low = result.pairs[0].levels.iter().filter(|at| at.level < 0.34);
        for Interval { value, low, high } in low.map(|at| at.difference) {
            (above, below) = (above + high - value, below + value - low);
        }
    }
    assert!(above > 1.2 * below, "{above} above and {below} below");
}

#[test]
fn objectives_of_one_law_have_one_true_front() {
    let laws = [KEEPS, KEEPS, COLLAPSES];
    for measure in [Measure::PassAtK(4), Measure::Distinct(2)] {
        let design = Design { measure, valid: 80, ..Design::new(&laws, 2) };
        let truths = world::truths(&design, &[0.25, 0.3], (20, 3));
        assert_eq!(truths[0], truths[1], "{measure}: the estimate's own error is no difference");
        assert_ne!(truths[0], truths[2], "{measure}");
    }
}
