//! Problems retained, gained and moved, against an independent second draw of the base.
//!
//! The second draw b' says which problems the base solves; the model m and the first draw b, which shares m's
//! random numbers, say who solves them. Given a problem b' is independent of both, so `rho_b' (rho_m - rho_b)` has the
//! expectation `rho (rho_m - rho)` whatever m and b share, and what they share makes the difference more precise.

use serde::{Deserialize, Serialize};

use super::{DIFFICULTIES, Evaluations, differences};
use crate::Tally;
use crate::inference::{Effect, crossed, ratio};
use crate::measure::pass_at_k::tally_pass_at_k;

/// A measure of what was kept or found, beside the same of the base itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// Number of tries.
    pub k: usize,
    /// The measure.
    pub value: f64,
    /// The same of the base's first draw, in place of the model.
    pub null: f64,
    /// The difference of the two: 0 in expectation where the model is the base.
    pub excess: Effect,
}

/// Problems of one difficulty for the base, as its second draw says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stratum {
    /// Name of the difficulty, of [`DIFFICULTIES`].
    pub difficulty: String,
    /// Number of problems of that difficulty.
    pub problems: usize,
    /// By k: the base's Pass@k, the model's, the difference.
    pub pass: Vec<(usize, f64, f64, Effect)>,
}

/// How many problems go from each difficulty of the base's second draw (row) to each (column), in the order of
/// [`DIFFICULTIES`], on average over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transitions {
    /// To the model's.
    pub model: [[f64; 4]; 4],
    /// To those of the base's first draw: what chance alone moves.
    pub null: [[f64; 4]; 4],
}

impl Beyond {
    pub(super) fn keep(second: &[Tally], evaluations: &Evaluations<'_>, k: usize) -> Option<Self> {
        let solved: Vec<f64> = second.iter().map(|tally| tally_pass_at_k(tally, k)).collect();
        let total: f64 = solved.iter().sum();
        if total <= 0.0 || evaluations.runs.is_empty() {
            return None;
        }
        let excess = ratio(&weighted(evaluations, &solved, k), &solved).within(-1.0, 1.0);
        let again = solved
            .iter()
            .zip(evaluations.base)
            .map(|(weight, base)| weight * tally_pass_at_k(base, k));
        let null = again.sum::<f64>() / total;
        Some(Self { k, value: null + excess.value, null, excess })
    }

    pub(super) fn explore(
        second: &[Tally],
        evaluations: &Evaluations<'_>,
        k: usize,
    ) -> Option<Self> {
        if second.is_empty() || evaluations.runs.is_empty() {
            return None;
        }
        let unsolved: Vec<f64> =
            second.iter().map(|tally| 1.0 - tally_pass_at_k(tally, k)).collect();
        let excess = crossed(&weighted(evaluations, &unsolved, k), 1.0).within(-1.0, 1.0);
        let again = unsolved
            .iter()
            .zip(evaluations.base)
            .map(|(weight, base)| weight * tally_pass_at_k(base, k));
        let null = again.sum::<f64>() / unsolved.len() as f64;
        Some(Self { k, value: null + excess.value, null, excess })
    }
}

/// Of each run, problem by problem, the weight times the difference of Pass@k to the base's first draw.
fn weighted(evaluations: &Evaluations<'_>, weights: &[f64], k: usize) -> Vec<Vec<f64>> {
    let mut rows =
        differences(evaluations.base, evaluations.runs, &|tally| tally_pass_at_k(tally, k));
    for row in &mut rows {
        // rho_b' (rho_m - rho_b): a weight of the draw b itself would choose problems on which b was lucky (regression
        // to the mean).
        row.iter_mut().zip(weights).for_each(|(value, weight)| *value *= weight);
    }
    rows
}

impl Stratum {
    /// Every difficulty that has a problem.
    pub(super) fn all(evaluations: &Evaluations<'_>, ks: &[usize]) -> Vec<Self> {
        let Some(second) = evaluations.second.filter(|_| !evaluations.runs.is_empty()) else {
            return Vec::new();
        };
        let stratum = |which: usize| {
            let is_here = |tally: &Tally| f64::from(u8::from(difficulty(tally) == which));
            let weights: Vec<f64> = second.iter().map(is_here).collect();
            let problems: f64 = weights.iter().sum();
            let pass = |k: &usize| {
                let effect =
                    ratio(&weighted(evaluations, &weights, *k), &weights).within(-1.0, 1.0);
                let base = weights
                    .iter()
                    .zip(evaluations.base)
                    .map(|(w, tally)| w * tally_pass_at_k(tally, *k));
                let base = base.sum::<f64>() / problems;
                (*k, base, base + effect.value, effect)
            };
            (problems > 0.0).then(|| Self {
                difficulty: DIFFICULTIES[which].to_owned(),
                problems: problems as usize,
                pass: ks.iter().map(pass).collect(),
            })
        };
        (0..DIFFICULTIES.len()).filter_map(stratum).collect()
    }
}

impl Transitions {
    pub(super) fn new(evaluations: &Evaluations<'_>) -> Option<Self> {
        let second = evaluations.second.filter(|_| !evaluations.runs.is_empty())?;
        Some(Self {
            model: moves(second, evaluations.runs),
            null: moves(second, &[evaluations.base]),
        })
    }
}

/// How many problems go from each difficulty of one evaluation to each of others, on average over these.
fn moves(from: &[Tally], to: &[&[Tally]]) -> [[f64; 4]; 4] {
    let mut table = [[0.0; 4]; 4];
    let each = 1.0 / to.len().max(1) as f64;
    for (from, to) in to.iter().flat_map(|run| from.iter().zip(*run)) {
        table[difficulty(from)][difficulty(to)] += each;
    }
    table
}

/// 0 easy (validity .9 and more), 1 medium (.3), 2 hard, 3 unsolved.
fn difficulty(tally: &Tally) -> usize {
    match tally.correct as f64 / tally.samples.max(1) as f64 {
        v if v >= 0.9 => 0,
        v if v >= 0.3 => 1,
        v if v > 0.0 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Contrast;
    use super::*;
    use crate::simulated::Draws;

    const SAMPLES: usize = 32;

    fn tally(correct: usize) -> Tally {
        Tally { samples: SAMPLES, correct, ..Tally::default() }
    }

    /// A base of `problems` drawn twice, and another model: of its samples the given share has the random numbers of
    /// the base's first draw. `chance` makes the model's chance of the base's.
    fn study(
        draws: &mut Draws,
        (problems, common): (usize, f64),
        chance: &dyn Fn(f64) -> f64,
    ) -> [Vec<Tally>; 3] {
        let mut tallies: [Vec<Tally>; 3] = Default::default();
        for _ in 0..problems {
            let p = draws.beta(0.6, 1.7);
            let (mut first, mut model) = (0, 0);
            for _ in 0..SAMPLES {
                let u = draws.uniform();
                first += usize::from(u < p);
                let v = if draws.uniform() < common { u } else { draws.uniform() };
                model += usize::from(v < chance(p));
            }
            let second = draws.binomial(SAMPLES, p);
            for (all, correct) in tallies.iter_mut().zip([first, second, model]) {
                all.push(tally(correct));
            }
        }
        tallies
    }

    fn contrast([base, second, model]: &[Vec<Tally>; 3], ks: &[usize]) -> Contrast {
        let runs = [model.as_slice()];
        let evaluations = Evaluations { base, second: Some(second), runs: &runs, table: &runs };
        Contrast::new(&evaluations, ks)
    }

    #[test]
    fn the_same_weights_are_significant_in_a_twentieth_of_draws() {
        // Independent draws; nine tenths of the random numbers shared; all of them, where nothing may ever differ.
        for (common, studies) in [(0.0, 3000), (0.9, 3000), (1.0, 300)] {
            let mut draws = Draws::new(3);
            let (mut wrong, mut mean) = ([0; 5], 0.0);
            for _ in 0..studies {
                let tallies = study(&mut draws, (80, common), &|p| p);
                let result = contrast(&tallies, &[1, 16]);
                let medium = result.strata.iter().find(|stratum| stratum.difficulty == "medium");
                let effects = [
                    Some(result.keep[0].excess),
                    Some(result.keep[1].excess),
                    Some(result.explore[0].excess),
                    Some(result.explore[1].excess),
                    medium.map(|stratum| stratum.pass[0].3),
                ];
                for (count, effect) in wrong.iter_mut().zip(effects) {
                    *count += i32::from(effect.is_some_and(|effect| effect.p_value < 0.05));
                }
                mean += result.keep[1].excess.value / f64::from(studies);
            }
            let share = |count: i32| f64::from(count) / f64::from(studies);
            let sizes = wrong.map(share);
            println!(
                "random numbers shared {common}: p < .05 for keep@1, keep@16, new@1, new@16, medium stratum: {sizes:.3?}; \
                 mean excess {mean:+.4}"
            );
            // Four standard errors of 3,000 draws at .05 are .016.
            assert!(sizes.iter().all(|size| *size < 0.066), "{sizes:?}");
            assert!(mean.abs() < 2e-3, "{mean:?}");
            match common {
                // At one try the changes are smaller than one problem of 80 may make: these tests are cautious.
                0.0 => assert!(sizes[1] > 0.02 && sizes[3] > 0.02, "{sizes:?}"),
                // Equal samples: nothing differs, and nothing is ever significant.
                1.0 => assert!(sizes.iter().all(|size| *size == 0.0), "{sizes:?}"),
                _ => {}
            }
        }
    }

    #[test]
    fn keep_and_explore_equal_simulated_probabilities() {
        // Half of the chance is left; most random numbers are shared.
        let mut draws = Draws::new(11);
        let (mut hits, mut sums) = ([0.0; 4], [0.0; 4]);
        for _ in 0..300 {
            let tallies = study(&mut draws, (80, 0.8), &|p| 0.5 * p);
            let contrast = contrast(&tallies, &[4]);
            let measures = [contrast.keep[0], contrast.explore[0]];
            for (sum, value) in hits.iter_mut().zip(measures.iter().flat_map(|b| [b.value, b.null]))
            {
                *sum += value / 300.0;
            }
        }
        let mut draws = Draws::new(12);
        for _ in 0..200_000 {
            let p = draws.beta(0.6, 1.7);
            let at = |p: f64| 1.0 - (1.0 - p).powi(4);
            let (base, model) = (at(p), at(0.5 * p));
            for (sum, value) in sums.iter_mut().zip([base, model, base * base, base * model]) {
                *sum += value / 200_000.0;
            }
        }
        let [base, model, square, both] = sums;
        let exact = [both / base, square / base, model - both, base - square];
        for (hits, exact) in hits.iter().zip(exact) {
            assert!((hits - exact).abs() < 0.01, "{hits} {exact}");
        }
    }

    #[test]
    fn forgetting_exceeds_resampling_noise() {
        let mut draws = Draws::new(4);
        let p: Vec<f64> = (0..200).map(|_| draws.beta(0.6, 1.7)).collect();
        let mut simulate = |chance: &dyn Fn(usize, f64) -> f64| -> Vec<Tally> {
            let chances = p.iter().enumerate();
            chances.map(|(i, p)| tally(draws.binomial(SAMPLES, chance(i, *p)))).collect()
        };
        // Every second problem is forgotten.
        let forgets = |i: usize, p: f64| p * f64::from(i as u32 % 2);
        let result =
            contrast(&[simulate(&|_, p| p), simulate(&|_, p| p), simulate(&forgets)], &[1, 8]);
        let keep = result.keep[1];
        assert!(keep.excess.high < -0.2, "{keep:?}");
        let Transitions { model, null } = result.transitions.unwrap();
        let total = |table: &[[f64; 4]; 4]| table.iter().flatten().sum::<f64>();
        assert!((total(&model) - 200.0).abs() < 1e-6 && (total(&null) - 200.0).abs() < 1e-6);
        assert!(model[1][3] > 3.0 * null[1][3]);
    }

    #[test]
    fn strata_are_measured_on_samples_that_did_not_choose_them() {
        // All problems alike: what the second draw puts among the hard is luck, and the first says so.
        let mut draws = Draws::new(9);
        let mut simulate = || -> Vec<Tally> {
            (0..400)
                .map(|_| Tally { samples: 8, correct: draws.binomial(8, 0.3), ..Tally::default() })
                .collect()
        };
        let tallies = [simulate(), simulate(), simulate()];
        let result = contrast(&tallies, &[1]);
        assert_eq!(result.strata.iter().map(|stratum| stratum.problems).sum::<usize>(), 400);
        for stratum in result.strata.iter().filter(|stratum| stratum.problems > 20) {
            assert!((stratum.pass[0].1 - 0.3).abs() < 0.1, "{stratum:?}");
        }
    }

    #[test]
    fn no_second_draw_omits_keep_explore_and_strata() {
        let mut draws = Draws::new(1);
        let [base, _, model] = study(&mut draws, (40, 0.5), &|p| p);
        let runs = [model.as_slice()];
        let evaluations = Evaluations { base: &base, second: None, runs: &runs, table: &runs };
        let result = Contrast::new(&evaluations, &[1, 16]);
        assert!(result.keep.is_empty() && result.explore.is_empty() && result.strata.is_empty());
        assert!(result.transitions.is_none() && result.pass.len() == 2);
    }
}
