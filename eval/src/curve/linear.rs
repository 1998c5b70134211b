//! The difference of two curves, and the part that each problem under each seed has in it.
//!
//! The difference D is a smooth function of the mean scores at the checkpoints. With its gradient g, problem p under
//! seed s has the part `sum over checkpoints of g (score of s and p - mean score)`: by the delta method these parts
//! vary as D does.

use anyhow::{Result, ensure};

use super::data::{Request, RunPath};
use super::path::{Path, area, largest};
use super::result::Comparison;
use crate::Estimate;
use crate::inference::two_way::{Parts, Uncertain};

/// Pass@1 and the measure.
pub(super) type Score = (f64, f64);

/// Share of the way from the base to the largest Pass@1 of both at which the range begins: near the base all curves are
/// alike.
const MARGIN: f64 = 0.25;
/// The least rise of Pass@1 above the base that is a range.
const LEAST_RISE: f64 = 0.01;
/// Step of the numeric gradient, in units of the scores.
const STEP: f64 = 1e-5;

/// An objective with the scores of its seeds.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) objective: String,
    pub(super) configuration: String,
    pub(super) is_baseline: bool,
    /// Optimizer steps of each checkpoint, mean over seeds.
    pub(super) steps: Vec<f64>,
    seeds: Vec<Option<u64>>,
    /// Scores by seed, checkpoint and problem.
    scores: Vec<Vec<Vec<Score>>>,
}

impl Contender {
    /// A contender without runs.
    pub(super) fn new(path: &RunPath) -> Self {
        Self {
            objective: path.objective.clone(),
            configuration: path.configuration.clone(),
            is_baseline: path.is_baseline,
            steps: Vec::new(),
            seeds: Vec::new(),
            scores: Vec::new(),
        }
    }

    /// Adds a run: the i-th checkpoint of every seed is one point, and the fewest checkpoints of any seed are used.
    pub(super) fn add(&mut self, path: &RunPath, scores: Vec<Vec<Score>>) -> Result<()> {
        let name = &self.objective;
        ensure!(
            path.configuration == self.configuration,
            "{name}: one configuration has a curve, and {} and {} are given",
            self.configuration,
            path.configuration
        );
        let seed = path.seed.map_or("no seed".to_owned(), |seed| format!("seed {seed}"));
        ensure!(
            !self.seeds.contains(&path.seed),
            "{name}, configuration {}, {seed}: given twice",
            self.configuration
        );
        let known = self.seeds.len() as f64;
        let steps: Vec<f64> = path.checkpoints.iter().map(|point| point.step as f64).collect();
        if self.seeds.is_empty() {
            self.steps = steps;
        } else {
            self.steps.truncate(steps.len());
            for (mean, step) in self.steps.iter_mut().zip(steps) {
                *mean = (*mean * known + step) / (known + 1.0);
            }
        }
        self.seeds.push(path.seed);
        self.scores.push(scores);
        let count = self.steps.len();
        self.scores.iter_mut().for_each(|of_seed| of_seed.truncate(count));
        Ok(())
    }

    /// Whether it is an objective with runs, and no baseline.
    pub(super) fn is_trained(&self) -> bool {
        !self.is_baseline && self.seeds.iter().any(Option::is_some)
    }

    /// Runs that differ by their seed.
    pub(super) fn seeds(&self) -> usize {
        self.seeds.iter().flatten().count()
    }

    pub(super) fn path(&self, base: &[Score]) -> Path {
        let at = |checkpoint: usize| mean(self.scores.iter().flat_map(|seed| &seed[checkpoint]));
        let points = std::iter::once(mean(base.iter())).chain((0..self.steps.len()).map(at));
        // A checkpoint at no later step than the one before it has a place of its own all the same.
        let mut steps = vec![0.0];
        for step in &self.steps {
            let last = steps.last().copied().unwrap_or(0.0);
            steps.push(if *step > last { *step } else { last + 1.0 });
        }
        Path { steps, points: points.collect() }
    }

    /// The parts of every problem under every seed, by the gradient at the checkpoints after the base.
    fn parts(&self, path: &Path, gradient: &[Score]) -> Vec<Vec<f64>> {
        let problems = self.scores[0][0].len();
        // D(mean scores) moves by g . (score - mean) / P for each problem: the influence function of a smooth function
        // of means.
        let part = |seed: &Vec<Vec<Score>>, problem: usize| -> f64 {
            let term = |(checkpoint, slope): (usize, &Score)| {
                moved(seed[checkpoint][problem], path.points[checkpoint + 1], *slope)
            };
            gradient[1..].iter().enumerate().map(term).sum()
        };
        let of_seed = |seed| (0..problems).map(|problem| part(seed, problem)).collect();
        self.scores.iter().map(of_seed).collect()
    }
}

fn mean<'a>(scores: impl Iterator<Item = &'a Score>) -> Score {
    let (mut sum, mut count) = ((0.0, 0.0), 0.0);
    for score in scores {
        (sum.0, sum.1, count) = (sum.0 + score.0, sum.1 + score.1, count + 1.0);
    }
    (sum.0 / count, sum.1 / count)
}

/// How a score moves a function of the means with this slope.
fn moved(score: Score, mean: Score, slope: Score) -> f64 {
    slope.0 * (score.0 - mean.0) + slope.1 * (score.1 - mean.1)
}

/// A function of the mean paths of some contenders, with the variance that their scores give it. None where it has no
/// value.
pub(super) fn estimated(
    contenders: &[&Contender],
    base: &[Score],
    statistic: &dyn Fn(&[Path]) -> Option<f64>,
    largest: f64,
) -> Option<Uncertain> {
    let paths: Vec<Path> = contenders.iter().map(|one| one.path(base)).collect();
    let value = statistic(&paths)?;
    let slope = |which: usize, at: usize| -> Score {
        let shifted = |by: Score| {
            let mut paths = paths.clone();
            for (index, path) in paths.iter_mut().enumerate() {
                // All paths begin at one base.
                if at == 0 || index == which {
                    path.points[at].0 += by.0;
                    path.points[at].1 += by.1;
                }
            }
            statistic(&paths).unwrap_or(value)
        };
        // Central differences: an error of h^2, and D is a few hundred operations.
        let along = |by: Score| (shifted(by) - shifted((-by.0, -by.1))) / (2.0 * STEP);
        (along((STEP, 0.0)), along((0.0, STEP)))
    };
    let of_base = slope(0, 0);
    let start = paths[0].points[0];
    let shared: Vec<f64> = base.iter().map(|score| moved(*score, start, of_base)).collect();
    let parts = contenders.iter().zip(&paths).enumerate().map(|(which, (one, path))| {
        let gradient: Vec<Score> = (0..path.points.len())
            .map(|at| if at == 0 { (0.0, 0.0) } else { slope(which, at) })
            .collect();
        one.parts(path, &gradient)
    });
    Some(Parts { shared, models: parts.collect(), largest }.uncertainty(value))
}

/// The range of Pass@1 that two paths share: from a quarter of the way above the base to the smaller of their largest.
pub(super) fn range(paths: &[Path]) -> Option<(f64, f64)> {
    let start = paths.first()?.points.first()?.0;
    // Beyond the smaller of the two largest there is one curve only.
    let end = paths.iter().map(|path| largest(&path.refined())).fold(f64::INFINITY, f64::min);
    (end - start >= LEAST_RISE).then_some((start + MARGIN * (end - start), end))
}

/// The mean difference of two curves over their range.
pub(super) fn mean_difference(paths: &[Path]) -> Option<f64> {
    let (low, high) = range(paths)?;
    let [one, other] = [0, 1].map(|index| area(&paths[index].refined(), low, high));
    // The area between the curves over the width of the range: the mean difference at equal Pass@1.
    Some((one - other) / (high - low))
}

/// The comparison of two contenders; tested where it is a primary one.
pub(super) fn comparison(
    first: &Contender,
    second: &Contender,
    base: &[Score],
    is_primary: bool,
    request: &Request,
) -> Comparison {
    let trained = [first, second].into_iter().filter(|one| one.seeds() > 0);
    let mut comparison = Comparison {
        first: first.objective.clone(),
        second: second.objective.clone(),
        seeds: trained.map(Contender::seeds).min().unwrap_or(0),
        range: None,
        difference: None,
        missing: None,
        variances: None,
        p_value: None,
        p_holm: None,
        is_significant: false,
    };
    let both = [first, second];
    let paths = both.map(|one| one.path(base));
    let most = request.measure.most();
    let estimate = estimated(&both, base, &mean_difference, request.measure.largest(base));
    let (Some(range), Some(estimate)) = (range(&paths), estimate) else {
        let rise = |path: &Path| largest(&path.refined()) - path.points[0].0;
        let least = if rise(&paths[0]) < rise(&paths[1]) { first } else { second };
        comparison.missing = Some(least.objective.clone());
        return comparison;
    };
    comparison.range = Some(range);
    comparison.difference = Some(interval(&estimate, request, (-most, most)));
    comparison.variances = Some(estimate.variances);
    comparison.p_value = is_primary.then(|| estimate.p_value());
    comparison
}

/// The interval of an estimate, cut to the range of its quantity.
pub(super) fn interval(estimate: &Uncertain, request: &Request, range: (f64, f64)) -> Estimate {
    estimate.interval(1.0 - request.confidence).within(range.0, range.1)
}
