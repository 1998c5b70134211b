//! Objectives of sets: the expected value of a function F of k samples of a prompt, and its unbiased gradient.
//!
//! `grad E[F(y_1..y_k)] = E[F sum_i grad log pi(y_i)]`. From a group of n samples the average over all sets of k of
//! them gives sample i the advantage `k (mean of F over the sets with i - baseline)`, where a baseline that i is not
//! part of leaves the expectation as it is. Neither average is sampled: F depends on how many of a set are correct and
//! on how many solution classes they are, whose chances are hypergeometric.
//!
//! To add a function of the same two numbers, add a variant, its value, its name, and its expectation in
//! `lab/set_claim.rs`.

use super::group_stats::GroupStats;

/// A function of k samples of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetFunction {
    /// Whether one is correct: Pass@k.
    Pass,
    /// The number of solution classes of its correct samples: unique_correct@k.
    Unique,
    /// The same over the number of correct answers that the prompt has: coverage@k.
    Coverage,
    /// Of a pair: the mean over both of "correct, and not the other's class" (DARLING's quality times distance, arXiv
    /// 2509.02534).
    Pair,
    /// The share of correct samples times the number of classes over k (Polychromic, arXiv 2509.25424).
    Polychromic,
}

/// The baseline of the mean of F over the sets that a sample is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBaseline {
    /// Nothing: the plain form.
    None,
    /// The mean over the sets of k that the sample is not in.
    Others,
    /// The mean over the sets of k - 1 others: what the sample adds to them.
    Marginal,
}

/// The quantity that a set objective maximises, and the estimator of its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetObjective {
    /// The function of a set of samples whose expectation is maximised.
    pub function: SetFunction,
    /// Samples of a set.
    pub k: usize,
    /// The control variate of the gradient estimator.
    pub baseline: SetBaseline,
}

/// Advantages below this are rounding of sums of chances, and no gradient.
const ROUNDING: f64 = 1e-10;

impl SetFunction {
    /// Every function by its name in the language of objectives.
    pub(super) const NAMED: [(&str, Self); 5] = [
        ("pass", SetFunction::Pass),
        ("unique", SetFunction::Unique),
        ("coverage", SetFunction::Coverage),
        ("pair", SetFunction::Pair),
        ("polychromic", SetFunction::Polychromic),
    ];

    /// The value of a set of `k` of which so many are correct, of so many classes; `total` is the number of correct
    /// answers of the prompt.
    pub fn value(self, k: usize, correct: usize, classes: usize, total: f64) -> f64 {
        match self {
            SetFunction::Pass => f64::from(correct > 0),
            SetFunction::Unique => classes as f64,
            SetFunction::Coverage => classes as f64 / total,
            SetFunction::Pair if correct == 2 && classes == 1 => 0.0,
            SetFunction::Pair => correct as f64 / 2.0,
            SetFunction::Polychromic => (correct * classes) as f64 / (k * k) as f64,
        }
    }
}

impl SetObjective {
    /// The fewest samples of a group from which it can be estimated.
    pub fn smallest_group(self) -> usize {
        self.k + usize::from(self.baseline == SetBaseline::Others)
    }

    /// The advantages of a group, in the order of its samples.
    pub(super) fn advantages(self, stats: &GroupStats) -> Vec<f64> {
        let mut members = Vec::new();
        for class in stats.classes.iter().flatten() {
            let index = members.iter().position(|(known, _)| known == class);
            match index {
                Some(index) => members[index].1 += 1,
                None => members.push((*class, 1)),
            }
        }
        let total = stats.total.map_or(f64::NAN, |total| total as f64);
        let all: usize = members.iter().map(|(_, count)| count).sum();
        let incorrect = stats.classes.len() - all;
        let counts: Vec<usize> = members.iter().map(|(_, count)| *count).collect();
        // F sees only counts, so that all members of a class have one advantage: computed once for each class.
        let of_incorrect =
            if incorrect == 0 { 0.0 } else { self.advantage(&counts, incorrect, None, total) };
        let of_class: Vec<f64> = (0..members.len())
            .map(|class| self.advantage(&counts, incorrect, Some(class), total))
            .collect();
        let advantage = |class: &Option<usize>| match class {
            None => of_incorrect,
            Some(class) => members
                .iter()
                .position(|(known, _)| known == class)
                .map_or(0.0, |index| of_class[index]),
        };
        stats.classes.iter().map(advantage).collect()
    }

    /// The advantage of a sample of class `own`, or of an incorrect one, in a group with so many members of each class.
    fn advantage(self, members: &[usize], incorrect: usize, own: Option<usize>, total: f64) -> f64 {
        let Self { function, k, baseline } = self;
        let others = Others::new(members, incorrect, own);
        let value = |correct, classes| function.value(k, correct, classes, total);
        let is_correct = usize::from(own.is_some());
        // F of the sample and a set of others; its class is new unless one of them is of it.
        let with = |correct: usize, classes: usize, of_own: usize| {
            value(correct + is_correct, classes + usize::from(is_correct > 0 && of_own == 0))
        };
        // E[F] has the gradient E[F sum_i grad log pi_i]: k times the mean over the sets that hold the sample.
        let worth = match baseline {
            SetBaseline::None => others.mean(k - 1, with),
            SetBaseline::Others => {
                others.mean(k - 1, with)
                    - others.mean(k, |correct, classes, _| value(correct, classes))
            }
            SetBaseline::Marginal => others.mean(k - 1, |correct, classes, of_own| {
                with(correct, classes, of_own) - value(correct, classes)
            }),
        };
        if worth.abs() < ROUNDING { 0.0 } else { k as f64 * worth }
    }
}

/// The other samples of a group, as one of them sees them.
struct Others {
    /// Members of each class that is not the sample's.
    members: Vec<usize>,
    /// Others of its own class; 0 of an incorrect one.
    own: usize,
    count: usize,
    /// `log n!` by n.
    log_factorials: Vec<f64>,
}

impl Others {
    fn new(members: &[usize], incorrect: usize, own: Option<usize>) -> Self {
        let correct: usize = members.iter().sum();
        let count = correct + incorrect - 1;
        let apart = members.iter().enumerate().filter(|(class, _)| Some(*class) != own);
        let log_factorials = (0..=count).scan(0.0, |sum, n| {
            *sum += (n.max(1) as f64).ln();
            Some(*sum)
        });
        Self {
            members: apart.map(|(_, count)| *count).collect(),
            own: own.map_or(0, |own| members[own] - 1),
            count,
            log_factorials: log_factorials.collect(),
        }
    }

    /// The mean over all sets of `size` others of a function of how many of them are correct, how many classes these
    /// are, and how many are of the sample's own class.
    fn mean(&self, size: usize, value: impl Fn(usize, usize, usize) -> f64) -> f64 {
        // The chances of so many correct ones of so many classes, class by class.
        let mut chances = vec![vec![0.0; size + 1]; size + 1];
        chances[0][0] = 1.0;
        let mut left = self.count;
        for members in &self.members {
            let mut next = vec![vec![0.0; size + 1]; size + 1];
            for correct in 0..=size {
                for classes in (0..=correct).filter(|classes| chances[correct][*classes] > 0.0) {
                    for picked in 0..=(*members).min(size - correct) {
                        // Multivariate hypergeometric, class by class: each on the samples and slots left.
                        let chance = self.chance(left, *members, size - correct, picked);
                        next[correct + picked][classes + usize::from(picked > 0)] +=
                            chances[correct][classes] * chance;
                    }
                }
            }
            chances = next;
            left -= members;
        }
        let mut mean = 0.0;
        for (correct, chances) in chances.iter().enumerate() {
            for (classes, chance) in chances.iter().enumerate().filter(|(_, p)| **p > 0.0) {
                for picked in 0..=self.own.min(size - correct) {
                    // The rest of the set is incorrect.
                    let chance = chance * self.chance(left, self.own, size - correct, picked);
                    if chance > 0.0 {
                        let classes = classes + usize::from(picked > 0);
                        mean += chance * value(correct + picked, classes, picked);
                    }
                }
            }
        }
        mean
    }

    /// The chance that `draws` of `all`, of which `marked` are marked, hold `picked` marked ones.
    fn chance(&self, all: usize, marked: usize, draws: usize, picked: usize) -> f64 {
        if draws > all || draws - picked > all - marked {
            return 0.0;
        }
        let log_choose = |n: usize, k: usize| {
            self.log_factorials[n] - self.log_factorials[k] - self.log_factorials[n - k]
        };
        let log = log_choose(marked, picked) + log_choose(all - marked, draws - picked)
            - log_choose(all, draws);
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Solution classes of the samples of a group: of two classes and of one, and incorrect ones.
    const GROUP: [Option<usize>; 7] = [Some(4), None, Some(4), Some(9), None, Some(4), Some(2)];

    fn stats(classes: &[Option<usize>]) -> GroupStats {
        GroupStats {
            rewards: classes.iter().map(|class| f64::from(class.is_some())).collect(),
            classes: classes.to_vec(),
            total: Some(5),
            ..GroupStats::default()
        }
    }

    fn value(function: SetFunction, set: &[Option<usize>]) -> f64 {
        let mut classes: Vec<usize> = set.iter().flatten().copied().collect();
        let correct = classes.len();
        classes.sort_unstable();
        classes.dedup();
        function.value(set.len(), correct, classes.len(), 5.0)
    }

    /// The mean of F over the sets of `size` that `keeps` keeps.
    fn mean(
        function: SetFunction,
        group: &[Option<usize>],
        size: usize,
        keeps: impl Fn(u32) -> bool,
    ) -> f64 {
        let sets = (0_u32..1 << group.len()).filter(|set| set.count_ones() as usize == size);
        let values: Vec<f64> = sets
            .filter(|set| keeps(*set))
            .map(|set| {
                let members = (0..group.len()).filter(|i| set & (1 << i) != 0);
                value(function, &members.map(|i| group[i]).collect::<Vec<_>>())
            })
            .collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn advantages_are_the_averages_over_every_set() {
        for (_, function) in SetFunction::NAMED {
            let sizes: &[usize] = if function == SetFunction::Pair { &[2] } else { &[1, 3, 6] };
            for k in sizes.iter().copied() {
                for baseline in [SetBaseline::None, SetBaseline::Others, SetBaseline::Marginal] {
                    let objective = SetObjective { function, k, baseline };
                    let ours = objective.advantages(&stats(&GROUP));
                    for (i, ours) in ours.into_iter().enumerate() {
                        let has = |set: u32| set & (1 << i) != 0;
                        let with = mean(function, &GROUP, k, has);
                        let less = match baseline {
                            SetBaseline::None => 0.0,
                            SetBaseline::Others => mean(function, &GROUP, k, |set| !has(set)),
                            // F of a smaller set is as if an incorrect sample filled it.
                            SetBaseline::Marginal => {
                                let mut without = GROUP;
                                without[i] = None;
                                mean(function, &without, k, has)
                            }
                        };
                        let exact = k as f64 * (with - less);
                        assert!((ours - exact).abs() < 1e-11, "{objective:?} {i}: {ours} {exact}");
                    }
                }
            }
        }
    }

    /// The gradient of E[F], by differences of the sum over every set, against the expected estimate from groups of n,
    /// by the sum over every group, at a policy over two classes and incorrect answers.
    #[test]
    fn every_function_and_baseline_is_unbiased() {
        let outcomes = [None, Some(0), Some(1)];
        let chances = |logits: [f64; 3]| {
            let sum: f64 = logits.iter().map(|x| x.exp()).sum();
            logits.map(|x| x.exp() / sum)
        };
        let logits = [0.3, -0.2, -1.1];
        let groups = |n: usize| {
            (0..3_usize.pow(n as u32)).map(move |group| -> Vec<usize> {
                (0..n).map(|i| group / 3_usize.pow(i as u32) % 3).collect()
            })
        };
        let outcomes_of = |group: &[usize]| group.iter().map(|i| outcomes[*i]).collect::<Vec<_>>();
        for (_, function) in SetFunction::NAMED {
            for k in if function == SetFunction::Pair { 2..=2 } else { 1..=4 } {
                let expected = |logits: [f64; 3]| -> f64 {
                    let p = chances(logits);
                    let chance = |group: &[usize]| group.iter().map(|i| p[*i]).product::<f64>();
                    groups(k)
                        .map(|group| chance(&group) * value(function, &outcomes_of(&group)))
                        .sum()
                };
                let exact: Vec<f64> = (0..3)
                    .map(|place| {
                        let moved = |by: f64| {
                            let mut logits = logits;
                            logits[place] += by;
                            expected(logits)
                        };
                        (moved(1e-5) - moved(-1e-5)) / 2e-5
                    })
                    .collect();
                for (baseline, n) in [
                    (SetBaseline::None, 5),
                    (SetBaseline::Others, 5),
                    (SetBaseline::Marginal, 5),
                    (SetBaseline::Marginal, k),
                ] {
                    let (p, mut ours) = (chances(logits), [0.0; 3]);
                    for group in groups(n) {
                        let chance: f64 = group.iter().map(|i| p[*i]).product();
                        let objective = SetObjective { function, k, baseline };
                        let advantages = objective.advantages(&stats(&outcomes_of(&group)));
                        for (i, advantage) in group.iter().zip(advantages) {
                            for (place, slot) in ours.iter_mut().enumerate() {
                                let score = f64::from(u8::from(place == *i)) - p[place];
                                *slot += chance * advantage * score / n as f64;
                            }
                        }
                    }
                    for (ours, exact) in ours.iter().zip(&exact) {
                        assert!(
                            (ours - exact).abs() < 1e-8,
                            "{function:?} k {k} {baseline:?} n {n}: {ours} {exact}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn equal_groups_give_exact_zeros() {
        for (_, function) in SetFunction::NAMED {
            for baseline in [SetBaseline::Others, SetBaseline::Marginal] {
                let objective = SetObjective { function, k: 2, baseline };
                assert_eq!(objective.advantages(&stats(&[None; 6])), [0.0; 6]);
            }
        }
        let objective =
            SetObjective { function: SetFunction::Pass, k: 3, baseline: SetBaseline::Others };
        assert_eq!(objective.advantages(&stats(&[Some(0); 6])), [0.0; 6]);
        // Large groups neither overflow nor lose the gradient.
        let mut large = vec![None; 1000];
        large[7] = Some(0);
        let objective =
            SetObjective { function: SetFunction::Unique, k: 100, baseline: SetBaseline::Others };
        let ours = objective.advantages(&stats(&large));
        assert!((ours[7] - 100.0).abs() < 1e-9, "{}", ours[7]);
    }
}
