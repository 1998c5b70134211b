//! The rule: which checkpoint a seed chooses at a level, and the same in every resample of the problems.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// One checkpoint's values, problem by problem.
#[derive(Debug, Clone, Default)]
pub(super) struct Scores {
    /// Pass@1.
    pub(super) accuracy: Vec<f64>,
    /// The measure; 0 where the problem is not measured.
    pub(super) value: Vec<f64>,
}

/// A checkpoint that can be chosen.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) configuration: String,
    pub(super) step: u64,
    pub(super) generated_tokens: u64,
    pub(super) valid: Scores,
    pub(super) test: Scores,
}

/// An objective and its candidates.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) objective: String,
    /// One a seed: its seed and its candidates; the first is the base.
    pub(super) seeds: Vec<(Option<u64>, Vec<usize>)>,
}

/// All candidates, and who may choose which.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// The base first.
    pub(super) candidates: Vec<Candidate>,
    pub(super) contenders: Vec<Contender>,
    /// 1 for each problem of `valid` that the measure is over, else 0.
    pub(super) measured_valid: Vec<f64>,
    /// Likewise of `test`.
    pub(super) measured_test: Vec<f64>,
}

/// The choice at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) candidate: usize,
    /// Whether it has the accuracy; otherwise it is the most accurate there is.
    pub(super) is_reached: bool,
}

/// Means of accuracy and measure, one of each candidate.
pub(super) struct Means {
    pub(super) accuracy: Vec<f64>,
    pub(super) value: Vec<f64>,
}

/// Of those with at least the accuracy the one with the largest measure; without any, the most accurate. Of equals
/// the more accurate, then the first.
pub(super) fn choose(level: f64, candidates: &[usize], means: &Means) -> Chosen {
    // A mean of fractions may miss a round level by rounding.
    let reaches = |candidate: usize| means.accuracy[candidate] >= level - 1e-12;
    let is_reached = candidates.iter().any(|candidate| reaches(*candidate));
    let rank = |candidate: usize| {
        let (accuracy, value) = (means.accuracy[candidate], means.value[candidate]);
        if is_reached { (value, accuracy) } else { (accuracy, value) }
    };
    let mut best: Option<usize> = None;
    for candidate in candidates.iter().copied().filter(|c| !is_reached || reaches(*c)) {
        if best.is_none_or(|best| rank(candidate) > rank(best)) {
            best = Some(candidate);
        }
    }
    Chosen { candidate: best.unwrap_or(0), is_reached }
}

/// `sum w x / sum w`; unweighted where all weights are 0.
fn mean(values: &[f64], weights: &[f64], total: f64) -> f64 {
    if total <= 0.0 {
        return values.iter().sum::<f64>() / values.len().max(1) as f64;
    }
    values.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>() / total
}

/// Weights of a split's problems, and of those the measure is over.
struct Weights {
    all: Vec<f64>,
    measured: Vec<f64>,
    total: f64,
    measured_total: f64,
}

impl Weights {
    fn new(all: Vec<f64>, mask: &[f64]) -> Self {
        let measured: Vec<f64> = all.iter().zip(mask).map(|(w, is)| w * is).collect();
        let (total, measured_total) = (all.iter().sum(), measured.iter().sum());
        if measured_total > 0.0 {
            return Self { all, measured, total, measured_total };
        }
        // A resample without any problem that is measured says nothing: as it was.
        Self { all, measured: mask.to_vec(), total, measured_total: mask.iter().sum() }
    }

    /// Accuracy and measure.
    fn of(&self, scores: &Scores) -> (f64, f64) {
        (
            mean(&scores.accuracy, &self.all, self.total),
            mean(&scores.value, &self.measured, self.measured_total),
        )
    }
}

impl Field {
    /// Means on `valid`, every problem once.
    pub(super) fn valid_means(&self) -> Means {
        let weights = Weights::new(vec![1.0; self.measured_valid.len()], &self.measured_valid);
        self.means_on_valid(&weights)
    }

    /// Accuracy and measure of a candidate on `test`, every problem once.
    pub(super) fn test_mean(&self, candidate: usize) -> (f64, f64) {
        let weights = Weights::new(vec![1.0; self.measured_test.len()], &self.measured_test);
        weights.of(&self.candidates[candidate].test)
    }

    /// The values of these choices of seeds on each test problem, mean over seeds: the measure at every level, where it
    /// is measured, then Pass@1 at every level.
    pub(super) fn by_problem(&self, seeds: &[Vec<Chosen>]) -> Vec<Vec<f64>> {
        let levels = seeds.first().map_or(0, Vec::len);
        let problems = || 0..self.measured_test.len();
        let mean = |at: usize, of: fn(&Scores) -> &[f64], i: usize| {
            let chosen = seeds.iter().map(|seed| &self.candidates[seed[at].candidate].test);
            chosen.map(|scores| of(scores)[i]).sum::<f64>() / seeds.len() as f64
        };
        let measured = |i: &usize| self.measured_test[*i] > 0.0;
        let value = |at| problems().filter(measured).map(|i| mean(at, |s| &s.value, i)).collect();
        let accuracy = |at| problems().map(|i| mean(at, |s| &s.accuracy, i)).collect();
        (0..levels).map(value).chain((0..levels).map(accuracy)).collect()
    }

    fn means_on_valid(&self, weights: &Weights) -> Means {
        let (accuracy, value) =
            self.candidates.iter().map(|candidate| weights.of(&candidate.valid)).unzip();
        Means { accuracy, value }
    }

    /// The choice of every contender and seed at every level: `[contender][seed][level]`.
    pub(super) fn choices(&self, levels: &[f64], means: &Means) -> Vec<Vec<Vec<Chosen>>> {
        let of_seed = |candidates: &[usize]| -> Vec<Chosen> {
            levels.iter().map(|level| choose(*level, candidates, means)).collect()
        };
        let of = |contender: &Contender| {
            contender.seeds.iter().map(|(_, candidates)| of_seed(candidates)).collect()
        };
        self.contenders.iter().map(of).collect()
    }

    /// Choice and report on one resample of the problems of both splits, the same for all.
    fn resample(
        &self,
        levels: &[f64],
        choices_on_all: &[Vec<Vec<Chosen>>],
        rng: &mut ChaCha8Rng,
    ) -> Resample {
        let mut drawn = |mask: &[f64]| {
            let mut weights = vec![0.0; mask.len()];
            for _ in 0..mask.len() {
                weights[(rng.next_u64() % mask.len() as u64) as usize] += 1.0;
            }
            Weights::new(weights, mask)
        };
        let (valid, test) = (drawn(&self.measured_valid), drawn(&self.measured_test));
        let choices = self.choices(levels, &self.means_on_valid(&valid));
        let mut known: Vec<Option<(f64, f64)>> = vec![None; self.candidates.len()];
        let mut on_test = |candidate: usize| {
            *known[candidate].get_or_insert_with(|| test.of(&self.candidates[candidate].test))
        };
        let (accuracy, value) = on_test(0);
        let base = [vec![value; levels.len()], vec![accuracy; levels.len()]].concat();
        let mut flat = |choices: &[Vec<Vec<Chosen>>]| -> Vec<Vec<f64>> {
            let mut all = vec![base.clone()];
            for seeds in choices {
                let mut flat = Vec::with_capacity(seeds.len() * levels.len() * 2);
                for chosen in seeds {
                    flat.extend(chosen.iter().map(|chosen| on_test(chosen.candidate).1));
                    flat.extend(chosen.iter().map(|chosen| on_test(chosen.candidate).0));
                }
                all.push(flat);
            }
            all
        };
        Resample { again: flat(&choices), fixed: flat(choices_on_all) }
    }

    /// So many resamples; `choices_on_all` are the choices on all problems.
    pub(super) fn resamples(
        &self,
        levels: &[f64],
        choices_on_all: &[Vec<Vec<Chosen>>],
        (count, key): (usize, u64),
    ) -> Vec<Resample> {
        let one = |index: usize| {
            let mut rng = ChaCha8Rng::seed_from_u64(key);
            rng.set_stream(index as u64);
            self.resample(levels, choices_on_all, &mut rng)
        };
        (0..count).into_par_iter().map(one).collect()
    }
}

/// The results of one resample of the problems: for the base and then every contender a row a seed, and in it the
/// measure at every level, then Pass@1 at every level.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resample {
    /// With checkpoints chosen again on the resample of `valid`.
    pub(super) again: Vec<Vec<f64>>,
    /// With the checkpoints that all of `valid` chooses.
    pub(super) fixed: Vec<Vec<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_the_best_measure_among_the_accurate() {
        let means = Means { accuracy: vec![0.2, 0.3, 0.35, 0.3], value: vec![0.9, 0.8, 0.7, 0.8] };
        let chosen = |level| choose(level, &[0, 1, 2, 3], &means);
        assert_eq!(chosen(0.1), Chosen { candidate: 0, is_reached: true });
        assert_eq!(chosen(0.3), Chosen { candidate: 1, is_reached: true });
        assert_eq!(chosen(0.31), Chosen { candidate: 2, is_reached: true });
        // Nothing reaches it: the nearest.
        assert_eq!(chosen(0.36), Chosen { candidate: 2, is_reached: false });
    }

    #[test]
    fn resamples_depend_on_key_and_index_alone() {
        let scores = |shift: f64| Scores {
            accuracy: (0..40).map(|i| f64::from(i) / 40.0 + shift).collect(),
            value: (0..40).map(|i| f64::from(i) / 80.0 + 0.5 - shift).collect(),
        };
        let candidate = |shift: f64| Candidate {
            configuration: String::new(),
            step: 0,
            generated_tokens: 0,
            valid: scores(shift),
            test: scores(shift),
        };
        let field = Field {
            candidates: vec![candidate(0.0), candidate(0.1)],
            contenders: vec![Contender {
                objective: String::new(),
                seeds: vec![(None, vec![0, 1])],
            }],
            measured_valid: vec![1.0; 40],
            measured_test: vec![1.0; 40],
        };
        let levels = [0.4, 0.55];
        let whole = field.choices(&levels, &field.valid_means());
        let few = field.resamples(&levels, &whole, (3, 7));
        assert_eq!(few[..], field.resamples(&levels, &whole, (50, 7))[..3]);
        assert_ne!(few, field.resamples(&levels, &whole, (3, 8)));
        // The choice is made again in each: somewhere the base does not reach the level, or does.
        let levels = [0.49];
        let whole = field.choices(&levels, &field.valid_means());
        let all = field.resamples(&levels, &whole, (50, 7));
        let is_base: Vec<bool> = all.iter().map(|r| r.again[0][0] == r.again[1][0]).collect();
        assert!(is_base.contains(&true) && is_base.contains(&false), "{is_base:?}");
        assert!(
            all.iter().all(|r| (r.fixed[1][0] == r.fixed[0][0]) == (whole[0][0][0].candidate == 0))
        );
    }
}
