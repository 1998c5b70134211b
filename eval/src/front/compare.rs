//! Choices and resamples to fronts, bands and tested pairs.

use super::band::simultaneous;
use super::choice::{Chosen, Contender, Field, Means};
use super::data::{Request, TestedPairs};
use super::result::{BasePoint, Choice, Front, FrontLevel, Interval, Pair, PairLevel};
use super::skewness::{limited, skewed, symmetric};
use super::student::quantile;
use super::variance::{Moments, Rows, moments};
use crate::inference::holm;
use crate::interval::two_sided;

/// Everything that fronts and pairs are made of.
pub(super) struct Comparison<'a> {
    pub(super) field: &'a Field,
    pub(super) request: &'a Request,
    pub(super) levels: &'a [f64],
    /// Means on `valid` of every candidate.
    pub(super) valid: Means,
    /// Contender, seed, level.
    pub(super) choices: Vec<Vec<Vec<Chosen>>>,
    /// The base's, then every contender's: the measure at every level, then Pass@1 at every level.
    rows: Vec<Rows>,
    /// Test problems that the measure is over.
    pub(super) problems: usize,
}

impl<'a> Comparison<'a> {
    /// Chooses on all problems and on every resample of them.
    pub(super) fn new(field: &'a Field, request: &'a Request, levels: &'a [f64]) -> Self {
        let valid = field.valid_means();
        let choices = field.choices(levels, &valid);
        let columns = 2 * levels.len();
        let whole = |seeds: &Vec<Vec<Chosen>>| -> Vec<f64> {
            let of_seed = |chosen: &Vec<Chosen>| {
                let pairs: Vec<(f64, f64)> =
                    chosen.iter().map(|chosen| field.test_mean(chosen.candidate)).collect();
                let values = pairs.iter().map(|pair| pair.1);
                values.chain(pairs.iter().map(|pair| pair.0)).collect::<Vec<f64>>()
            };
            seeds.iter().flat_map(of_seed).collect()
        };
        let base = vec![vec![Chosen { candidate: 0, is_reached: true }; levels.len()]];
        let mut rows: Vec<Rows> = std::iter::once(&base)
            .chain(&choices)
            .map(|seeds| Rows {
                rows: seeds.len(),
                columns,
                values: whole(seeds),
                resampled: Vec::with_capacity(request.resamples),
                fixed: Vec::with_capacity(request.resamples),
                by_problem: field.by_problem(seeds),
            })
            .collect();
        for resample in field.resamples(levels, &choices, (request.resamples, request.key)) {
            for (rows, (again, fixed)) in
                rows.iter_mut().zip(resample.again.into_iter().zip(resample.fixed))
            {
                rows.resampled.push(again);
                rows.fixed.push(fixed);
            }
        }
        let problems = field.measured_test.iter().sum::<f64>() as usize;
        Self { field, request, levels, valid, choices, rows, problems }
    }

    /// Whether every seed of the contender reaches the level.
    pub(super) fn is_reached(&self, contender: usize, level: usize) -> bool {
        self.choices[contender].iter().all(|seed| seed[level].is_reached)
    }

    /// The base's point on `test`.
    pub(super) fn base(&self) -> BasePoint {
        let moments = moments(&[(1.0, &self.rows[0])], self.problems);
        let alpha = 1.0 - self.request.confidence;
        let most = self.request.measure.most();
        BasePoint {
            pass_at_1: self.interval(&moments, self.levels.len(), alpha, (0.0, 1.0)),
            value: self.interval(&moments, 0, alpha, (0.0, most)),
        }
    }

    /// One contender's front.
    pub(super) fn front(&self, index: usize) -> Front {
        let contender = &self.field.contenders[index];
        let moments = moments(&[(1.0, &self.rows[index + 1])], self.problems);
        let alpha = 1.0 - self.request.confidence;
        let count = self.levels.len();
        let reached: Vec<usize> = (0..count).filter(|at| self.is_reached(index, *at)).collect();
        let together = simultaneous(&moments, &reached, self.request.confidence, self.request.key);
        let most = self.request.measure.most();
        let level = |at: usize| {
            let is_reached = reached.contains(&at);
            let single = |column: usize, alpha: f64, most: f64| {
                is_reached.then(|| self.interval(&moments, column, alpha, (0.0, most)))
            };
            let chosen: Vec<Choice> = self.choices_at(contender, &self.choices[index], at);
            FrontLevel {
                level: self.levels[at],
                reached: chosen.len(),
                of: contender.seeds.len(),
                value: single(at, alpha, most),
                band: single(at, together, most).map(|band| (band.low, band.high)),
                pass_at_1: single(count + at, alpha, 1.0),
                chosen,
            }
        };
        Front {
            objective: contender.objective.clone(),
            seeds: contender.seeds.iter().filter(|(seed, _)| seed.is_some()).count(),
            candidates: contender.seeds.iter().map(|(_, all)| all.len() - 1).max().unwrap_or(0),
            levels: (0..count).map(level).collect(),
        }
    }

    fn choices_at(&self, of: &Contender, choices: &[Vec<Chosen>], at: usize) -> Vec<Choice> {
        let reaching = of.seeds.iter().zip(choices).filter(|(_, seed)| seed[at].is_reached);
        reaching
            .map(|((seed, _), chosen)| {
                let index = chosen[at].candidate;
                let candidate = &self.field.candidates[index];
                let (pass_at_1, value) = self.field.test_mean(index);
                Choice {
                    seed: *seed,
                    configuration: candidate.configuration.clone(),
                    step: candidate.step,
                    generated_tokens: candidate.generated_tokens,
                    valid_pass_at_1: self.valid.accuracy[index],
                    valid_value: self.valid.value[index],
                    pass_at_1,
                    value,
                }
            })
            .collect()
    }

    /// Every pair; those that the request names are tested.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let count = self.field.contenders.len();
        let mut pairs: Vec<Pair> = (0..count)
            .flat_map(|first| (first + 1..count).map(move |second| (first, second)))
            .map(|(first, second)| self.pair(first, second))
            .collect();
        let tested: Vec<f64> = pairs.iter().filter_map(|pair| pair.p_value).collect();
        let mut adjusted = holm(&tested).into_iter();
        let alpha = 1.0 - self.request.confidence;
        for pair in pairs.iter_mut().filter(|pair| pair.p_value.is_some()) {
            pair.p_holm = adjusted.next();
            let is_small = pair.p_holm.is_some_and(|p| p < alpha);
            pair.is_significant = is_small && pair.seeds != 1;
        }
        pairs
    }

    /// Whether the request tests a pair, and how many pairs it tests.
    fn tested(&self, first: usize, second: usize) -> (bool, usize) {
        let contenders = &self.field.contenders;
        let named = self.request.reference.as_ref();
        let reference = contenders.iter().position(|one| Some(&one.objective) == named);
        match (self.request.tested, reference) {
            (TestedPairs::Reference, Some(reference)) => {
                ([first, second].contains(&reference), contenders.len() - 1)
            }
            _ => (true, contenders.len() * (contenders.len() - 1) / 2),
        }
    }

    fn pair(&self, first: usize, second: usize) -> Pair {
        let contenders = [first, second].map(|index| &self.field.contenders[index]);
        let trained = contenders.iter().filter(|c| c.seeds.iter().any(|(seed, _)| seed.is_some()));
        let mut pair = Pair {
            first: contenders[0].objective.clone(),
            second: contenders[1].objective.clone(),
            seeds: trained.map(|contender| contender.seeds.len()).min().unwrap_or(0),
            levels: Vec::new(),
            mean: None,
            adjusted: None,
            variances: None,
            p_value: None,
            p_holm: None,
            is_significant: false,
        };
        let both = |at: &usize| self.is_reached(first, *at) && self.is_reached(second, *at);
        let shared: Vec<usize> = (0..self.levels.len()).filter(both).collect();
        if shared.is_empty() {
            return pair;
        }
        let [one, other] = [first, second].map(|index| self.rows[index + 1].with_mean(&shared));
        let moments = moments(&[(1.0, &one), (-1.0, &other)], self.problems);
        let columns: Vec<usize> = (0..shared.len()).collect();
        let together = simultaneous(&moments, &columns, self.request.confidence, self.request.key);
        let alpha = 1.0 - self.request.confidence;
        let most = self.request.measure.most();
        let difference = |c: usize, alpha: f64| self.interval(&moments, c, alpha, (-most, most));
        pair.levels = columns
            .iter()
            .map(|c| {
                let band = difference(*c, together);
                PairLevel {
                    level: self.levels[shared[*c]],
                    difference: difference(*c, alpha),
                    band: (band.low, band.high),
                }
            })
            .collect();
        let mean = shared.len();
        pair.mean = Some(self.tested_interval(&moments, mean, alpha, most));
        pair.variances = Some(moments.variances[mean]);
        let (is_tested, tests) = self.tested(first, second);
        if is_tested {
            pair.p_value = Some(self.p_value(&moments, mean));
            let alpha = alpha / tests.max(1) as f64;
            pair.adjusted =
                (pair.seeds != 1).then(|| self.tested_interval(&moments, mean, alpha, most));
        }
        pair
    }

    /// How sure a column is. Values that are all alike are no proof that others would be: one problem more that is as
    /// different as can be, and they would vary.
    fn sureness(&self, moments: &Moments, column: usize, extreme: f64) -> Sureness {
        let p = self.problems as f64;
        let least = extreme * extreme / (p * (p + 1.0));
        match moments.variance[column] < least * 1e-9 {
            true => Sureness {
                error: least.sqrt(),
                freedom: (p - 1.0).max(1.0),
                skewness: 0.0,
                of_choice: 0.0,
            },
            false => Sureness {
                error: moments.variance[column].sqrt(),
                freedom: moments.freedom[column],
                skewness: moments.skewness[column],
                of_choice: moments.of_choice[column],
            },
        }
    }

    /// The interval of a column at one level, with the skewness that the choice adds.
    fn interval(&self, moments: &Moments, c: usize, alpha: f64, range: (f64, f64)) -> Interval {
        let value = moments.value[c];
        let extreme = if range.0 < 0.0 { value.abs() } else { value.max(range.1 - value) };
        let sureness = self.sureness(moments, c, extreme);
        let t = quantile(alpha, sureness.freedom);
        let skewness = limited(sureness.skewness + sureness.of_choice, t);
        sureness.interval(value, t, skewness, range)
    }

    /// The interval of a tested difference, which holds 0 where the test finds nothing.
    fn tested_interval(&self, moments: &Moments, c: usize, alpha: f64, most: f64) -> Interval {
        let value = moments.value[c];
        let sureness = self.sureness(moments, c, value.abs());
        let t = quantile(alpha, sureness.freedom);
        sureness.interval(value, t, sureness.skewness, (-most, most))
    }

    fn p_value(&self, moments: &Moments, column: usize) -> f64 {
        let value = moments.value[column];
        let Sureness { error, freedom, skewness, .. } = self.sureness(moments, column, value.abs());
        if error > 0.0 { two_sided(symmetric(value / error, skewness), freedom) } else { 1.0 }
    }
}

/// How sure an estimate is.
struct Sureness {
    /// Its standard error.
    error: f64,
    freedom: f64,
    /// With the checkpoints as they were chosen.
    skewness: f64,
    /// What the choice of checkpoints adds to it.
    of_choice: f64,
}

impl Sureness {
    fn interval(&self, value: f64, t: f64, skewness: f64, range: (f64, f64)) -> Interval {
        let end = |t: f64| (value - self.error * skewed(t, skewness)).clamp(range.0, range.1);
        Interval { value, low: end(t), high: end(-t) }
    }
}
