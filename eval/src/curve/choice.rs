//! What a user would choose: of every checkpoint at every temperature the best, for the accuracy that is wanted.
//!
//! Every objective has the same candidates, its checkpoints at the same temperatures, the base included. Two candidates
//! can be mixed, drawing one for each problem, so that the best of an objective is the upper concave hull of its
//! candidates. Candidates are chosen on the problems that are reported, which flatters all of them: no test is made.

use serde::{Deserialize, Serialize};

use super::data::{Answers, Measure, RunPath};

/// Rows of the table.
const ROWS: usize = 6;

/// The best of every objective at each Pass@1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The measure that is maximised at each Pass@1.
    pub measure: Measure,
    /// Temperatures, as shares of the sampling temperature, 1 first.
    pub temperatures: Vec<f64>,
    /// Levels of Pass@1, rising.
    pub levels: Vec<f64>,
    /// One an objective, the base first.
    pub objectives: Vec<Choice>,
}

/// The best of one objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The name of the objective, or `base`.
    pub objective: String,
    /// Checkpoints times temperatures, the base's included.
    pub candidates: usize,
    /// Its hull at each level; none above its largest Pass@1.
    pub values: Vec<Option<f64>>,
}

/// A candidate: its Pass@1 and its measure.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    pass: f64,
    value: f64,
}

impl Point {
    /// The mean over all problems of all `answers`; none without a score.
    fn mean(answers: &[&[Answers]], measure: Measure) -> Option<Self> {
        let all = answers.iter().flat_map(|one| one.iter());
        let scores: Vec<(f64, f64)> = all.filter_map(|one| measure.score(one)).collect();
        let count = scores.len() as f64;
        (!scores.is_empty()).then(|| Self {
            pass: scores.iter().map(|one| one.0).sum::<f64>() / count,
            value: scores.iter().map(|one| one.1).sum::<f64>() / count,
        })
    }
}

/// The hulls of trained objectives whose checkpoints were evaluated at `temperatures`, the first of which is 1; the
/// base's candidates, in the same order, belong to all. None without a further temperature.
pub fn choices(
    base: &[Vec<Answers>],
    paths: &[RunPath],
    temperatures: &[f64],
    measure: Measure,
) -> Option<Choices> {
    if temperatures.len() < 2 {
        return None;
    }
    let of_base: Vec<Point> =
        base.iter().filter_map(|one| Point::mean(&[one.as_slice()], measure)).collect();
    let mut all = vec![("base", of_base.clone())];
    for path in paths.iter().filter(|path| !path.is_baseline) {
        let name = path.objective.as_str();
        if all[1..].iter().all(|(known, _)| *known != name) {
            let own = candidates(name, paths, temperatures.len(), measure);
            all.push((name, of_base.iter().copied().chain(own).collect()));
        }
    }
    let start = of_base.first()?.pass;
    let end = all.iter().flat_map(|(_, points)| points).map(|one| one.pass).fold(start, f64::max);
    let levels: Vec<f64> =
        (1..=ROWS).map(|row| start + (end - start) * row as f64 / ROWS as f64).collect();
    let choice = |(objective, points): &(&str, Vec<Point>)| {
        let hull = hull(points);
        Choice {
            objective: (*objective).to_owned(),
            candidates: points.len(),
            values: levels.iter().map(|level| above(&hull, *level)).collect(),
        }
    };
    Some(Choices {
        measure,
        temperatures: temperatures.to_vec(),
        objectives: all.iter().map(choice).collect(),
        levels,
    })
}

/// An objective's checkpoints at so many temperatures, each the mean over its seeds, as far as all seeds have it.
fn candidates(name: &str, paths: &[RunPath], temperatures: usize, measure: Measure) -> Vec<Point> {
    let runs: Vec<&RunPath> = paths.iter().filter(|path| path.objective == name).collect();
    let count = runs.iter().map(|run| run.checkpoints.len()).min().unwrap_or(0);
    let mut points = Vec::new();
    for checkpoint in 0..count {
        for temperature in 0..temperatures {
            let all = runs.iter().map(|run| answers(run, checkpoint, temperature));
            let all: Option<Vec<&[Answers]>> = all.collect();
            points.extend(all.and_then(|all| Point::mean(&all, measure)));
        }
    }
    points
}

/// What is known of a run's checkpoint at the temperature of this place.
fn answers(run: &RunPath, checkpoint: usize, temperature: usize) -> Option<&[Answers]> {
    let point = &run.checkpoints[checkpoint];
    match temperature {
        0 => Some(&point.problems),
        further => point.colder.get(further - 1).map(Vec::as_slice),
    }
}

/// The upper concave hull, from the left (Andrew's monotone chain).
fn hull(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.pass.total_cmp(&b.pass).then(a.value.total_cmp(&b.value)));
    let mut hull: Vec<Point> = Vec::new();
    for point in sorted {
        while let [.., a, b] = hull[..]
            // b is on or below the line from a to the new point.
            && (b.pass - a.pass) * (point.value - a.value) >= (b.value - a.value) * (point.pass - a.pass)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// The largest measure on the hull at a Pass@1 of at least `level`.
fn above(hull: &[Point], level: f64) -> Option<f64> {
    let beyond = hull.iter().filter(|point| point.pass >= level - 1e-12).map(|point| point.value);
    let crossing = hull.windows(2).find(|ends| ends[0].pass < level && ends[1].pass >= level);
    let at = crossing.map(|ends| {
        // A level between two candidates is that of their mixture.
        let share = (level - ends[0].pass) / (ends[1].pass - ends[0].pass);
        ends[0].value + share * (ends[1].value - ends[0].value)
    });
    beyond.chain(at).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Checkpoint;
    use crate::exact::ListedProblem;

    #[test]
    fn the_hull_is_the_best_mixture() {
        let point = |(pass, value): (f64, f64)| Point { pass, value };
        let points = [(0.2, 0.8), (0.3, 0.7), (0.4, 0.75), (0.5, 0.4), (0.45, 0.5)].map(point);
        let hull = hull(&points);
        assert_eq!(hull, [(0.2, 0.8), (0.4, 0.75), (0.5, 0.4)].map(point));
        assert!((above(&hull, 0.3).unwrap() - 0.775).abs() < 1e-12);
        assert!((above(&hull, 0.45).unwrap() - 0.575).abs() < 1e-12);
        assert_eq!((above(&hull, 0.1), above(&hull, 0.51)), (Some(0.8), None));
    }

    #[test]
    fn every_objective_has_its_checkpoints_at_every_temperature_and_the_base() {
        let answers = |mass: f64| {
            vec![Answers::Listed(ListedProblem { logp: vec![mass.ln()], total: Some(1) }); 12]
        };
        let run = |seed: u64, masses: [f64; 2]| RunPath {
            objective: "grpo".into(),
            configuration: "grpo".into(),
            seed: Some(seed),
            is_baseline: false,
            checkpoints: vec![Checkpoint {
                step: 1,
                problems: answers(masses[0]),
                colder: vec![answers(masses[1])],
            }],
        };
        let base = [answers(0.2), answers(0.3)];
        let paths = [run(0, [0.3, 0.5]), run(1, [0.4, 0.7])];
        let found = choices(&base, &paths, &[1.0, 0.5], Measure::PassAtK(8)).unwrap();
        let counts: Vec<usize> = found.objectives.iter().map(|one| one.candidates).collect();
        assert_eq!(counts, [2, 4]);
        // The mean over seeds of the colder checkpoint is the largest Pass@1.
        assert!((found.levels[ROWS - 1] - 0.6).abs() < 1e-12);
        assert!(found.objectives[1].values.iter().all(Option::is_some));
        assert_eq!(found.objectives[0].values[ROWS - 1], None);
        assert!(choices(&base[..1], &paths, &[1.0], Measure::PassAtK(8)).is_none());
    }
}
