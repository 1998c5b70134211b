//! Student's t: quantiles, tails, and the power of a test of a difference.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

/// Points of the distribution of the estimated variance that power is averaged over.
const POINTS: usize = 100;

/// The t that is exceeded on either side with chance `alpha` together.
pub(crate) fn quantile(alpha: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::NAN, |t| -t.inverse_cdf(alpha / 2.0))
}

/// The chance of a t at least as far from 0, on either side; never 0.
pub(crate) fn two_sided(t: f64, freedom: f64) -> f64 {
    let beyond = StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(1.0, |d| 2.0 * d.cdf(-t.abs()));
    beyond.clamp(f64::MIN_POSITIVE, 1.0)
}

/// Hall's transformation (1992) of the t of a mean with this skewness to one without: few values show few of a long
/// tail, and then t lies to one side. It is a cubic that rises everywhere.
pub(crate) fn without_skew(t: f64, skew: f64) -> f64 {
    // ((1 + skew t / 3)^3 - 1) / skew, which is t for none.
    t + skew * t * t / 3.0 + skew * skew * t.powi(3) / 27.0 + skew / 6.0
}

/// The inverse of [`without_skew`].
fn with_skew(t: f64, skew: f64) -> f64 {
    match skew.abs() < 1e-6 {
        true => t,
        false => 3.0 / skew * ((1.0 + skew * (t - skew / 6.0)).cbrt() - 1.0),
    }
}

/// The t of the lower end of an interval and that of its upper end: Student's and those for the skewness, whichever is
/// further out. A skewness of few values is uncertain, so that it makes an interval longer and never shorter.
pub(crate) fn ends(t: f64, skew: f64) -> [f64; 2] {
    [with_skew(t, skew).max(t), with_skew(-t, skew).min(-t)]
}

/// The skewness of the mean of deviations from it, of which the mean has this variance.
pub(crate) fn skew_of_mean(deviations: &[f64], variance: f64) -> f64 {
    let n = deviations.len() as f64;
    let cubes = deviations.iter().map(|x| x.powi(3)).sum::<f64>();
    // The third cumulant of a mean is that of one value over n^2, and a sample's is too small by this much.
    let cumulant = cubes / ((n - 1.0).max(1.0) * (n - 2.0).max(1.0) * n);
    if variance > 0.0 { cumulant / variance.powf(1.5) } else { 0.0 }
}

/// A two-sided t test.
pub(crate) struct Test {
    /// The t that it needs, with the estimated error in units of the true one: at points of its distribution.
    bounds: Vec<f64>,
    normal: Normal,
}

impl Test {
    /// A test at level `alpha` with so many degrees of freedom.
    pub(crate) fn new(alpha: f64, freedom: f64) -> Self {
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
    pub(crate) fn power(&self, errors: f64) -> f64 {
        // P(|Z + errors| > bound).
        let at = |bound: &f64| self.normal.cdf(errors - bound) + self.normal.cdf(-errors - bound);
        self.bounds.iter().map(at).sum::<f64>() / POINTS as f64
    }

    /// The least difference, in standard errors, that is found with chance `power`.
    pub(crate) fn least(&self, power: f64) -> f64 {
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
        for (t, skew) in [(2.0, 0.7), (-2.5, 0.7), (1.0, -1.2), (0.3, 0.0)] {
            assert!((with_skew(without_skew(t, skew), skew) - t).abs() < 1e-9);
        }
        // Of twelve zeros and ones with one 1: 11 / 12 above and 1 / 12 below.
        let one: Vec<f64> = (0..12).map(|i| f64::from(i == 0) - 1.0 / 12.0).collect();
        assert!(skew_of_mean(&one, 1.0) > 0.0 && skew_of_mean(&[1.0, -1.0, 0.0], 1.0) == 0.0);
        assert!((Test::new(0.05, 5.0).power(0.0) - 0.05).abs() < 2e-3);
        assert!((quantile(0.05, 2.0) - 4.302_653).abs() < 1e-4);
    }
}
