//! Skewness of a mean over problems, and the t statistic without it.
//!
//! The difference of two objectives on one problem is 0 on most problems and large on the few that one of them lost.
//! Its mean over problems is then correlated with its own standard error: where few lost problems were drawn, the mean
//! is too small and looks too sure, and all intervals that miss the truth miss it on one side. The variance itself is
//! estimated without bias. With s the skewness of the mean, the statistic T = (estimate - truth) / error has mean
//! `-s / 2` and skewness `-2s` to first order; Hall's (1992) monotone transformation of it,
//! `T + s T^2 / 3 + s^2 T^3 / 27 + s / 6`, has neither. The same follows for a mean over seeds and problems: seeds are
//! taken for symmetric, so that the third cumulant is that of the problems while the variance is that of both.
//!
//! The choice of checkpoints adds to the third cumulant, most at high levels: on most samples of `valid` all seeds find
//! a checkpoint with the accuracy and little lost, on some they find none and take the most trained. Resamples that
//! choose again have this skewness, and those with fixed checkpoints do not; the difference is the choice's part. An
//! interval at a level is corrected for both, the test for that of the test problems alone.

/// Most that skewness times t may be in an interval, by simulation. The expansion is one in their product, and at 1 the
/// far end would be three times as far as without skewness; at .5 it is 1.25 times as far, and the near end .86 times.
const MOST: f64 = 0.5;

/// Fisher's unbiased estimate of the third cumulant of the mean of `values`; 0 for fewer than three.
pub(super) fn third_cumulant(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if n < 3.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    let sum: f64 = values.iter().map(|x| (x - mean).powi(3)).sum();
    sum / (n * (n - 1.0) * (n - 2.0))
}

/// Hall's transformation of a t statistic whose numerator has the skewness.
pub(super) fn symmetric(t: f64, skewness: f64) -> f64 {
    let s = skewness;
    t + s * t * t / 3.0 + s * s * t.powi(3) / 27.0 + s / 6.0
}

/// The inverse: the t statistic that is transformed to `x`.
pub(super) fn skewed(x: f64, skewness: f64) -> f64 {
    // Below this the cube root loses more digits than the skewness changes.
    if skewness.abs() < 1e-6 {
        return x;
    }
    3.0 / skewness * ((1.0 + skewness * (x - skewness / 6.0)).cbrt() - 1.0)
}

/// The skewness, no larger than an interval of t standard errors can correct for.
pub(super) fn limited(skewness: f64, t: f64) -> f64 {
    let most = MOST / t;
    skewness.clamp(-most, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::student::quantile;
    use crate::simulated::Draws;

    #[test]
    fn the_transformation_has_an_inverse_and_no_skewness_changes_nothing() {
        for skewness in [-1.0, -0.2, -1e-5, 1e-5, 0.3, 1.0] {
            for x in [-6.0, -2.0, 0.0, 1.0, 12.0] {
                let back = symmetric(skewed(x, skewness), skewness);
                assert!((back - x).abs() < 1e-8, "{skewness}, {x}: {back}");
            }
        }
        assert_eq!((symmetric(2.0, 0.0), skewed(2.0, 0.0)), (2.0, 2.0));
    }

    #[test]
    fn a_limited_skewness_moves_ends_by_little_more_than_a_quarter() {
        for (t, skewness) in [(1.96, 0.8), (2.9, 0.3), (12.7, 2.0), (2.0, 1e3)] {
            let limited = limited(skewness, t);
            let (far, near) = (-skewed(-t, limited) / t, skewed(t, limited) / t);
            assert!((1.2..1.28).contains(&far) && (0.84..0.88).contains(&near), "{far} {near}");
        }
        assert_eq!((limited(0.1, 2.0), limited(-9.0, 2.0)), (0.1, -0.25));
    }

    #[test]
    fn the_third_cumulant_is_unbiased_by_enumeration() {
        // All samples of four from values with unequal chances: the population's is E (x - mean)^3 / 4^2.
        let population = [(0.0, 0.7), (0.2, 0.2), (1.0, 0.1)];
        let mean: f64 = population.iter().map(|(x, p)| x * p).sum();
        let exact: f64 = population.iter().map(|(x, p)| (x - mean).powi(3) * p).sum();
        let mut expected = 0.0;
        for index in 0..81_usize {
            let drawn =
                [index % 3, index / 3 % 3, index / 9 % 3, index / 27].map(|i| population[i]);
            let chance: f64 = drawn.iter().map(|(_, p)| p).product();
            expected += chance * third_cumulant(&drawn.map(|(x, _)| x));
        }
        assert!((expected - exact / 16.0).abs() < 1e-12, "{expected} {exact}");
        assert_eq!(third_cumulant(&[1.0, 2.0]), 0.0);
    }

    #[test]
    fn intervals_of_a_skewed_mean_miss_less_and_on_both_sides() {
        // A problem is lost with chance 1/8: skewness 2.3, as the top levels of simulated fronts have.
        let (mut draws, studies, n, truth) = (Draws::new(2), 4000, 60, 0.125 * 0.6);
        let mut missed = [[0; 2]; 2];
        for _ in 0..studies {
            let mut value =
                || if draws.uniform() < 0.125 { 0.6 } else { 0.0 } + 0.1 * draws.normal();
            let values: Vec<f64> = (0..n).map(|_| value()).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
            let error = (squares / (n * (n - 1)) as f64).sqrt();
            let skewness = third_cumulant(&values) / error.powi(3);
            let (t, critical) = ((mean - truth) / error, quantile(0.05, (n - 1) as f64));
            for (which, t) in [t, symmetric(t, skewness)].into_iter().enumerate() {
                missed[which][0] += usize::from(t < -critical);
                missed[which][1] += usize::from(t > critical);
            }
        }
        let share = |count: usize| count as f64 / studies as f64;
        println!(
            "truth above and below: t {:?}, transformed {:?} of {studies}",
            missed[0], missed[1]
        );
        let [plain, ours] = missed;
        assert!(share(plain[0]) > 0.04 && share(plain[1]) < 0.015, "{plain:?}");
        assert!(share(ours[0]) < 0.03 && share(ours[1]) > 0.015, "{ours:?}");
        assert!(share(ours[0] + ours[1]) < 0.053, "{ours:?}");
    }
}
