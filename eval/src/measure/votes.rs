//! Majority vote (self-consistency): the answer that most of k samples give.

/// Most samples whose votes are counted exactly; beyond it only k = 1 and k = n are.
const MAX_SAMPLES: usize = 512;
/// Most work, n k^2, of one count: 256 samples at k = 64.
const MAX_WORK: usize = 1 << 20;

/// Whether the votes of k of n samples are counted.
pub fn is_counted(n: usize, k: usize) -> bool {
    k == 1 || k == n || (n <= MAX_SAMPLES && n * k * k <= MAX_WORK)
}

/// The chance that the majority of `k` of the samples, drawn without replacement, votes for the right
/// answer: exact over all subsets. Samples without an answer do not vote; ties are broken evenly; where
/// nobody votes, the vote is wrong.
///
/// `correct` samples give the correct answer, `wrong` holds how many give each wrong one, `silent` give
/// none. `None` where the count is beyond what is counted exactly.
pub fn majority_at_k(correct: usize, wrong: &[usize], silent: usize, k: usize) -> Option<f64> {
    let n = correct + wrong.iter().sum::<usize>() + silent;
    if k == n {
        let most = wrong.iter().copied().max().unwrap_or(0);
        let ties = wrong.iter().filter(|votes| **votes == correct).count();
        return Some(match correct.cmp(&most) {
            _ if correct == 0 => 0.0,
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 1.0 / (1 + ties) as f64,
            std::cmp::Ordering::Less => 0.0,
        });
    }
    if k == 1 {
        return Some(correct as f64 / n as f64);
    }
    if !is_counted(n, k) {
        return None;
    }
    let choose = Binomials::up_to(n);
    let mut chance = 0.0;
    for votes in 1..=correct.min(k) {
        let rest = k - votes;
        // With more than half of the votes nobody else can have as many.
        let share = if 2 * votes > k {
            choose.coefficient(n - correct, rest)
        } else {
            others(wrong, silent, votes, rest, &choose)
        };
        // P(the correct answer has v votes) times the share of the ways in which the others have fewer, ties divided.
        chance += choose.coefficient(correct, votes) * share / choose.coefficient(n, k);
    }
    Some(chance)
}

/// The same where several correct answers exist and voters tell them apart: `correct` holds how many samples give each.
/// The vote is right where one of them wins.
pub fn plurality_at_k(correct: &[usize], wrong: &[usize], silent: usize, k: usize) -> Option<f64> {
    let n = correct.iter().chain(wrong).sum::<usize>() + silent;
    let work = correct.len().saturating_mul(n).saturating_mul(k).saturating_mul(k);
    if k != n && k != 1 && correct.len() > 1 && work > MAX_WORK {
        return None;
    }
    let wins = |(place, votes): (usize, &usize)| {
        let others = correct.iter().enumerate().filter(|(other, _)| *other != place);
        let others: Vec<usize> =
            others.map(|(_, votes)| *votes).chain(wrong.iter().copied()).collect();
        majority_at_k(*votes, &others, silent, k)
    };
    correct.iter().enumerate().map(wins).sum()
}

/// The weight of choosing `rest` samples of the others so that no incorrect answer has more than `votes`,
/// each way divided by the number of answers that tie.
fn others(wrong: &[usize], silent: usize, votes: usize, rest: usize, choose: &Binomials) -> f64 {
    let (most_ties, width) = (rest / votes, rest + 1);
    // Rows by the number of ties, in them by the samples used; two tables in turn.
    let (mut ways, mut next) =
        (vec![0.0; (most_ties + 1) * width], vec![0.0; (most_ties + 1) * width]);
    for (used, way) in ways[..width].iter_mut().enumerate() {
        *way = choose.coefficient(silent, used);
    }
    for answer in wrong {
        next.fill(0.0);
        for (at, way) in ways.iter().enumerate().filter(|(_, way)| **way > 0.0) {
            let (ties, used) = (at / width, at % width);
            for taken in 0..=votes.min(*answer).min(rest - used) {
                let ties = ties + usize::from(taken == votes);
                next[ties * width + used + taken] += way * choose.coefficient(*answer, taken);
            }
        }
        std::mem::swap(&mut ways, &mut next);
    }
    let rows = ways.chunks(width).enumerate();
    rows.map(|(ties, row)| row[rest] / (1 + ties) as f64).sum()
}

/// Binomial coefficients as f64: exact to rounding for up to 1,000.
struct Binomials {
    /// One row after the other, that of n with n + 1 coefficients.
    rows: Vec<f64>,
    most: usize,
}

impl Binomials {
    fn up_to(n: usize) -> Self {
        let mut rows = Vec::with_capacity((n + 1) * (n + 2) / 2);
        rows.push(1.0);
        for row in 1..=n {
            let last = rows.len() - row;
            rows.push(1.0);
            for k in 1..row {
                rows.push(rows[last + k - 1] + rows[last + k]);
            }
            rows.push(1.0);
        }
        Self { rows, most: n }
    }

    fn coefficient(&self, n: usize, k: usize) -> f64 {
        if n > self.most || k > n { 0.0 } else { self.rows[n * (n + 1) / 2 + k] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majority_equals_the_mean_over_subsets() {
        // Answers: 0 is correct, 1 to 3 are wrong, 9 is none.
        for answers in [
            vec![0, 0, 1, 2, 9],
            vec![0, 1, 1, 1, 2, 0],
            vec![0, 0, 0, 1, 1, 2, 2, 9],
            vec![1, 2, 3],
            vec![9, 9],
            vec![0, 1, 2, 3, 1, 2, 3, 0, 9],
        ] {
            let n = answers.len();
            let count = |answer: usize| answers.iter().filter(|a| **a == answer).count();
            let wrong: Vec<usize> = (1..=3).map(count).filter(|count| *count > 0).collect();
            for k in 1..=n {
                let (mut total, mut subsets) = (0.0, 0.0);
                for set in (0_u32..1 << n).filter(|set| set.count_ones() as usize == k) {
                    let votes: Vec<usize> = (0..4)
                        .map(|a| (0..n).filter(|i| set & (1 << i) != 0 && answers[*i] == a).count())
                        .collect();
                    let most = *votes.iter().max().unwrap();
                    if most > 0 && votes[0] == most {
                        total += 1.0 / votes.iter().filter(|v| **v == most).count() as f64;
                    }
                    subsets += 1.0;
                }
                let estimate = majority_at_k(count(0), &wrong, count(9), k).unwrap();
                assert!((estimate - total / subsets).abs() < 1e-12, "{answers:?} {k}");
            }
        }
    }

    #[test]
    fn several_correct_answers_win_together() {
        // Of all five samples a correct and an incorrect answer have two votes each: the tie is right half of the time.
        assert_eq!(plurality_at_k(&[2, 1], &[2], 0, 5), Some(0.5));
        // Of two samples of a, b, c (c is incorrect) every pair ties: ab is right, ac and bc half of the time.
        let pairs = plurality_at_k(&[1, 1], &[1], 0, 2).unwrap();
        assert!((pairs - 2.0 / 3.0).abs() < 1e-12, "{pairs}");
        assert_eq!(plurality_at_k(&[3], &[1], 0, 4), majority_at_k(3, &[1], 0, 4));
        assert_eq!(plurality_at_k(&[], &[1], 1, 2), Some(0.0));
        assert_eq!(plurality_at_k(&[1; 100], &[1; 100], 0, 100), None);
    }

    #[test]
    fn large_counts_stay_finite() {
        let estimate = majority_at_k(150, &[60, 40, 6], 0, 64).unwrap();
        assert!(estimate > 0.99 && estimate <= 1.0 + 1e-9, "{estimate}");
        assert_eq!(majority_at_k(600, &[600], 0, 64), None);
        assert_eq!(majority_at_k(600, &[600], 0, 1200), Some(0.5));
    }
}
