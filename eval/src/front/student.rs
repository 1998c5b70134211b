//! Student's t: quantiles, tails, and the power of a test of a difference.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};
use statrs::function::erf::erfc;

/// Degrees of freedom from which t is taken for normal where many tails are needed.
pub(super) const NORMAL: usize = 30;

/// Points of the distribution of the estimated variance that power is averaged over.
const POINTS: usize = 100;

/// The t that is exceeded on either side with chance `alpha` together.
pub(super) fn quantile(alpha: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::NAN, |t| -t.inverse_cdf(alpha / 2.0))
}

/// The chance of a t at least as far from 0, for whole degrees of freedom: finite sums (Abramowitz and Stegun
/// 26.7.3, 26.7.4), since a band asks for many of them. From [`NORMAL`] on that of the normal distribution.
pub(super) fn tail(t: f64, freedom: usize) -> f64 {
    if freedom >= NORMAL {
        return erfc(t.abs() / std::f64::consts::SQRT_2);
    }
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cosine, 0.0) } else { (1.0, 0.0) };
    let mut at = if is_odd { 1 } else { 0 };
    while at + 2 <= freedom {
        sum += term;
        at += 2;
        term *= cosine * cosine * (at as f64 - 1.0) / at as f64;
    }
    let within =
        if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    (1.0 - within).clamp(0.0, 1.0)
}

/// A two-sided t test.
pub(super) struct Test {
    /// The t that it needs, with the estimated error in units of the true one: at points of its distribution.
    bounds: Vec<f64>,
    normal: Normal,
}

impl Test {
    /// At level `alpha`.
    pub(super) fn new(alpha: f64, freedom: f64) -> Self {
        let critical = quantile(alpha, freedom);
        let ratio = |share: f64| {
            ChiSquared::new(freedom).map_or(f64::NAN, |chi| chi.inverse_cdf(share) / freedom)
        };
        let share = |index: usize| (index as f64 + 0.5) / POINTS as f64;
        let bounds = (0..POINTS).map(|index| critical * ratio(share(index)).sqrt()).collect();
        Self { bounds, normal: Normal::standard() }
    }

    /// The chance to find a difference of so many standard errors.
    pub(super) fn power(&self, errors: f64) -> f64 {
        let at = |bound: &f64| self.normal.cdf(errors - bound) + self.normal.cdf(-errors - bound);
        self.bounds.iter().map(at).sum::<f64>() / POINTS as f64
    }

    /// The least difference, in standard errors, that is found with chance `power`.
    pub(super) fn least(&self, power: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        while self.power(high) < power && high < 1e6 {
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if self.power(middle) < power { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::two_sided;
    use crate::simulated::Draws;

    #[test]
    fn tails_are_those_of_the_distribution() {
        for freedom in 1..NORMAL {
            for t in [0.0, 0.3, 1.0, 2.5, 12.0, -2.5] {
                let exact = two_sided(t, freedom as f64);
                assert!((tail(t, freedom) - exact).abs() < 1e-9, "t {t}, {freedom}");
            }
        }
        assert!((tail(1.959_964, NORMAL) - 0.05).abs() < 1e-6);
        assert!((quantile(0.05, 2.0) - 4.302_653).abs() < 1e-4);
    }

    #[test]
    fn power_is_the_share_of_differences_that_are_found() {
        let mut draws = Draws::new(3);
        for freedom in [2, 6] {
            let studies = 20_000;
            let mut covered = 0;
            for _ in 0..studies {
                let z = 3.0 + draws.normal();
                let square: f64 = (0..freedom).map(|_| draws.normal().powi(2)).sum();
                covered += i32::from(tail(z / (square / freedom as f64).sqrt(), freedom) < 0.05);
            }
            let simulated = f64::from(covered) / f64::from(studies);
            let test = Test::new(0.05, freedom as f64);
            let ours = test.power(3.0);
            assert!((simulated - ours).abs() < 0.01, "{freedom}: {simulated} {ours}");
            assert!((test.power(test.least(0.8)) - 0.8).abs() < 1e-6);
        }
        assert!((Test::new(0.05, 5.0).power(0.0) - 0.05).abs() < 2e-3);
    }
}
