//! Diversity of the features of correct answers: Shannon entropy and the Gini-Simpson index at equal numbers of them.
//!
//! An answer has a list of features of one kind, and `s_if` is the share of feature f in the list of answer i. The
//! features of one answer go together, so answers are what is sampled: both measures are of features drawn one from
//! each of several correct answers, uniformly from its list. With `q_f` the chance of f in a draw, the Gini-Simpson
//! index `1 - sum q_f^2` is the chance that two draws differ; it is estimated without bias from all pairs of
//! answers. Shannon entropy has no unbiased estimator: it is rarefied, the mean entropy of r draws over all sets of
//! r answers. That mean is without bias for the entropy of r draws, which is at most log r and below `-sum q log q`
//! by about `(K - 1) / 2r` for K features, as far for one model as for another.

use std::collections::BTreeMap;

/// The share of each feature of one kind in each of a problem's correct answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares<'a> {
    answers: usize,
    /// By feature: shares above 0, each with the number of answers that have it.
    by_feature: BTreeMap<&'a str, Vec<(f64, usize)>>,
}

impl<'a> Shares<'a> {
    /// Adds so many answers with this list, which is not empty.
    pub fn add(&mut self, names: &[&'a str], count: usize) {
        let mut times: BTreeMap<&'a str, usize> = BTreeMap::new();
        names.iter().for_each(|name| *times.entry(name).or_default() += 1);
        for (name, times) in times {
            self.by_feature
                .entry(name)
                .or_default()
                .push((times as f64 / names.len() as f64, count));
        }
        self.answers += count;
    }

    /// The chance that features of two answers differ, without bias; none of fewer than two answers.
    pub fn gini_simpson(&self) -> Option<f64> {
        if self.answers < 2 {
            return None;
        }
        // Of all pairs those of two answers: the square of the sum less the squares.
        let same = |shares: &Vec<(f64, usize)>| {
            let sum: f64 = shares.iter().map(|(share, count)| share * *count as f64).sum();
            let squares: f64 = shares.iter().map(|(s, count)| s * s * *count as f64).sum();
            (sum * sum - squares).max(0.0)
        };
        let pairs = (self.answers * (self.answers - 1)) as f64;
        Some((1.0 - self.by_feature.values().map(same).sum::<f64>() / pairs).clamp(0.0, 1.0))
    }

    /// The mean entropy, in nats, of the features of `r` answers, one from each; none of fewer answers.
    pub fn entropy(&self, r: usize) -> Option<f64> {
        if r == 0 || self.answers < r {
            return None;
        }
        // E[-sum_f (j_f / r) log(j_f / r)], j_f the times that feature f is drawn: a sum over features of E over j_f
        // alone.
        let of_feature = |shares: &Vec<(f64, usize)>| -> f64 {
            let chances = self.chances(shares, r);
            let part = |(times, chance): (usize, &f64)| {
                let share = times as f64 / r as f64;
                -chance * share * share.ln()
            };
            chances.iter().enumerate().skip(1).map(part).sum()
        };
        Some(self.by_feature.values().map(of_feature).sum::<f64>().max(0.0))
    }

    /// The chance that a feature is drawn 0 to `r` times from r of the answers.
    fn chances(&self, shares: &[(f64, usize)], r: usize) -> Vec<f64> {
        let having: usize = shares.iter().map(|(_, count)| count).sum();
        let mut seen = self.answers - having;
        // `at[m][j]`: chance of j from m of the answers that are seen. Those without the feature come first.
        let mut at = vec![vec![0.0; r + 1]; r + 1];
        at.iter_mut().take(seen + 1).for_each(|row| row[0] = 1.0);
        for share in shares.iter().flat_map(|(share, count)| std::iter::repeat_n(*share, *count)) {
            seen += 1;
            for m in (1..=r.min(seen)).rev() {
                // This answer is among m of so many.
                let within = m as f64 / seen as f64;
                for j in 0..=m {
                    // A Poisson binomial: with chance `share` this answer's draw is the feature.
                    let chosen = if j > 0 { share * at[m - 1][j - 1] } else { 0.0 };
                    let with = chosen + (1.0 - share) * at[m - 1][j];
                    at[m][j] = (1.0 - within) * at[m][j] + within * with;
                }
            }
        }
        at.swap_remove(r)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lists<'a> = Vec<&'a [&'a str]>;

    fn shares<'a>(lists: &[&[&'a str]]) -> Shares<'a> {
        let mut shares = Shares::default();
        lists.iter().for_each(|list| shares.add(list, 1));
        shares
    }

    /// The mean over all sets of `r` answers, and over all ways to draw one feature from each.
    fn over_draws(lists: &Lists<'_>, r: usize, statistic: &dyn Fn(&[&str]) -> f64) -> f64 {
        let (mut sum, mut sets) = (0.0, 0.0);
        for set in (0_u32..1 << lists.len()).filter(|set| set.count_ones() as usize == r) {
            let answers: Lists<'_> =
                (0..lists.len()).filter(|i| set & (1 << i) != 0).map(|i| lists[i]).collect();
            let ways: usize = answers.iter().map(|list| list.len()).product();
            for way in 0..ways {
                let mut rest = way;
                let mut draw = |list: &&[_]| {
                    let name = list[rest % list.len()];
                    rest /= list.len();
                    name
                };
                let features: Vec<&str> = answers.iter().map(&mut draw).collect();
                sum += statistic(&features) / ways as f64;
            }
            sets += 1.0;
        }
        sum / sets
    }

    fn plug_in(features: &[&str]) -> f64 {
        let mut times: BTreeMap<&str, f64> = BTreeMap::new();
        features.iter().for_each(|name| *times.entry(name).or_default() += 1.0);
        let share = |times: &f64| times / features.len() as f64;
        times.values().map(share).map(|q| -q * q.ln()).sum()
    }

    fn differ(features: &[&str]) -> f64 {
        f64::from(u8::from(features[0] != features[1]))
    }

    #[test]
    fn shannon_and_gini_equal_means_over_all_draws() {
        let lists: Lists<'_> =
            vec![&["+", "+", "*"], &["+"], &["-", "*"], &["+", "+", "*"], &["none"], &["/", "/"]];
        let ours = shares(&lists);
        assert!((ours.gini_simpson().unwrap() - over_draws(&lists, 2, &differ)).abs() < 1e-12);
        for r in 1..=6 {
            let exact = over_draws(&lists, r, &plug_in);
            assert!((ours.entropy(r).unwrap() - exact).abs() < 1e-12, "r {r}: {exact}");
        }
        assert_eq!(ours.entropy(7), None);
        assert_eq!(shares(&lists[..1]).gini_simpson(), None);
        let mut grouped = Shares::default();
        for (list, count) in
            [(lists[0], 2), (lists[1], 1), (lists[2], 1), (lists[4], 1), (lists[5], 1)]
        {
            grouped.add(list, count);
        }
        assert!((grouped.entropy(3).unwrap() - ours.entropy(3).unwrap()).abs() < 1e-12);
        assert!((grouped.gini_simpson().unwrap() - ours.gini_simpson().unwrap()).abs() < 1e-12);
    }

    #[test]
    fn rarefied_measures_do_not_depend_on_the_count() {
        // A population of answers, and every sequence of n draws from it.
        let population: [(&[&str], f64); 3] =
            [(&["+", "*"], 0.5), (&["+"], 0.3), (&["-", "-"], 0.2)];
        let expected = |n: usize, statistic: &dyn Fn(&Shares<'_>) -> f64| -> f64 {
            let sequence = |mut index: usize| {
                let (mut lists, mut chance) = (Vec::new(), 1.0);
                for _ in 0..n {
                    let (list, p) = population[index % 3];
                    lists.push(list);
                    chance *= p;
                    index /= 3;
                }
                chance * statistic(&shares(&lists))
            };
            (0..3_usize.pow(n as u32)).map(sequence).sum()
        };
        let q = [0.5 * 0.5 + 0.3, 0.5 * 0.5, 0.2];
        let gini = 1.0 - q.iter().map(|q| q * q).sum::<f64>();
        for n in 2..=6 {
            let estimate = expected(n, &|shares| shares.gini_simpson().unwrap());
            assert!((estimate - gini).abs() < 1e-12, "{n}: {estimate} {gini}");
        }
        let entropy = |n: usize, r: usize| expected(n, &|shares| shares.entropy(r).unwrap());
        for (r, n) in [(2, 5), (3, 5), (4, 6)] {
            assert!((entropy(n, r) - entropy(r, r)).abs() < 1e-12, "{r} of {n}");
        }
        // Rarefied entropy is below the distribution's, and rises to it.
        let exact: f64 = q.iter().map(|q| -q * q.ln()).sum();
        let bias = |r: usize| exact - entropy(r, r);
        assert!(bias(4) > bias(6) && bias(6) > 0.0);
        assert!((bias(6) - 2.0 / 12.0).abs() < 0.05, "{}", bias(6));
    }

    #[test]
    fn a_thousand_answers_keep_precision() {
        let names: Vec<String> = (0..64).map(|i| i.to_string()).collect();
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut shares = Shares::default();
        (0..1024).for_each(|_| shares.add(&list, 1));
        let gini = shares.gini_simpson().unwrap();
        assert!((gini - 63.0 / 64.0).abs() < 1e-9, "{gini}");
        let entropy = shares.entropy(16).unwrap();
        assert!(entropy < 16_f64.ln() && entropy > 2.5, "{entropy}");
    }
}
