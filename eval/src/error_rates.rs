//! How often a verifier is wrong, from labels of a sample: false-positive and false-negative rates with intervals.
//!
//! Pairs are cut into strata by what the verifiers say of them, since labels are worth most where two of them disagree.
//! Within a stratum the labelled pairs must be a random sample; between strata they may be as many as one likes: each
//! stratum counts by its size. Of stratum h with the share W_h of all pairs and the share q_h of truly correct ones,
//! the false-positive rate is `sum over accepted h of W_h (1 - q_h) / sum over all h of W_h (1 - q_h)`, the
//! false-negative rate `sum over rejected h of W_h q_h / sum over all h of W_h q_h`. Intervals are quantiles of both
//! under independent posteriors `q_h ~ Beta(correct + 1/2, incorrect + 1/2)` (Jeffreys); a simulation holds their
//! coverage.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use statrs::distribution::{Beta, ContinuousCDF};
use tealight_core::regular;

use crate::Estimate;

/// Draws from the posterior.
const DRAWS: usize = 2000;
/// The chance that an interval misses on either side.
const TAIL: f64 = 0.025;

/// Pairs of which the verifiers say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stratum {
    /// Whether the verifier that is audited accepts them.
    pub is_accepted: bool,
    /// Number of pairs in the stratum.
    pub size: usize,
    /// How many of them have a label.
    pub labelled: usize,
    /// How many of these are truly correct.
    pub correct: usize,
}

/// How often a verifier is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The chance that an incorrect answer is accepted.
    pub false_positive: Estimate,
    /// The chance that a correct answer is rejected.
    pub false_negative: Estimate,
    /// The share of correct answers.
    pub correct: Estimate,
}

/// The rates; none where a stratum that holds pairs has no label, of which nothing can be said.
pub fn rates(strata: &[Stratum]) -> Option<Rates> {
    let strata: Vec<Stratum> = strata.iter().copied().filter(|stratum| stratum.size > 0).collect();
    if strata.is_empty() || strata.iter().any(|stratum| stratum.labelled == 0) {
        return None;
    }
    let shares: Vec<f64> =
        strata.iter().map(|stratum| stratum.correct as f64 / stratum.labelled as f64).collect();
    let rates = of_shares(&strata, &shares);
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut draws: [Vec<f64>; 3] = Default::default();
    let posteriors: Vec<Option<Beta>> = strata
        .iter()
        .map(|stratum| {
            let incorrect = stratum.labelled - stratum.correct;
            Beta::new(stratum.correct as f64 + 0.5, incorrect as f64 + 0.5).ok()
        })
        .collect();
    for _ in 0..DRAWS {
        let shares: Vec<f64> = posteriors
            .iter()
            .map(|posterior| {
                // A draw from the posterior is the inverse CDF of a uniform number.
                let uniform = ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
                posterior.as_ref().map_or(f64::NAN, |beta| beta.inverse_cdf(uniform))
            })
            .collect();
        for (draws, value) in draws.iter_mut().zip(of_shares(&strata, &shares)) {
            draws.push(value);
        }
    }
    let mut estimates = rates.iter().zip(&mut draws).map(|(value, draws)| {
        draws.sort_by(f64::total_cmp);
        // A ratio of sums of betas has no distribution by name: quantiles of draws.
        let at = |chance: f64| draws[((DRAWS as f64 * chance) as usize).min(DRAWS - 1)];
        let (low, high) = (at(TAIL), at(1.0 - TAIL));
        // Where no error was seen the value lies at the end of its range, and belongs into the interval.
        let inside = |end: f64, other: fn(f64, f64) -> f64| match value.is_nan() {
            true => end,
            false => other(end, *value),
        };
        Estimate { value: *value, low: inside(low, f64::min), high: inside(high, f64::max) }
    });
    Some(Rates {
        false_positive: estimates.next()?,
        false_negative: estimates.next()?,
        correct: estimates.next()?,
    })
}

/// False positives, false negatives and correct answers, by the share of correct answers in each stratum.
fn of_shares(strata: &[Stratum], shares: &[f64]) -> [f64; 3] {
    let (mut all, mut correct, mut accepted_incorrect, mut rejected_correct) = (0.0, 0.0, 0.0, 0.0);
    for (stratum, share) in strata.iter().zip(shares) {
        let size = stratum.size as f64;
        all += size;
        correct += size * share;
        match stratum.is_accepted {
            true => accepted_incorrect += size * (1.0 - share),
            false => rejected_correct += size * share,
        }
    }
    [accepted_incorrect / (all - correct), rejected_correct / correct, correct / all]
}

/// The line of a pair, where a file says so, and whether it is correct, where that is known.
pub type LabelRow = (Option<usize>, Option<bool>);

/// The columns `name` (true, false, 1, 0, or empty where not known) and, where there is one, `line` of a CSV.
///
/// # Errors
/// A file that cannot be read, no such column, a cell that is something else.
pub fn columns(path: &Path, name: &str) -> Result<Vec<LabelRow>> {
    let shown = path.display();
    let file = regular::open(path).with_context(|| format!("{shown}: cannot be read"))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers().with_context(|| shown.to_string())?.clone();
    let at = |name: &str| header.iter().position(|column| column.trim() == name);
    let (Some(at), line_at) = (at(name), at("line")) else {
        let there: Vec<&str> = header.iter().collect();
        bail!("{shown}: no column `{name}`; there is {}", there.join(", "));
    };
    let mut rows = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.with_context(|| shown.to_string())?;
        let at_row = |what: String| format!("{shown}: row {}: {what}", index + 1);
        let cell = record.get(at).with_context(|| at_row(format!("no `{name}`")))?.trim();
        let value = match cell.to_ascii_lowercase().as_str() {
            "true" | "1" | "1.0" => Some(true),
            "false" | "0" | "0.0" => Some(false),
            "" | "none" | "nan" | "null" => None,
            _ => bail!(at_row(format!("`{name}` is `{cell}`, which is not true, false or empty"))),
        };
        let line = match line_at.map(|at| record.get(at).unwrap_or_default().trim()) {
            Some(cell) => {
                Some(cell.parse().with_context(|| at_row(format!("`{cell}` is no line number")))?)
            }
            None => None,
        };
        rows.push((line, value));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;

    fn stratum(is_accepted: bool, size: usize, labelled: usize, correct: usize) -> Stratum {
        Stratum { is_accepted, size, labelled, correct }
    }

    #[test]
    fn rates_are_those_of_the_whole_when_all_is_labelled() {
        let estimated = rates(&[stratum(true, 80, 80, 72), stratum(false, 20, 20, 3)]).unwrap();
        assert!((estimated.false_positive.value - 8.0 / 25.0).abs() < 1e-12);
        assert!((estimated.false_negative.value - 3.0 / 75.0).abs() < 1e-12);
        assert!((estimated.correct.value - 0.75).abs() < 1e-12);
    }

    #[test]
    fn strata_count_by_their_size_however_many_labels_they_have() {
        // Every disagreement is labelled, and few of the others.
        let strata =
            [stratum(true, 900, 30, 30), stratum(true, 10, 10, 4), stratum(false, 90, 30, 0)];
        let estimated = rates(&strata).unwrap();
        assert!((estimated.false_positive.value - 6.0 / 96.0).abs() < 1e-12);
        assert!(estimated.false_negative.value == 0.0 && estimated.false_negative.low == 0.0);
        assert!(estimated.false_negative.high > 0.0, "{estimated:?}");
    }

    #[test]
    fn other_columns_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            columns(&path, "correct").map_err(|error| format!("{error:#}"))
        };
        let quoted = "gold,correct,line\n\"(1,2)\",True,7\n\"a\nb\",0,9\nx,,10\n";
        let rows = vec![(Some(7), Some(true)), (Some(9), Some(false)), (Some(10), None)];
        assert_eq!(read(quoted), Ok(rows));
        assert_eq!(read("correct\n1\nfalse\n"), Ok(vec![(None, Some(true)), (None, Some(false))]));
        assert!(read("a,b\n1,2\n").unwrap_err().contains("no column `correct`; there is a, b"));
        assert!(read("correct\nmaybe\n").unwrap_err().contains("row 1: `correct` is `maybe`"));
        assert!(read("correct,line\n1,x\n").unwrap_err().contains("`x` is no line number"));
    }

    #[test]
    fn strata_without_labels_have_no_error_rates() {
        assert_eq!(rates(&[stratum(true, 5, 0, 0), stratum(false, 5, 5, 1)]), None);
        assert_eq!(rates(&[]), None);
        assert!(rates(&[stratum(true, 0, 0, 0), stratum(false, 5, 5, 1)]).is_some());
    }

    #[test]
    fn error_rate_intervals_cover_95_percent() {
        // The share of correct answers in each stratum, its size, and how many of it are labelled.
        let strata = [
            (true, 0.97, 6000, 60),
            (true, 0.5, 200, 40),
            (false, 0.3, 300, 40),
            (false, 0.04, 3500, 60),
        ];
        let shares: Vec<f64> = strata.iter().map(|one| one.1).collect();
        let whole: Vec<Stratum> = strata.iter().map(|one| stratum(one.0, one.2, 0, 0)).collect();
        let truth = of_shares(&whole, &shares);
        let mut draws = Draws::new(5);
        let (studies, mut covered) = (300, [0; 3]);
        for _ in 0..studies {
            let seen: Vec<Stratum> = strata
                .iter()
                .map(|one| stratum(one.0, one.2, one.3, draws.binomial(one.3, one.1)))
                .collect();
            let estimated = rates(&seen).unwrap();
            for (index, estimate) in
                [estimated.false_positive, estimated.false_negative, estimated.correct]
                    .iter()
                    .enumerate()
            {
                covered[index] +=
                    i32::from(estimate.low <= truth[index] && truth[index] <= estimate.high);
            }
        }
        for covered in covered {
            let share = f64::from(covered) / f64::from(studies);
            assert!(share > 0.91, "{share}");
        }
    }
}
