//! Random draws for tests that simulate studies.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How many studies are simulated: as many as TEALIGHT_STUDIES says.
pub(crate) fn studies(default: usize) -> usize {
    let asked = std::env::var("TEALIGHT_STUDIES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A stream of draws, reproducible.
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// In (0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        // Box and Muller.
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// The number of correct ones of `n` tries.
    pub(crate) fn binomial(&mut self, n: usize, p: f64) -> usize {
        (0..n).filter(|_| self.uniform() < p).count()
    }

    /// Joehnk's method, for small parameters.
    pub(crate) fn beta(&mut self, a: f64, b: f64) -> f64 {
        loop {
            let (x, y) = (self.uniform().powf(1.0 / a), self.uniform().powf(1.0 / b));
            if x + y <= 1.0 && x + y > 0.0 {
                return x / (x + y);
            }
        }
    }

    /// Which of these chances.
    pub(crate) fn pick(&mut self, chances: &[f64]) -> usize {
        let mut left = self.uniform() * chances.iter().sum::<f64>();
        for (index, chance) in chances.iter().enumerate() {
            left -= chance;
            if left <= 0.0 {
                return index;
            }
        }
        chances.len() - 1
    }
}
