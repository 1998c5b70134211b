//! Which items each step trains on: one shuffle an epoch, a pure function of seed and step.

use crate::generate::Noise;

/// Keys the randomness of shuffles apart from that of samples.
const SHUFFLE: u64 = u64::MAX - 1;

/// The `count` items of step `step`, out of `items`; `count` must not be larger.
///
/// An epoch is as many whole steps as fit, so that no step holds an item twice: its two groups would
/// draw the same samples.
pub(super) fn chosen(items: usize, count: usize, step: usize, seed: u64) -> Vec<usize> {
    let steps = items / count;
    let (epoch, place) = (step / steps, step % steps);
    let mut order: Vec<usize> = (0..items).collect();
    Noise { seed, step: SHUFFLE }.stream(epoch as u64, 0).shuffle(&mut order);
    order[place * count..(place + 1) * count].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_visits_every_item_once_in_another_order() {
        let epoch = |n: usize| -> Vec<usize> {
            (0..3).flat_map(|step| chosen(12, 4, n * 3 + step, 5)).collect()
        };
        let (mut first, mut second) = (epoch(0), epoch(1));
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, (0..12).collect::<Vec<_>>());
        assert_eq!(first, second);
        let uneven: Vec<Vec<usize>> = (0..20).map(|step| chosen(7, 3, step, 1)).collect();
        for mut step in uneven {
            step.sort_unstable();
            step.dedup();
            assert_eq!(step.len(), 3);
        }
    }
}
