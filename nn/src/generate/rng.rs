//! Randomness as a value: counter-based, keyed by (seed, step, prompt, sample).
//!
//! A sample's stream depends on nothing else, so what is drawn does not depend on which other
//! samples share its batch, nor on how often the run was interrupted.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The part of the key that all samples of one call share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RngKey {
    /// The seed of the run.
    pub seed: u64,
    /// The training step, or a number that names another use.
    pub step: u64,
}

impl RngKey {
    /// The stream of one sample of one prompt.
    pub fn stream(self, prompt: u64, sample: u64) -> RandomStream {
        let mut key = [0u8; 32];
        for (bytes, word) in key.chunks_mut(8).zip([self.seed, self.step, prompt, sample]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        RandomStream(ChaCha8Rng::from_seed(key))
    }
}

/// Uniform numbers of one sample.
#[derive(Debug, Clone)]
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// The next number in [0, 1), of 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        // 53 bits are f64's significand: every value is exact and 1 is never reached.
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next whole number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.uniform() * bound as f64) as usize).min(bound - 1)
    }

    /// Puts `items` in random order, by Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
