//! The chance of each Countdown problem to be drawn, and with it a second list of problems that has none of the first
//! and is drawn from the same distribution.

use std::collections::{HashMap, HashSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{CountdownStream, MAX_NUMBER, PATIENCE, TARGETS};
use crate::{Problem, distinct};

/// Share of draws that are taken of a problem that is never among the reported; less than the least chance of not being
/// among them, so that the likeliest problems can be taken more often.
const FLOOR: f64 = 0.25;

/// The first problems of a stream, which another list is to leave out.
pub(super) struct Reported {
    ids: HashSet<String>,
    /// Attempts that it took to draw them.
    attempts: u64,
    chances: Chances,
}

impl Reported {
    /// The first `count` distinct problems of `stream`.
    pub(super) fn new(mut stream: CountdownStream, count: usize) -> Self {
        let problems = distinct(count, PATIENCE, || Some(stream.next_problem()));
        let ids = problems.into_iter().map(|problem| problem.id).collect();
        Self { ids, attempts: stream.attempts, chances: Chances::default() }
    }

    /// The first `wanted` problems of `stream`, another of the same split, that are not among these; fewer where there
    /// are no more.
    ///
    /// A problem that is drawn with chance r an attempt is in a list after t attempts with chance `1 - (1 - r)^t`, and
    /// is none of these with chance `q = (1 - r)^attempts`. So that on average over what these might have been it is
    /// in this list with the same chance, it has to be with chance `(1 - (1 - r)^t) / q` where it is none of these:
    /// the hazard of that over r is the chance with which a draw is taken, times a constant. Of the likeliest problems
    /// long lists have fewer than they should, since both together cannot have more than all of them.
    pub(super) fn others(&mut self, mut stream: CountdownStream, wanted: usize) -> Vec<Problem> {
        let mut coin = ChaCha8Rng::seed_from_u64(0x00c0_ffee);
        coin.set_stream(u64::MAX);
        let (mut problems, mut seen, mut repeats) = (Vec::new(), HashSet::new(), 0);
        while problems.len() < wanted && repeats < PATIENCE {
            let problem = stream.next_problem();
            repeats += 1;
            if self.ids.contains(&problem.id) || seen.contains(&problem.id) {
                continue;
            }
            // With t counted FLOOR an attempt: the hazard of (1 - (1 - r)^t) / q is r (1 - r)^t / (q + (1 - r)^t - 1).
            let rest = 1.0 - self.chances.chance(&problem.id);
            let absent = rest.powf(self.attempts as f64);
            let unlisted = rest.powf(FLOOR * stream.attempts as f64);
            let uniform = (coin.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            if uniform * (absent + unlisted - 1.0) < FLOOR * unlisted {
                seen.insert(problem.id.clone());
                problems.push(problem);
                repeats = 0;
            }
        }
        problems
    }
}

/// Chances of problems in one attempt of a [`CountdownStream`], kept for each multiset of numbers.
#[derive(Default)]
pub(super) struct Chances {
    /// By the numbers as a problem states them: the chance of each target.
    known: HashMap<String, Vec<f64>>,
}

impl Chances {
    /// Of the problem `3,7,8,9=24`; 0 for a text that is none.
    pub(super) fn chance(&mut self, id: &str) -> f64 {
        let Some((numbers, target)) = id.split_once('=') else { return 0.0 };
        let place = target.parse().ok().and_then(|t: u32| t.checked_sub(*TARGETS.start()));
        let known = self.known.entry(numbers.to_owned()).or_insert_with(|| of_targets(numbers));
        place.and_then(|place| known.get(place as usize)).copied().unwrap_or(0.0)
    }
}

/// The chance of each target with these numbers, in one attempt.
fn of_targets(numbers: &str) -> Vec<f64> {
    let mut chances = vec![0.0; TARGETS.count()];
    let numbers: Option<Vec<i64>> = numbers.split(',').map(|number| number.parse().ok()).collect();
    let mut orders = HashSet::new();
    permute(&mut numbers.unwrap_or_default(), 0, &mut orders);
    for order in orders {
        let order_chance = f64::from(MAX_NUMBER).powi(order.len() as i32).recip();
        for (above, below, chance) in values(&order) {
            if below == 0 || above % below != 0 {
                continue;
            }
            let place = above / below - i64::from(*TARGETS.start());
            if let Some(sum) = usize::try_from(place).ok().and_then(|at| chances.get_mut(at)) {
                *sum += order_chance * chance;
            }
        }
    }
    chances
}

/// Every order of the numbers, each once.
fn permute(numbers: &mut [i64], from: usize, orders: &mut HashSet<Vec<i64>>) {
    if from == numbers.len() {
        orders.insert(numbers.to_vec());
    }
    for other in from..numbers.len() {
        numbers.swap(from, other);
        permute(numbers, from + 1, orders);
        numbers.swap(from, other);
    }
}

/// The values of all trees over numbers in this order, as fractions, each with its chance. A division by zero has the
/// denominator 0, and so has everything made of it.
fn values(numbers: &[i64]) -> Vec<(i64, i64, f64)> {
    if let [number] = numbers {
        return vec![(*number, 1, 1.0)];
    }
    let mut all = Vec::new();
    for cut in 1..numbers.len() {
        let (left, right) = (values(&numbers[..cut]), values(&numbers[cut..]));
        for (a, b, p) in &left {
            for (c, d, q) in &right {
                // The stream draws the cut and the operator uniformly.
                let chance = p * q / (4 * (numbers.len() - 1)) as f64;
                all.push((a * d + c * b, b * d, chance));
                all.push((a * d - c * b, b * d, chance));
                all.push((a * c, b * d, chance));
                all.push((a * d, if *d == 0 { 0 } else { b * c }, chance));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{REPORTED, Split, load};
    use super::*;

    #[test]
    fn chances_equal_the_streams_frequencies() {
        let mut stream = CountdownStream::new(Split::Test, 5, 9);
        let (mut counts, mut chances) = (HashMap::new(), Chances::default());
        for _ in 0..60_000 {
            *counts.entry(stream.next_problem().id).or_insert(0_u32) += 1;
        }
        // Together everything that was drawn often, and the likeliest alone.
        let (mut seen, mut expected) = (0.0, 0.0);
        for (id, count) in counts.iter().filter(|(_, count)| **count >= 20) {
            let mean = chances.chance(id) * stream.attempts as f64;
            seen += f64::from(*count);
            expected += mean;
            if mean > 100.0 {
                assert!(
                    (f64::from(*count) - mean).abs() < 5.0 * mean.sqrt(),
                    "{id} {count} {mean}"
                );
            }
        }
        assert!((seen / expected - 1.0).abs() < 0.02, "{seen} {expected}");
        assert_eq!(chances.chance("nonsense"), 0.0);
        assert_eq!(chances.chance("1,1,1,1=99"), 0.0);
    }

    /// The mean of log-chances: how easy problems are to come upon.
    fn ease(problems: &[Problem], chances: &mut Chances) -> f64 {
        let sum: f64 = problems.iter().map(|problem| chances.chance(&problem.id).ln()).sum();
        sum / problems.len() as f64
    }

    #[test]
    fn every_split_is_drawn_from_one_distribution() {
        let mut chances = Chances::default();
        let mut split_ease =
            |split: &str| ease(&load(split, Some(96)).unwrap().problems, &mut chances);
        let [train, test, valid, sft] = ["train", "test", "valid", "sft"].map(&mut split_ease);
        println!(
            "mean log-chance: train {train:.3}, test {test:.3}, valid {valid:.3}, sft {sft:.3}"
        );
        // Of 96 problems it has a standard deviation of .09 from list to list.
        for other in [train, valid] {
            assert!((other - test).abs() < 0.3, "{train} {test} {valid}");
        }
    }

    #[test]
    fn valid_is_as_hard_as_test_on_average() {
        let mut known = Chances::default();
        let lists = 40;
        let sizes = [(64, 0.07), (96, 0.07), (240, 0.12)];
        let (mut test, mut valid, mut plain) = ([0.0; 3], [0.0; 3], [0.0; 3]);
        for seed in 1..=lists {
            let stream = |number| CountdownStream::new(Split::Test, seed, number);
            let distinct_of = |number, count| {
                let mut stream = stream(number);
                distinct(count, PATIENCE, || Some(stream.next_problem()))
            };
            let listed = distinct_of(0, 240);
            let chances = std::mem::take(&mut known);
            let mut reported = Reported { chances, ..Reported::new(stream(0), REPORTED) };
            // The earlier `valid`: the rest of the stream, in its order.
            let mut rest = distinct_of(1, 1240);
            let ids = Reported::new(stream(0), 1000).ids;
            rest.retain(|problem| !ids.contains(&problem.id));
            for (index, (count, _)) in sizes.into_iter().enumerate() {
                let others = reported.others(stream(1), count);
                assert!(others.iter().all(|problem| !reported.ids.contains(&problem.id)));
                let plainly = &rest[..count.min(rest.len())];
                let parts = [
                    (&mut test, &listed[..count]),
                    (&mut valid, &others[..]),
                    (&mut plain, plainly),
                ];
                for (sums, problems) in parts {
                    sums[index] += ease(problems, &mut reported.chances) / lists as f64;
                }
            }
            known = reported.chances;
        }
        for (index, (count, most)) in sizes.into_iter().enumerate() {
            let (test, valid, plain) = (test[index], valid[index], plain[index]);
            assert!((valid - test).abs() < most, "{count}: {valid} {test}");
            assert!((plain - test).abs() > 0.5, "{count}: {plain} {test}");
        }
    }
}
