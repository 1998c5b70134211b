//! Random choices of instances: a seed and the number of a stream to numbers, picks and orders.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Reproducible random choices.
pub struct InstanceRng(ChaCha8Rng);

impl InstanceRng {
    /// The choices keyed by a seed and a number.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number);
        Self(rng)
    }

    /// A number below `bound` (0 where the bound is 0).
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of a modulus is below 1e-15 for these bounds.
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    /// A number of `least..=most`.
    pub fn within(&mut self, least: usize, most: usize) -> usize {
        least + self.below((most + 1).saturating_sub(least))
    }

    /// True in half of the cases.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// `count` different items of `items` in their order; `None` where there are fewer.
    pub fn choose<T>(&mut self, count: usize, items: Vec<T>) -> Option<Vec<T>> {
        let total = items.len();
        if total < count {
            return None;
        }
        let mut missing = count;
        let mut chosen = Vec::with_capacity(count);
        for (index, item) in items.into_iter().enumerate() {
            // Selection sampling (Knuth, TAOCP 2, algorithm S): every subset is equally likely.
            if self.below(total - index) < missing {
                chosen.push(item);
                missing -= 1;
            }
        }
        Some(chosen)
    }

    /// The items in a random order.
    pub fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_and_orders_are_uniform() {
        let mut draw = InstanceRng::new(1, 0);
        let (mut pairs, mut orders) = ([0; 6], [0; 6]);
        for _ in 0..6000 {
            let pair = draw.choose(2, vec![0, 1, 2, 3]).unwrap();
            pairs[[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
                .iter()
                .position(|p| *p == (pair[0], pair[1]))
                .unwrap()] += 1;
            let order = draw.shuffled(vec![0, 1, 2]);
            orders[order[0] * 2 + usize::from(order[1] > order[2])] += 1;
        }
        for count in pairs.into_iter().chain(orders) {
            // Five standard deviations of a binomial of 6,000 and 1/6.
            assert!((855..=1145).contains(&count), "{pairs:?} {orders:?}");
        }
        assert_eq!(draw.choose(3, vec![1, 2]), None);
    }
}
