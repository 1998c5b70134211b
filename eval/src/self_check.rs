//! The estimators against brute force: every subset of a few samples.

use anyhow::{Result, bail};

use crate::measure::pass_at_k::pass_at_k;
use crate::measure::rarefaction::unique_correct;
use crate::{Level, Tally};

/// Most samples whose subsets are enumerated.
const SAMPLES: usize = 8;

/// Checks Pass@k and distinct correct answers for every count of correct samples among up to eight.
pub fn self_check() -> Result<()> {
    for n in 1..=SAMPLES {
        for right in 0..=n {
            // The correct samples give two answers in turn.
            let answer = |sample: usize| (sample < right).then_some(sample % 2);
            let mut tally = Tally { samples: n, correct: right, ..Tally::default() };
            for sample in 0..right {
                let class = format!("{}", sample % 2);
                tally.classes.add(&class, &class, &class);
            }
            for k in 1..=n {
                let (mut hits, mut distinct, mut subsets) = (0_usize, 0_usize, 0_usize);
                // All C(n, k) subsets as bit sets.
                for set in (0_u32..1 << n).filter(|set| set.count_ones() as usize == k) {
                    let mut seen = [false; 2];
                    for found in (0..n).filter(|i| set & (1 << i) != 0).filter_map(answer) {
                        seen[found] = true;
                    }
                    let count = seen.iter().filter(|seen| **seen).count();
                    subsets += 1;
                    distinct += count;
                    hits += usize::from(count > 0);
                }
                let exact = |sum: usize| sum as f64 / subsets as f64;
                let is_close = |ours: f64, sum: usize| (ours - exact(sum)).abs() < 1e-12;
                let holds = is_close(pass_at_k(n, right, k), hits)
                    && is_close(unique_correct(&tally, Level::Solution, k), distinct);
                if !holds {
                    bail!("self-check: pass@{k} of {right} in {n} is wrong; this is a bug");
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn estimators_equal_averages_over_subsets() {
        super::self_check().unwrap();
    }
}
