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
    let mean = |all: &[&[Answers]]| -> Option<(f64, f64)> {
        let scores: Vec<(f64, f64)> =
            all.iter().flat_map(|one| one.iter()).filter_map(|one| measure.score(one)).collect();
        let count = scores.len() as f64;
        let sum =
            |coordinate: fn(&(f64, f64)) -> f64| scores.iter().map(coordinate).sum::<f64>() / count;
        (!scores.is_empty()).then(|| (sum(|one| one.0), sum(|one| one.1)))
    };
    let of_base: Vec<(f64, f64)> = base.iter().filter_map(|one| mean(&[one.as_slice()])).collect();
    let mut names: Vec<&str> = Vec::new();
    for path in paths.iter().filter(|path| !path.is_baseline) {
        if !names.contains(&path.objective.as_str()) {
            names.push(&path.objective);
        }
    }
    let candidates = |name: &str| -> Vec<(f64, f64)> {
        let runs: Vec<&RunPath> = paths.iter().filter(|path| path.objective == name).collect();
        let count = runs.iter().map(|run| run.checkpoints.len()).min().unwrap_or(0);
        let at = |checkpoint: usize, temperature: usize| {
            let all = runs.iter().map(|run| answers(run, checkpoint, temperature));
            let all: Option<Vec<&[Answers]>> = all.collect();
            mean(&all?)
        };
        let all = (0..count).flat_map(|one| (0..temperatures.len()).map(move |t| (one, t)));
        of_base.iter().copied().chain(all.filter_map(|(one, t)| at(one, t))).collect()
    };
    let all: Vec<(&str, Vec<(f64, f64)>)> = std::iter::once(("base", of_base.clone()))
        .chain(names.iter().map(|name| (*name, candidates(name))))
        .collect();
    let start = of_base.first()?.0;
    let end = all.iter().flat_map(|(_, points)| points).map(|one| one.0).fold(start, f64::max);
    let levels: Vec<f64> =
        (1..=ROWS).map(|row| start + (end - start) * row as f64 / ROWS as f64).collect();
    let choice = |(objective, points): &(&str, Vec<(f64, f64)>)| {
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

/// What is known of a run's checkpoint at the temperature of this place.
fn answers(run: &RunPath, checkpoint: usize, temperature: usize) -> Option<&[Answers]> {
    let point = &run.checkpoints[checkpoint];
    match temperature {
        0 => Some(&point.problems),
        further => point.colder.get(further - 1).map(Vec::as_slice),
    }
}

/// The upper concave hull, from the left (Andrew's monotone chain).
fn hull(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in sorted {
        while let [.., a, b] = hull[..]
            // b is on or below the line from a to the new point.
            && (b.0 - a.0) * (point.1 - a.1) >= (b.1 - a.1) * (point.0 - a.0)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// The largest measure on the hull at a Pass@1 of at least `level`.
fn above(hull: &[(f64, f64)], level: f64) -> Option<f64> {
    let beyond = hull.iter().filter(|point| point.0 >= level - 1e-12).map(|point| point.1);
    let crossing = hull.windows(2).find(|ends| ends[0].0 < level && ends[1].0 >= level);
    let at = crossing.map(|ends| {
        // A level between two candidates is that of their mixture.
        let share = (level - ends[0].0) / (ends[1].0 - ends[0].0);
        ends[0].1 + share * (ends[1].1 - ends[0].1)
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
        let points = [(0.2, 0.8), (0.3, 0.7), (0.4, 0.75), (0.5, 0.4), (0.45, 0.5)];
        assert_eq!(hull(&points), [(0.2, 0.8), (0.4, 0.75), (0.5, 0.4)]);
        let hull = hull(&points);
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
