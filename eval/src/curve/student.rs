//! Student's t: quantiles, tails, and the power of a test of a difference.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

pub(super) use crate::interval::two_sided as two_sided_tail;

/// Points of the distribution of the estimated variance that power is averaged over.
const POINTS: usize = 100;

/// The t that is exceeded on either side with chance `alpha` together.
pub(super) fn quantile(alpha: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::NAN, |t| -t.inverse_cdf(alpha / 2.0))
}

/// A two-sided t test.
pub(super) struct Test {
    /// The t that it needs, with the estimated error in units of the true one: at points of its distribution.
    bounds: Vec<f64>,
    normal: Normal,
}

impl Test {
    /// A test at level `alpha` with so many degrees of freedom.
    pub(super) fn new(alpha: f64, freedom: f64) -> Self {
        let critical = quantile(alpha, freedom);
        let ratio = |share: f64| {
            ChiSquared::new(freedom).map_or(f64::NAN, |chi| chi.inverse_cdf(share) / freedom)
        };
        let share = |index: usize| (index as f64 + 0.5) / POINTS as f64;
        // |t| > q where |D| / SE > q sqrt(estimated / true variance), and that ratio is chi-squared over its freedom.
        // Quantiles at midpoints, so that the mean over them is the integral: the non-central t without its series.
        let bounds = (0..POINTS).map(|index| critical * ratio(share(index)).sqrt()).collect();
        Self { bounds, normal: Normal::standard() }
    }

    /// The chance to find a difference of so many standard errors.
    pub(super) fn power(&self, errors: f64) -> f64 {
        // P(|Z + errors| > bound).
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
    use crate::simulated::Draws;

    #[test]
    fn power_equals_simulated_detection_rate() {
        let mut draws = Draws::new(3);
        for freedom in [2, 6] {
            let studies = 20_000;
            let critical = quantile(0.05, f64::from(freedom));
            let mut found = 0;
            for _ in 0..studies {
                let z = 3.0 + draws.normal();
                let square: f64 = (0..freedom).map(|_| draws.normal().powi(2)).sum();
                found += i32::from((z / (square / f64::from(freedom)).sqrt()).abs() > critical);
            }
            let simulated = f64::from(found) / f64::from(studies);
            let test = Test::new(0.05, f64::from(freedom));
            let ours = test.power(3.0);
            assert!((simulated - ours).abs() < 0.01, "{freedom}: {simulated} {ours}");
            assert!((test.power(test.least(0.8)) - 0.8).abs() < 1e-6);
        }
        assert!((Test::new(0.05, 5.0).power(0.0) - 0.05).abs() < 2e-3);
        assert!((quantile(0.05, 2.0) - 4.302_653).abs() < 1e-4);
    }
}
