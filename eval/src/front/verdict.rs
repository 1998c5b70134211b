//! The comparison in words.

use super::compare::Comparison;
use super::data::Measure;
use super::power::plan;
use super::result::{Fronts, Interval, Pair, Power, Verdict};

/// The warning of a study with one seed.
pub(crate) const ONE_SEED: &str = "This study has one seed, so it compares runs and not objectives. Another seed may change \
their order, so no difference is called significant. Use several --seeds to compare objectives.";

/// The verdict on fronts whose pairs are tested; none where no level is reached by two objectives in all seeds.
///
/// The level is the highest that all objectives reach in all seeds, the highest that the reference and another reach,
/// or the highest that any two reach: the first of these above the base's Pass@1 on `valid`, up to which every
/// objective may choose the base and nothing is compared. Where there is none, it is the highest that the reference
/// (without one: any) and another reach. The objective that is compared with the reference is the best on `valid`,
/// since the best on `test` would be flattered by having been chosen there.
pub(super) fn verdict(comparison: &Comparison<'_>, fronts: &Fronts) -> Option<Verdict> {
    let names = || fronts.fronts.iter().map(|front| front.objective.as_str());
    let reference = comparison
        .request
        .reference
        .as_deref()
        .and_then(|reference| names().position(|name| name == reference));
    let reaching = |at: usize| -> Vec<usize> {
        (0..fronts.fronts.len()).filter(|index| comparison.is_reached(*index, at)).collect()
    };
    let falling = || (0..fronts.levels.len()).rev();
    let accuracy = comparison.valid.accuracy[0];
    let is_above = |at: &usize| fronts.levels[*at] > accuracy;
    let is_for_all = |at: &usize| reaching(*at).len() == fronts.fronts.len();
    let is_for_two = |at: &usize| reaching(*at).len() > 1;
    let has_reference = |at: &usize| {
        is_for_two(at) && reference.is_none_or(|reference| reaching(*at).contains(&reference))
    };
    let at = falling()
        .find(|at| is_above(at) && is_for_all(at))
        .or_else(|| falling().find(|at| is_above(at) && has_reference(at)))
        .or_else(|| falling().find(|at| is_above(at) && is_for_two(at)))
        .or_else(|| falling().find(has_reference))?;
    let reference = reference.filter(|reference| reaching(at).contains(reference));
    let on_valid = |index: usize| {
        let chosen = &fronts.fronts[index].levels[at].chosen;
        chosen.iter().map(|choice| choice.valid_value).sum::<f64>() / chosen.len().max(1) as f64
    };
    let mut order: Vec<usize> =
        reaching(at).into_iter().filter(|index| Some(*index) != reference).collect();
    order.sort_by(|a, b| on_valid(*b).total_cmp(&on_valid(*a)));
    let first = *order.first()?;
    let second = reference.or(order.get(1).copied())?;
    let (pair, sign) = pair_of(fronts, first, second)?;
    let level = fronts.levels[at];
    let difference = pair.levels.iter().find(|of| of.level == level)?.difference;
    let tests = fronts.pairs.iter().filter(|pair| pair.p_value.is_some()).count();
    let power = pair
        .variances
        .filter(|_| pair.p_value.is_some())
        .filter(|variances| variances.of_mean(pair.seeds.max(1), fronts.measured_problems) > 0.0)
        .and_then(|variances| {
            plan(&variances, pair.seeds, fronts.measured_problems, tests, fronts.confidence)
        });
    let mut verdict = Verdict {
        level,
        first: fronts.fronts[first].objective.clone(),
        second: fronts.fronts[second].objective.clone(),
        difference: signed(difference, sign),
        is_significant: pair.is_significant,
        power,
        text: String::new(),
    };
    verdict.text = text(fronts, &verdict, (at, first, second), (pair, sign, tests));
    Some(verdict)
}

fn pair_of(fronts: &Fronts, first: usize, second: usize) -> Option<(&Pair, f64)> {
    let (one, other) = (&fronts.fronts[first].objective, &fronts.fronts[second].objective);
    let is = |pair: &&Pair| pair.first == *one && pair.second == *other;
    let is_reversed = |pair: &&Pair| pair.first == *other && pair.second == *one;
    let pairs = || fronts.pairs.iter();
    pairs().find(is).map(|pair| (pair, 1.0)).or(pairs().find(is_reversed).map(|pair| (pair, -1.0)))
}

/// A difference, or with a sign of -1 the difference the other way round.
pub(super) fn signed(interval: Interval, sign: f64) -> Interval {
    if sign > 0.0 {
        return interval;
    }
    Interval { value: -interval.value, low: -interval.high, high: -interval.low }
}

fn text(
    fronts: &Fronts,
    verdict: &Verdict,
    (at, first, second): (usize, usize, usize),
    (pair, sign, tests): (&Pair, f64, usize),
) -> String {
    let of = |index: usize| &fronts.fronts[index].levels[at];
    let value = |index: usize| of(index).value.map_or(f64::NAN, |interval| interval.value);
    let shown = Shown::of(value(first), value(second), verdict.difference.value);
    let (one, other) = (shown.decimals(value(first)), shown.decimals(value(second)));
    let says = match fronts.measure {
        Measure::PassAtK(k) => {
            format!("{} has pass@{k} {one} and {} {other}", verdict.first, verdict.second)
        }
        Measure::Distinct(correct) => format!(
            "{} has {one} distinct solutions among {correct} correct and {} {other}",
            verdict.first, verdict.second
        ),
    };
    let level = level_of(verdict.level);
    let difference = Interval { value: shown.difference, ..verdict.difference };
    let difference = with_interval(&difference, fronts.confidence, shown.digits);
    let mut sentences =
        vec![format!("At pass@1 of at least {level}, {says}, a difference of {difference}.")];
    sentences.push(tested(fronts, pair, sign, tests));
    sentences.extend(verdict.power.as_ref().map(power_line));
    let on_test =
        |index: usize| of(index).pass_at_1.map_or("-".to_owned(), |interval| short(interval.value));
    sentences.push(format!(
        "On the test problems the chosen checkpoints have pass@1 {} and {}.",
        on_test(first),
        on_test(second)
    ));
    let missing: Vec<&str> = fronts
        .fronts
        .iter()
        .filter(|front| front.levels[at].value.is_none())
        .map(|front| front.objective.as_str())
        .collect();
    if !missing.is_empty() {
        sentences.push(format!("Not reached in every seed by {}.", missing.join(", ")));
    }
    sentences.join(" ")
}

/// The test of a pair, in a sentence.
fn tested(fronts: &Fronts, pair: &Pair, sign: f64, tests: usize) -> String {
    let Some(mean) = pair.mean else { return String::new() };
    let (low, high) = match (pair.levels.first(), pair.levels.last()) {
        (Some(low), Some(high)) => (level_of(low.level), level_of(high.level)),
        _ => return String::new(),
    };
    let mean = with_interval(&signed(mean, sign), fronts.confidence, 2);
    let over = if low == high { String::new() } else { format!(" to {high}") };
    let mean = format!("Mean difference over levels {low}{over}: {mean}");
    let Some(p) = pair.p_holm else {
        return format!("{mean}; this pair is not tested.");
    };
    let with = match pair.seeds {
        0 => String::new(),
        1 => " with 1 seed".to_owned(),
        seeds => format!(" with {seeds} seeds"),
    };
    let adjusted = match tests {
        1 => format!("p = {}", p_value(p)),
        tests => format!("p = {}, adjusted for {tests} pairs", p_value(p)),
    };
    let is = match (pair.seeds, pair.is_significant) {
        (1, _) => "this compares two runs, not objectives,",
        (_, true) => "a significant difference",
        (_, false) => "no significant difference",
    };
    format!("{mean}, {is}{with} ({adjusted}).")
}

/// The difference that a study detects, and the number of seeds that detects half of it.
pub fn power_line(power: &Power) -> String {
    let half = match power.seeds_for_half {
        Some(seeds) => format!("detecting {} would need {seeds} seeds", precise(power.least / 2.0)),
        None => format!(
            "detecting {} would need more than {} problems, since even {} seeds would not suffice",
            precise(power.least / 2.0),
            power.problems,
            super::power::MOST_SEEDS,
        ),
    };
    format!(
        "With {} seeds a study detects a mean difference of {} with probability .8; {half}.",
        power.seeds,
        precise(power.least)
    )
}

/// Two values and their difference as a sentence shows them: the shown difference is that of the shown values.
struct Shown {
    digits: usize,
    difference: f64,
}

impl Shown {
    /// Two decimals, or three where two would not add up. The difference is that of the values so rounded, off by at
    /// most one of the last decimals; values of which it is not the difference are shown as they are.
    fn of(first: f64, second: f64, difference: f64) -> Self {
        // As the texts say it, ties included.
        let rounded = |x: f64, digits: usize| -> i64 {
            let shown: f64 = format!("{x:.digits$}").parse().unwrap_or(f64::NAN);
            (shown * 10_f64.powi(digits as i32)).round() as i64
        };
        let off = |digits: usize| {
            let of_shown = rounded(first, digits) - rounded(second, digits);
            of_shown.abs_diff(rounded(difference, digits))
        };
        let digits = if off(2) == 0 { 2 } else { 3 };
        let of_shown = (rounded(first, digits) - rounded(second, digits)) as f64;
        let is_same = off(digits) <= 1;
        let scale = 10_f64.powi(digits as i32);
        Self { digits, difference: if is_same { of_shown / scale } else { difference } }
    }

    fn decimals(&self, x: f64) -> String {
        decimals(x, self.digits)
    }
}

/// A difference with its interval, two decimals each.
pub(super) fn signed_with_interval(interval: &Interval, confidence: f64) -> String {
    with_interval(interval, confidence, 2)
}

/// A value with so many decimals, and its interval with two.
fn with_interval(interval: &Interval, confidence: f64, digits: usize) -> String {
    let sign = |x: f64, digits: usize| {
        let text = decimals(x.abs(), digits);
        let is_zero = text.chars().all(|c| matches!(c, '.' | '0'));
        let sign = if x < 0.0 && !is_zero { "-" } else { "+" };
        format!("{sign}{text}")
    };
    format!(
        "{} ({:.0} %: {} to {})",
        sign(interval.value, digits),
        confidence * 100.0,
        sign(interval.low, 2),
        sign(interval.high, 2)
    )
}

/// Two decimals, without a zero before the point.
pub(super) fn short(x: f64) -> String {
    decimals(x, 2)
}

/// So many decimals, without a zero before the point.
fn decimals(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$}");
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

/// Two decimals, or three of what is small.
fn precise(x: f64) -> String {
    let text = if x < 0.1 { format!("{x:.3}") } else { format!("{x:.2}") };
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

/// A level with as many decimals as it has, at least two.
pub(crate) fn level_of(level: f64) -> String {
    let is_short = ((level * 100.0).round() - level * 100.0).abs() < 1e-9;
    let text = if is_short { format!("{level:.2}") } else { format!("{level:.3}") };
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "below .001".to_owned() } else { precise(p) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_difference_is_that_of_the_shown_values() {
        // Two decimals would say .87 and .85 with a difference of .01.
        let shown = Shown::of(0.8664, 0.8536, 0.0128);
        assert_eq!(
            (shown.decimals(0.8664), shown.decimals(0.8536)),
            (".866".into(), ".854".into())
        );
        let interval = Interval { value: shown.difference, low: -0.0104, high: 0.036 };
        let text = with_interval(&interval, 0.95, shown.digits);
        assert_eq!(text, "+.012 (95 %: -.01 to +.04)");
        let plain = Shown::of(0.871, 0.849, 0.022);
        assert_eq!(
            (plain.digits, with_interval(&interval, 0.95, 2).as_str()),
            (2, "+.01 (95 %: -.01 to +.04)")
        );
        let zero = Interval { value: -0.0001, low: -0.004, high: 0.0 };
        assert_eq!(with_interval(&zero, 0.95, 3), "+.000 (95 %: +.00 to +.00)");
        let read = |text: &str| (text.parse::<f64>().unwrap() * 1e3).round() as i64;
        let mut misleading = 0;
        for number in 0..4000_i64 {
            let value = |factor: i64| (number * factor % 9973) as f64 / 9973.0;
            let (first, second) = (value(7919), value(3571));
            let shown = Shown::of(first, second, first - second);
            let [a, b] = [first, second].map(|x| read(&shown.decimals(x)));
            let difference = decimals(shown.difference.abs(), shown.digits);
            assert_eq!((a - b).abs(), read(&difference), "{first} {second}");
            assert!((shown.difference - (first - second)).abs() < 0.0051);
            misleading += usize::from(shown.digits == 3);
        }
        assert!(misleading > 500, "{misleading} of 4000 need a third decimal");
        // Values that the difference does not belong to are left alone.
        assert_eq!(Shown::of(0.8, 0.5, 0.1).difference, 0.1);
        assert!(Shown::of(f64::NAN, 0.5, 0.1).difference.is_finite());
    }
}
