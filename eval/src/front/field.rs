//! Counts to scores: which problems are measured, which checkpoints a seed may choose, and what is refused.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};

use super::LEAST_PROBLEMS;
use super::choice::{Candidate, Contender, Field, Scores};
use super::data::{Checkpoint, Levels, Measure, ProblemCounts, Request, RunPath};

/// Fewest levels that automatic ones are spread over, and the steps that they may have.
const MOST_LEVELS: f64 = 12.0;
const STEPS: [f64; 6] = [0.005, 0.01, 0.02, 0.025, 0.05, 0.1];

/// Which problems of a split count: judged in every checkpoint, and of them those that the measure is over.
struct Shared {
    judged: Vec<usize>,
    measured: Vec<f64>,
}

type Split = fn(&Checkpoint) -> &[ProblemCounts];
const SPLITS: [(&str, Split); 2] = [("valid", |point| &point.valid), ("test", |point| &point.test)];

/// The field of all paths.
pub(super) fn field(base: &Checkpoint, paths: &[RunPath], request: &Request) -> Result<Field> {
    check_request(paths, request)?;
    let all: Vec<(&str, &Checkpoint)> =
        std::iter::once(("the base", base))
            .chain(paths.iter().flat_map(|path| {
                path.checkpoints.iter().map(|point| (path.objective.as_str(), point))
            }))
            .collect();
    let [valid, test] = SPLITS.map(|(name, split)| shared(name, split, &all, request.measure));
    let (valid, test) = (valid?, test?);
    let candidate = |configuration: &str, point: &Checkpoint| Candidate {
        configuration: configuration.to_owned(),
        step: point.step,
        generated_tokens: point.generated_tokens,
        valid: scores(&point.valid, &valid, request.measure),
        test: scores(&point.test, &test, request.measure),
    };
    let mut candidates = vec![candidate("base", base)];
    let mut contenders: Vec<Contender> = Vec::new();
    for path in paths {
        let from = candidates.len();
        candidates
            .extend(path.checkpoints.iter().map(|point| candidate(&path.configuration, point)));
        let index = contenders.iter().position(|c| c.objective == path.objective);
        let index = index.unwrap_or_else(|| {
            contenders.push(Contender { objective: path.objective.clone(), seeds: Vec::new() });
            contenders.len() - 1
        });
        let seeds = &mut contenders[index].seeds;
        let at = seeds.iter().position(|(seed, _)| *seed == path.seed).unwrap_or_else(|| {
            seeds.push((path.seed, vec![0]));
            seeds.len() - 1
        });
        seeds[at].1.extend(from..candidates.len());
    }
    contenders.iter_mut().for_each(|c| c.seeds.sort_by_key(|(seed, _)| *seed));
    Ok(Field {
        candidates,
        contenders,
        measured_valid: valid.measured,
        measured_test: test.measured,
    })
}

fn check_request(paths: &[RunPath], request: &Request) -> Result<()> {
    request.measure.check()?;
    ensure!(!paths.is_empty(), "fronts need at least one path of checkpoints");
    ensure!(
        request.confidence > 0.5 && request.confidence < 1.0,
        "confidence {} is out of range: between .5 and 1, as .95",
        request.confidence
    );
    ensure!(
        request.resamples >= 100,
        "{} resamples are too few for an interval: 100 or more",
        request.resamples
    );
    if let Levels::At(levels) = &request.levels {
        let is_level = |level: &f64| (0.0..=1.0).contains(level);
        ensure!(
            !levels.is_empty() && levels.iter().all(is_level),
            "levels of pass@1 are numbers from 0 to 1, not {levels:?}"
        );
    }
    if let Some(reference) = &request.reference {
        let names: BTreeSet<&str> = paths.iter().map(|path| path.objective.as_str()).collect();
        ensure!(
            names.contains(reference.as_str()),
            "the reference `{reference}` is no objective here; there are {}",
            names.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    for path in paths {
        let of_objective = || paths.iter().filter(|other| other.objective == path.objective);
        let is_same =
            |other: &&RunPath| other.seed == path.seed && other.configuration == path.configuration;
        let RunPath { objective, configuration, .. } = path;
        let seed = path.seed.map_or("no seed".to_owned(), |seed| format!("seed {seed}"));
        ensure!(
            of_objective().filter(is_same).count() == 1,
            "{objective}, configuration {configuration}, {seed}: given twice"
        );
        for other in of_objective() {
            ensure!(
                other.seed.is_some() == path.seed.is_some(),
                "{objective}: give each of its paths a seed, or none of them"
            );
            let is_counterpart =
                |p: &RunPath| p.seed == other.seed && p.configuration == *configuration;
            ensure!(
                of_objective().any(is_counterpart),
                "{objective}: configuration {configuration} has {seed} but no {}; every seed \
                 chooses among the same configurations",
                other.seed.map_or("path without".to_owned(), |seed| format!("seed {seed}"))
            );
        }
    }
    Ok(())
}

fn shared(
    name: &str,
    split: Split,
    all: &[(&str, &Checkpoint)],
    measure: Measure,
) -> Result<Shared> {
    let count = split(all[0].1).len();
    for (owner, point) in all {
        let problems = split(point);
        let at = format!("{owner}, step {}, {name}", point.step);
        ensure!(
            problems.len() == count,
            "{at}: {} problems, but the base has {count}; evaluate every checkpoint on the same \
             problems",
            problems.len()
        );
        for (index, counts) in problems.iter().enumerate() {
            check_counts(&format!("{at}, problem {}", index + 1), counts, measure)?;
        }
    }
    let judged: Vec<usize> =
        (0..count).filter(|i| all.iter().all(|(_, point)| split(point)[*i].n > 0)).collect();
    let is_measured =
        |i: &usize| all.iter().all(|(_, point)| measure.of(&split(point)[*i]).is_some());
    let measured: Vec<f64> = judged.iter().map(|i| f64::from(u8::from(is_measured(i)))).collect();
    let many = measured.iter().sum::<f64>() as usize;
    if many < LEAST_PROBLEMS {
        match measure {
            Measure::PassAtK(_) => bail!(
                "{name}: fronts need at least {LEAST_PROBLEMS} judged problems, there are {many}"
            ),
            Measure::Distinct(correct) => bail!(
                "{name}: only {many} problems have {correct} correct samples under the base and every \
                 checkpoint, and {LEAST_PROBLEMS} are needed; compare among fewer correct ones, or \
                 draw more samples"
            ),
        }
    }
    if let Measure::PassAtK(k) = measure {
        let most = all.iter().flat_map(|(_, point)| split(point)).map(|counts| counts.n).max();
        ensure!(
            most.is_some_and(|most| k <= most),
            "{name}: pass@{k} cannot be estimated from {} samples a problem: choose a smaller k, or draw \
             more samples",
            most.unwrap_or(0)
        );
    }
    Ok(Shared { judged, measured })
}

fn check_counts(at: &str, counts: &ProblemCounts, measure: Measure) -> Result<()> {
    ensure!(counts.correct <= counts.n, "{at}: {} correct of {}", counts.correct, counts.n);
    let classes: usize = counts.classes.iter().sum();
    let is_complete = classes == counts.correct || matches!(measure, Measure::PassAtK(_));
    ensure!(is_complete, "{at}: {classes} samples in classes, but {} correct", counts.correct);
    Ok(())
}

fn scores(problems: &[ProblemCounts], shared: &Shared, measure: Measure) -> Scores {
    let counts = || shared.judged.iter().map(|i| &problems[*i]);
    let value = |(counts, measured): (&ProblemCounts, &f64)| {
        if *measured > 0.0 { measure.of(counts).unwrap_or(0.0) } else { 0.0 }
    };
    Scores {
        accuracy: counts().map(|counts| counts.correct as f64 / counts.n as f64).collect(),
        value: counts().zip(&shared.measured).map(value).collect(),
    }
}

/// The levels: those given, in order, or round numbers from the base's accuracy to the largest.
pub(super) fn levels(of: &Levels, accuracies: &[f64]) -> Vec<f64> {
    if let Levels::At(levels) = of {
        let mut levels = levels.clone();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        return levels;
    }
    let (low, high) = (accuracies[0], accuracies.iter().copied().fold(0.0, f64::max));
    let fits = |step: &&f64| (high / **step).floor() - (low / **step).floor() < MOST_LEVELS;
    let step = STEPS.iter().find(fits).copied().unwrap_or(0.1);
    let number = |x: f64| (x / step + 1e-9).floor() as u64;
    // Thousandths, so that a level is the number it is written as.
    (number(low)..=number(high)).map(|i| (i as f64 * step * 1000.0).round() / 1000.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_levels_are_round_and_begin_at_the_base() {
        let levels = |low: f64, high: f64| levels(&Levels::Auto, &[low, high, low]);
        assert_eq!(levels(0.262, 0.337), [0.26, 0.27, 0.28, 0.29, 0.3, 0.31, 0.32, 0.33]);
        assert_eq!(levels(0.1, 0.1), [0.1]);
        assert_eq!(
            levels(0.05, 0.61),
            [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6]
        );
        assert_eq!(levels(0.0, 1.0).len(), 11);
    }
}
