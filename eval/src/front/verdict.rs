//! The comparison in words.

use super::compare::Comparison;
use super::data::Measure;
use super::power::plan;
use super::result::{Fronts, Interval, Pair, Power, Verdict};

/// The verdict on fronts whose pairs are tested; none where no level is reached by two objectives in all seeds.
///
/// The level is the highest that all objectives reach in all seeds. Where that is no more than the base's Pass@1 on
/// `valid`, where nothing is compared, it is the highest that the reference (without one: any) and another reach. The
/// objective that is compared with the reference is the best on `valid`, since the best on `test` would be flattered
/// by having been chosen there.
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
    let is_for_all =
        |at: &usize| fronts.levels[*at] > accuracy && reaching(*at).len() == fronts.fronts.len();
    let is_for_two = |at: &usize| {
        let reaching = reaching(*at);
        reaching.len() > 1 && reference.is_none_or(|reference| reaching.contains(&reference))
    };
    let at = falling().find(is_for_all).or_else(|| falling().find(is_for_two))?;
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

fn signed(interval: Interval, sign: f64) -> Interval {
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
    let (one, other) = (short(value(first)), short(value(second)));
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
    let difference = with_interval(&verdict.difference, fronts.confidence);
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
    let (Some(mean), Some(p)) = (pair.mean, pair.p_holm) else { return String::new() };
    let (low, high) = match (pair.levels.first(), pair.levels.last()) {
        (Some(low), Some(high)) => (level_of(low.level), level_of(high.level)),
        _ => return String::new(),
    };
    let mean = with_interval(&signed(mean, sign), fronts.confidence);
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
    let over = if low == high { String::new() } else { format!(" to {high}") };
    format!("Mean difference over levels {low}{over}: {mean}, {is}{with} ({adjusted}).")
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

fn with_interval(interval: &Interval, confidence: f64) -> String {
    let sign = |x: f64| {
        let text = short(x.abs());
        let sign = if x < 0.0 && text != ".00" { "-" } else { "+" };
        format!("{sign}{text}")
    };
    format!(
        "{} ({:.0} %: {} to {})",
        sign(interval.value),
        confidence * 100.0,
        sign(interval.low),
        sign(interval.high)
    )
}

/// Two decimals, without a zero before the point.
fn short(x: f64) -> String {
    let text = format!("{x:.2}");
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
