//! How many correct answers there are in effect: Hill numbers, Chao's bound and the unseen share, over problems.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, effective, share};
use crate::measure::hill;
use crate::{Level, Tally};

/// How many correct answers there are in effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Richness {
    /// Prompts with enough correct answers.
    pub problems: usize,
    /// Prompts with as many that are left out, since all their correct answers differ: the estimates have no bound.
    #[serde(default, skip_serializing_if = "crate::sample::is_zero")]
    pub all_different: usize,
    /// `exp(H)`, corrected.
    pub hill_1: Estimate,
    /// Inverse chance that two correct answers agree.
    pub hill_2: Estimate,
    /// Lower bound on the correct answers there are.
    pub chao_1: Estimate,
    /// Share of correct draws that would be unseen ones.
    pub unseen: Estimate,
}

impl Richness {
    /// How many of `all` problems the means are over, and why not over more.
    pub fn basis(&self, all: usize) -> String {
        let left_out = match self.all_different {
            0 => String::new(),
            count => format!("; left out: {count} with enough, all of which differ"),
        };
        format!("{} of {all} problems{left_out}", self.problems)
    }

    /// Over the problems whose correct answers carry the estimates; none where no problem's do.
    pub(crate) fn from_tallies(tallies: &[Tally]) -> Option<Self> {
        let mut counts: Vec<Vec<usize>> = tallies
            .par_iter()
            .map(|tally| tally.classes.at(Level::Solution).multiplicities())
            .collect();
        let all_different = counts.iter().filter(|counts| hill::is_all_different(counts)).count();
        counts.retain(|counts| hill::is_estimable(counts));
        let unseen: Vec<f64> = counts.par_iter().map(|counts| hill::unseen(counts)).collect();
        // What is estimated is in this order, whatever the samples.
        let ordered: Vec<[f64; 3]> = counts
            .par_iter()
            .map(|counts| {
                let chao_1 = hill::chao_1(counts);
                // Hill numbers fall with their order, 0 (richness) to 2; estimates of different bias may not.
                let hill_1 = hill::hill_1(counts).min(chao_1);
                [hill_1, hill::hill_2(counts).min(hill_1), chao_1]
            })
            .collect();
        let estimate =
            |index: usize| effective(&ordered.iter().map(|all| all[index]).collect::<Vec<_>>());
        (!counts.is_empty()).then(|| Self {
            problems: counts.len(),
            all_different,
            hill_1: estimate(0),
            hill_2: estimate(1),
            chao_1: estimate(2),
            unseen: share(&unseen),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_whose_answers_all_differ_are_counted_apart() {
        let mut repeated = Tally::default();
        let mut different = Tally::default();
        for number in 0..4 {
            let (one, other) = (number.to_string(), (number / 2).to_string());
            different.classes.add(&one, &one, "7");
            repeated.classes.add(&one, &other, "7");
        }
        let richness = Richness::from_tallies(&[repeated, different]).unwrap();
        let basis = "1 of 3 problems; left out: 1 with enough, all of which differ";
        assert_eq!((richness.all_different, richness.basis(3).as_str()), (1, basis));
    }

    #[test]
    fn estimates_are_in_order_and_only_where_samples_carry_them() {
        let tally = |counts: &[usize]| {
            let mut tally = Tally::default();
            for (class, count) in counts.iter().enumerate() {
                for _ in 0..*count {
                    let name = class.to_string();
                    tally.classes.add(&name, &name, &name);
                    (tally.samples, tally.correct) = (tally.samples + 1, tally.correct + 1);
                }
            }
            tally
        };
        // Too few, or all of classes of their own.
        assert_eq!(
            Richness::from_tallies(&[tally(&[]), tally(&[1, 1]), tally(&[3]), tally(&[1; 9])]),
            None
        );
        // By hand the estimators give 2.27, 3 and 2 for two classes drawn twice each.
        for counts in [vec![2, 2], vec![4, 4, 4], vec![3, 1], vec![5, 2, 1, 1]] {
            let richness = Richness::from_tallies(&[tally(&counts), tally(&[1])]).unwrap();
            let [one, two, chao] =
                [richness.hill_1, richness.hill_2, richness.chao_1].map(|estimate| estimate.value);
            assert_eq!((richness.problems, richness.all_different), (1, 0));
            assert!(1.0 <= two && two <= one && one <= chao, "{counts:?}: {one} {two} {chao}");
        }
    }
}
