//! Where the base's curve of Pass@k overtakes that of a tuned model, and how sure that is.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Tally;
use crate::inference::{Effect, crossed};
use crate::measure::pass_at_k::tally_pass_at_k;

/// Points between two k at which the ends of the interval are looked for.
const STEPS: usize = 16;

/// The crossing with a 95 % interval over seeds and problems; with one seed, over problems alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// Smallest k from which the base is ahead.
    pub at: CrossingPoint,
    /// Lower end of the 95 % interval.
    pub low: CrossingPoint,
    /// Upper end of the 95 % interval.
    pub high: CrossingPoint,
}

/// A k on the curves, or beyond an end of them.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossingPoint {
    /// The base is ahead at every k.
    FromTheStart,
    /// From this k on.
    K(f64),
    /// At no k that was looked at.
    Never,
    /// The two curves are the same.
    Equal,
}

impl std::fmt::Display for CrossingPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CrossingPoint::FromTheStart => f.write_str("1"),
            CrossingPoint::K(k) => write!(f, "{k:.1}"),
            CrossingPoint::Never => f.write_str("never"),
            CrossingPoint::Equal => f.write_str("equal"),
        }
    }
}

impl std::fmt::Display for Crossing {
    /// As in "the base overtakes at k = 3.1 (95 % interval: 2.2 to 4.0)"; "not certain" or "not significant" is added
    /// where the interval does not exclude the opposite.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let low = match self.low {
            CrossingPoint::FromTheStart => "k = 1".to_owned(),
            low => format!("k = {low}"),
        };
        match self.at {
            CrossingPoint::FromTheStart => f.write_str("the base is ahead from the start")?,
            // The curves may cross back behind it.
            CrossingPoint::K(k) if self.high == CrossingPoint::Never => {
                write!(f, "the curves of pass@k cross at k = {k:.1}")?;
            }
            CrossingPoint::K(k) => write!(f, "the base overtakes at k = {k:.1}")?,
            CrossingPoint::Equal => return f.write_str("pass@k equals the base's at every k"),
            CrossingPoint::Never if self.low == CrossingPoint::Never => {
                return f.write_str(
                    "the base overtakes at no sampled k (nowhere in the 95 % interval)",
                );
            }
            // Somewhere the interval of "base less model" holds 0: the base may be ahead there.
            CrossingPoint::Never => {
                let may = format!("not certain: by the 95 % interval it may from {low} on");
                return write!(f, "the base overtakes at no sampled k ({may})");
            }
        }
        match self.high {
            CrossingPoint::Never => {
                write!(f, " (95 % interval: from {low}, with no upper end; not significant)")
            }
            high => write!(f, " (95 % interval: {} to {high})", self.low),
        }
    }
}

impl CrossingPoint {
    /// The k, where there is one.
    pub fn k(self) -> Option<f64> {
        match self {
            CrossingPoint::K(k) => Some(k),
            CrossingPoint::FromTheStart | CrossingPoint::Never | CrossingPoint::Equal => None,
        }
    }
}

impl Crossing {
    /// The k with its interval, as a table has it.
    pub fn cell(&self) -> String {
        match self.at {
            CrossingPoint::Equal => self.at.to_string(),
            at => format!("{at} ({} to {})", self.low, self.high),
        }
    }
}

/// Where the base's curve overtakes: interpolated linearly in log k between the two points around it. A base that only
/// draws level, as where both solve everything, overtakes nowhere.
pub fn place(ks: &[usize], base: &[f64], tuned: &[f64]) -> CrossingPoint {
    /// Differences of sums that are equal but for rounding are smaller.
    const ROUNDING: f64 = 1e-9;
    let gap = |i: usize| base[i] - tuned[i];
    if !ks.is_empty() && (0..ks.len()).all(|i| gap(i).abs() < ROUNDING) {
        return CrossingPoint::Equal;
    }
    if ks.is_empty() || gap(0) >= 0.0 {
        return if (0..ks.len()).all(|i| gap(i) <= 0.0) {
            CrossingPoint::Never
        } else {
            CrossingPoint::FromTheStart
        };
    }
    let Some(above) = (1..ks.len()).find(|i| gap(*i) > 0.0) else { return CrossingPoint::Never };
    let after = 1 + (0..above).rev().find(|i| gap(*i) < 0.0).unwrap_or(0);
    let (before, now) = (gap(after - 1), gap(after));
    // gap = 0 on the line between the two points, in log k.
    let share = before / (before - now);
    let (low, high) = ((ks[after - 1] as f64).ln(), (ks[after] as f64).ln());
    CrossingPoint::K((low + share * (high - low)).exp())
}

/// Of runs, one a seed, against the base on the same problems.
///
/// The interval holds every k at which the difference of the two curves may be 0 for the first time: it begins where
/// the 95 % interval of "base less model" over seeds and problems ([`crossed`]) first reaches 0, and ends where that
/// interval first lies above 0. At the true crossing the difference is 0, so the interval misses it as seldom
/// as that of a difference misses the truth, and so in few seeds as in many.
pub fn crossing(ks: &[usize], base: &[Tally], runs: &[&[Tally]]) -> Crossing {
    if base.is_empty() || runs.is_empty() || ks.is_empty() {
        return Crossing {
            at: CrossingPoint::Never,
            low: CrossingPoint::Never,
            high: CrossingPoint::Never,
        };
    }
    // By k: a row a seed, the base less the model, problem by problem.
    let gaps: Vec<Vec<Vec<f64>>> = ks
        .par_iter()
        .map(|k| {
            let row = |run: &&[Tally]| {
                base.iter()
                    .zip(run.iter())
                    .map(|(b, m)| tally_pass_at_k(b, *k) - tally_pass_at_k(m, *k))
                    .collect()
            };
            runs.iter().map(row).collect()
        })
        .collect();
    let curve = |run: &[Tally]| -> Vec<f64> {
        ks.iter().map(|k| run.iter().map(|tally| tally_pass_at_k(tally, *k)).sum::<f64>()).collect()
    };
    let tuned: Vec<Vec<f64>> = runs.iter().map(|run| curve(run)).collect();
    let mean = |k: usize| tuned.iter().map(|curve| curve[k]).sum::<f64>() / runs.len() as f64;
    let at = place(ks, &curve(base), &(0..ks.len()).map(mean).collect::<Vec<_>>());
    // Both ends are looked for on the curves as they are drawn: linear in log k between the k.
    let steps = (ks.len() - 1) * STEPS;
    let intervals: Vec<(f64, Effect)> = (0..=steps)
        .into_par_iter()
        .map(|step| {
            let (before, part) = (step / STEPS, (step % STEPS) as f64 / STEPS as f64);
            let after = (before + 1).min(ks.len() - 1);
            let mix = |(a, b): (&f64, &f64)| a + part * (b - a);
            let row = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(mix).collect();
            let rows: Vec<Vec<f64>> = gaps[before].iter().zip(&gaps[after]).map(row).collect();
            let (low, high) = ((ks[before] as f64).ln(), (ks[after] as f64).ln());
            ((low + part * (high - low)).exp(), crossed(&rows, 1.0))
        })
        .collect();
    let first =
        |is_there: fn(&Effect) -> bool| match intervals.iter().position(|(_, gap)| is_there(gap)) {
            Some(0) => CrossingPoint::FromTheStart,
            Some(step) => CrossingPoint::K(intervals[step].0),
            None => CrossingPoint::Never,
        };
    // Inverted tests (as Fieller's set): the interval holds the k at which "no difference yet" is not rejected.
    let (low, high) = (first(|gap| gap.high >= 0.0), first(|gap| gap.low > 0.0));
    if at == CrossingPoint::Equal {
        return Crossing { at, low, high };
    }
    // The crossing itself lies between two steps.
    let least = |a: CrossingPoint, b: CrossingPoint| if b < a { b } else { a };
    let most = |a: CrossingPoint, b: CrossingPoint| if b > a { b } else { a };
    Crossing { at, low: least(low, at), high: most(high, at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;

    #[test]
    fn the_crossing_is_where_the_base_overtakes() {
        let level = place(&[1, 2, 4], &[0.2, 0.5, 1.0], &[0.4, 0.8, 1.0]);
        assert_eq!(level, CrossingPoint::Never, "level at the end is not ahead");
        let touches = place(&[1, 2, 4], &[0.2, 0.5, 1.0], &[0.4, 0.5, 0.9]);
        assert_eq!(touches.k().map(f64::round), Some(2.0));
        let ks = [1, 4, 16];
        let middle = place(&ks, &[0.1, 0.4, 0.9], &[0.3, 0.5, 0.8]).k().unwrap();
        assert!((middle - 8.0).abs() < 1e-9, "{middle}");
        assert_eq!(place(&ks, &[0.1, 0.2, 0.3], &[0.2, 0.3, 0.4]), CrossingPoint::Never);
        assert_eq!(place(&ks, &[0.2, 0.3, 0.4], &[0.1, 0.2, 0.3]), CrossingPoint::FromTheStart);
        assert_eq!(place(&ks, &[0.2; 3], &[0.2; 3]), CrossingPoint::Equal);
        assert!(
            CrossingPoint::FromTheStart < CrossingPoint::K(1.0)
                && CrossingPoint::K(9.0) < CrossingPoint::Never
        );
    }

    #[test]
    fn equal_models_are_called_equal() {
        let draw = |correct: usize| Tally { samples: 8, correct, ..Tally::default() };
        let base: Vec<Tally> = (0..5).map(draw).collect();
        // Three equal seeds: their mean differs from the base's curve by rounding.
        let crossing = crossing(&[1, 2, 4, 8], &base, &[&base, &base, &base]);
        assert_eq!(crossing.to_string(), "pass@k equals the base's at every k");
        assert_eq!(crossing.cell(), "equal");
    }

    const KS: [usize; 6] = [1, 2, 4, 8, 16, 32];

    fn sampled(draws: &mut Draws, p: f64) -> Tally {
        Tally { samples: 32, correct: draws.binomial(32, p), ..Tally::default() }
    }

    /// A study whose base overtakes: four fifths of problems the model solves more often, the others hardly
    /// ever; in log-odds a spread between problems, between seeds, and of each problem under each seed.
    fn study(draws: &mut Draws, seeds: usize, problems: usize) -> Crossing {
        let sampled = |draws: &mut Draws, odds: f64| sampled(draws, 1.0 / (1.0 + (-odds).exp()));
        let odds: Vec<(f64, f64)> = (0..problems)
            .map(|_| {
                let base = -1.2 + 0.8 * draws.normal();
                let change = if draws.uniform() < 0.8 { 0.8 } else { -4.0 };
                (base, base + change + 0.3 * draws.normal())
            })
            .collect();
        let base: Vec<Tally> = odds.iter().map(|(base, _)| sampled(draws, *base)).collect();
        let mut run = |_| -> Vec<Tally> {
            let seed = 0.25 * draws.normal();
            let tally = |(_, tuned): &(f64, f64)| {
                let noise = 0.3 * draws.normal();
                sampled(draws, tuned + seed + noise)
            };
            odds.iter().map(tally).collect()
        };
        let runs: Vec<Vec<Tally>> = (0..seeds).map(&mut run).collect();
        crossing(&KS, &base, &runs.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn crossing_intervals_cover_with_two_and_eight_seeds() {
        let mut draws = Draws::new(8);
        let truth = study(&mut draws, 400, 4000).at;
        for seeds in [2, 8] {
            let (mut covered, studies) = (0, 1000);
            for _ in 0..studies {
                let found = study(&mut draws, seeds, 80);
                assert!(found.low <= found.at && found.at <= found.high, "{found:?}");
                covered += i32::from(found.low <= truth && truth <= found.high);
            }
            let covered = f64::from(covered) / f64::from(studies);
            assert!(covered >= 0.93, "crossing at {truth}, {seeds} seeds: covered {covered:.3}");
        }
    }

    #[test]
    fn crossings_of_equal_models_are_often_seen_and_seldom_claimed() {
        let mut draws = Draws::new(12);
        let (mut seen, mut claimed, studies) = (0, 0, 300);
        for _ in 0..studies {
            let mut pair = || {
                let p = draws.beta(0.3, 0.5);
                (sampled(&mut draws, p), sampled(&mut draws, p))
            };
            let (base, tuned): (Vec<Tally>, Vec<Tally>) = (0..30).map(|_| pair()).unzip();
            let found = crossing(&KS, &base, &[&tuned]);
            let overtakes = |at: CrossingPoint| at.k().is_some();
            seen += i32::from(overtakes(found.at));
            claimed += i32::from(overtakes(found.at) && overtakes(found.high));
        }
        // Of the claims .05 and three standard errors.
        let share = |count: i32| f64::from(count) / f64::from(studies);
        assert!(share(seen) > 0.1 && share(claimed) < 0.088, "{seen} {claimed} of {studies}");
    }

    #[test]
    fn a_base_that_never_overtakes_and_one_that_always_leads_are_covered_too() {
        let mut draws = Draws::new(10);
        let mut run = |p: f64| -> Vec<Tally> {
            let mut chance = || (p + 0.2 * (draws.uniform() - 0.5)).clamp(0.0, 1.0);
            let chances: Vec<f64> = (0..80).map(|_| chance()).collect();
            chances.into_iter().map(|p| sampled(&mut draws, p)).collect()
        };
        let [weak, strong] = [0.1, 0.5].map(&mut run);
        let never = crossing(&KS[..4], &weak, &[&strong]);
        assert_eq!([never.at, never.low, never.high], [CrossingPoint::Never; 3]);
        let start = crossing(&KS[..4], &strong, &[&weak]);
        assert_eq!([start.at, start.low, start.high], [CrossingPoint::FromTheStart; 3]);
        // Alike: nothing is known.
        let alike = crossing(&KS, &weak, &[&weak]);
        assert_eq!((alike.low, alike.high), (CrossingPoint::FromTheStart, CrossingPoint::Never));
    }
}
