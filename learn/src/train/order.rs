//! Which items each step trains on: one shuffle an epoch, a pure function of seed and step.

use std::ops::Range;

use tealight_nn::generate::RngKey;

/// Keys the randomness of shuffles apart from that of samples.
const SHUFFLE: u64 = u64::MAX - 1;

/// The `count` items of step `step`, out of `items`; `count` must not be larger.
///
/// An epoch is as many whole steps as fit, so that no step holds an item twice: its two groups would
/// draw the same samples.
pub(super) fn chosen(items: usize, count: usize, step: usize, seed: u64) -> Vec<usize> {
    let steps = items / count;
    let (epoch, index) = (step / steps, step % steps);
    let mut order: Vec<usize> = (0..items).collect();
    RngKey { seed, step: SHUFFLE }.stream(epoch as u64, 0).shuffle(&mut order);
    order[index * count..(index + 1) * count].to_vec()
}

/// Items of groups, `indices` of an endless list: every epoch visits every group once, in an order of its own, and
/// a group's items one epoch after the other. So groups count alike, however many items each has.
pub(super) fn in_turn(groups: &[Range<usize>], indices: Range<usize>, seed: u64) -> Vec<usize> {
    let rng_key = RngKey { seed, step: SHUFFLE };
    let shuffled = |epoch: u64, key: u64, count: usize| -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        rng_key.stream(epoch, key).shuffle(&mut order);
        order
    };
    let mut known: Option<(usize, Vec<usize>)> = None;
    let mut item = |index: usize| {
        let epoch = index / groups.len();
        if known.as_ref().is_none_or(|(shuffled_epoch, _)| *shuffled_epoch != epoch) {
            known = Some((epoch, shuffled(epoch as u64, 0, groups.len())));
        }
        let group = known.as_ref().map_or(0, |(_, order)| order[index % groups.len()]);
        let items = &groups[group];
        let turn = shuffled((epoch / items.len()) as u64, 1 + group as u64, items.len());
        items.start + turn[epoch % items.len()]
    };
    indices.map(&mut item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_any_size_are_visited_equally() {
        // One item, sixteen items, three.
        let groups = [0..1, 1..17, 17..20];
        let items: Vec<usize> =
            (0..24).flat_map(|step| in_turn(&groups, step * 6..step * 6 + 6, 3)).collect();
        let count = |range: &Range<usize>| items.iter().filter(|i| range.contains(i)).count();
        assert_eq!(groups.each_ref().map(count), [48, 48, 48]);
        // Every item of a group as often as the others.
        assert!((1..17).all(|item| items.iter().filter(|i| **i == item).count() == 3));
        assert!((17..20).all(|item| items.iter().filter(|i| **i == item).count() == 16));
        assert_eq!(in_turn(&groups, 6..12, 3), items[6..12]);
    }

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
