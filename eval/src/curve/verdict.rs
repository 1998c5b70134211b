//! The comparison in words.

use super::data::Measure;
use super::power::{MOST_SEEDS, plan};
use super::result::{Comparison, Curves, Power, Verdict};
use crate::Estimate;
use crate::inference::Variances;
use crate::number::counted;

/// The warning of a study with one seed.
pub(crate) const ONE_SEED: &str = "This study has one seed, so it compares runs and not objectives. Another seed may change \
their order, so no difference is called significant. Use several --seeds to compare objectives.";

/// The verdict on curves that have been compared.
pub(super) fn verdict(curves: &Curves) -> Verdict {
    let tested: Vec<&Comparison> =
        curves.comparisons.iter().filter(|one| one.p_value.is_some()).collect();
    let power = power(curves, &tested);
    let mut sentences = match (curves.is_tested, tested.is_empty()) {
        (false, _) => vec![described(curves)],
        (true, true) => Vec::new(),
        (true, false) => differing(curves, &tested),
    };
    if curves.is_tested {
        sentences.extend(missing(curves));
        let is_unsure = tested.iter().any(|one| !one.is_significant);
        sentences.extend(power.as_ref().filter(|_| is_unsure).map(power_line));
    }
    if sentences.is_empty() {
        sentences.push(format!("No other objective is compared with {}.", curves.reference));
    }
    Verdict { power, text: sentences.join(" ") }
}

/// The power of the tests, by the mean of their variances.
fn power(curves: &Curves, tested: &[&Comparison]) -> Option<Power> {
    let all: Vec<Variances> = tested.iter().filter_map(|one| one.variances).collect();
    let mean = |field: fn(&Variances) -> f64| all.iter().map(field).sum::<f64>() / all.len() as f64;
    let variances =
        Variances { seed: mean(|v| v.seed), problem: mean(|v| v.problem), rest: mean(|v| v.rest) };
    let seeds = tested.iter().map(|one| one.seeds).min()?;
    let is_varied = variances.of_mean(seeds.max(1), curves.problems) > 0.0;
    let found = plan(&variances, seeds, curves.problems, tested.len(), curves.confidence);
    found.filter(|_| is_varied)
}

/// The measure in a sentence.
pub(super) fn name(measure: Measure) -> String {
    match measure {
        Measure::PassAtK(k) => format!("pass@{k}"),
        Measure::Distinct(k) => format!("number of distinct correct answers among {k} samples"),
    }
}

/// Which tested objectives differ significantly from the reference, and how the tests were made.
fn differing(curves: &Curves, tested: &[&Comparison]) -> Vec<String> {
    let (measure, reference) = (name(curves.measure), &curves.reference);
    let phrase = |one: &&Comparison, sign: f64| {
        let is = one.is_significant && one.difference.is_some_and(|d| d.value * sign > 0.0);
        is.then(|| format!("{} ({})", one.first, found(one, curves)))
    };
    let side =
        |sign: f64| -> Vec<String> { tested.iter().filter_map(|one| phrase(one, sign)).collect() };
    let sentence = |sign: f64, word: &str| {
        let named = side(sign);
        (!named.is_empty()).then(|| {
            format!("At equal pass@1, {} {word} {measure} than {reference}.", have(&named))
        })
    };
    let mut sentences: Vec<String> =
        [sentence(1.0, "a higher"), sentence(-1.0, "a lower")].into_iter().flatten().collect();
    let others: Vec<String> = tested
        .iter()
        .filter(|one| !one.is_significant)
        .map(|one| format!("{} ({})", one.first, found(one, curves)))
        .collect();
    let seeds = tested.iter().map(|one| one.seeds).min().unwrap_or(0);
    if seeds == 1 {
        return vec![format!(
            "{ONE_SEED} Differences of {measure} from {reference} at equal pass@1: {}.",
            others.join(", ")
        )];
    }
    if !others.is_empty() {
        let only = if sentences.is_empty() { "At equal pass@1, no" } else { "No" };
        sentences.push(format!(
            "{only} significant difference of {measure} from {reference}: {}.",
            others.join(", ")
        ));
    }
    sentences.push(format!(
        "Mean differences with {:.0} % intervals over {} and {}; significance after Holm's adjustment \
         for {}.",
        curves.confidence * 100.0,
        counted(seeds, "seed"),
        counted(curves.problems, "problem"),
        counted(tested.len(), "test")
    ));
    sentences
}

/// "A and B have" or "A has".
fn have(names: &[String]) -> String {
    match names {
        [one] => format!("{one} has"),
        _ => format!("{} have", listed(names)),
    }
}

pub(super) fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// A difference with its interval, p-value and range.
fn found(one: &Comparison, curves: &Curves) -> String {
    let Some(difference) = one.difference else { return "not compared".to_owned() };
    let difference = signed_with_interval(&difference, curves.confidence);
    let p = one.p_holm.map(|p| format!(", {}", p_value(p))).unwrap_or_default();
    let range = one.range.map(|(low, high)| format!(", pass@1 {} to {}", short(low), short(high)));
    format!("{difference}{p}{}", range.unwrap_or_default())
}

/// What a descriptive comparison says: each trained objective's difference from the reference.
fn described(curves: &Curves) -> String {
    let trained = |one: &&Comparison| {
        let is_trained = |c: &&super::result::Curve| c.objective == one.first && !c.is_baseline;
        one.second == curves.reference && curves.curves.iter().any(|c| is_trained(&c))
    };
    let named: Vec<String> = curves
        .comparisons
        .iter()
        .filter(trained)
        .map(|one| format!("{} {}", one.first, found(one, curves)))
        .collect();
    format!(
        "Difference of the {} from {} at equal pass@1, descriptive and not tested: {}.",
        name(curves.measure),
        curves.reference,
        if named.is_empty() { "nothing is compared".to_owned() } else { named.join("; ") }
    )
}

/// Which objectives have no range of Pass@1 in common with the reference.
fn missing(curves: &Curves) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for one in curves.comparisons.iter().filter(|one| one.second == curves.reference) {
        let Some(name) = &one.missing else { continue };
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        return None;
    }
    let base = short(curves.base.pass_at_1.value);
    Some(match names.contains(&curves.reference) {
        true => format!(
            "Nothing is compared with {}: its pass@1 does not rise above the base's {base}. Train for more steps or at a \
             higher learning rate.",
            curves.reference
        ),
        false => format!(
            "Not compared, since pass@1 does not rise above the base's {base}: {}.",
            names.join(", ")
        ),
    })
}

/// The difference that a study detects, and the number of seeds that detects half of it.
pub fn power_line(power: &Power) -> String {
    let half = match power.seeds_for_half {
        Some(seeds) => format!("detecting {} would need {seeds} seeds", precise(power.least / 2.0)),
        None => format!(
            "detecting {} would need more than {} problems, since even {MOST_SEEDS} seeds would not suffice",
            precise(power.least / 2.0),
            power.problems,
        ),
    };
    format!(
        "With {} seeds a study detects a mean difference of {} with probability .8; {half}.",
        power.seeds,
        precise(power.least)
    )
}

/// A difference with its interval, two decimals each.
pub(super) fn signed_with_interval(interval: &Estimate, confidence: f64) -> String {
    let sign = |x: f64| {
        let text = short(x.abs());
        let is_zero = text.chars().all(|c| matches!(c, '.' | '0'));
        let sign = if x < 0.0 && !is_zero { "-" } else { "+" };
        format!("{sign}{text}")
    };
    let Estimate { value, low, high } = *interval;
    format!("{}, {:.0} %: {} to {}", sign(value), confidence * 100.0, sign(low), sign(high))
}

/// Two decimals, without a zero before the point.
pub(crate) fn short(x: f64) -> String {
    without_zero(format!("{x:.2}"))
}

/// Two decimals, or three of what is small.
fn precise(x: f64) -> String {
    without_zero(if x < 0.1 { format!("{x:.3}") } else { format!("{x:.2}") })
}

fn without_zero(text: String) -> String {
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "p < .001".to_owned() } else { format!("p = {}", precise(p)) }
}

#[cfg(test)]
mod tests {
    use super::super::world::{self, Objective, Study};
    use super::*;
    use crate::curve::{Request, curves};

    fn simulate(objectives: &[(&str, Objective)], seeds: usize) -> Curves {
        let study = Study { seeds, ..Study::default() };
        let (base, paths) = study.draw(objectives, 3);
        let request = Request { is_exact: true, ..Request::new(Measure::PassAtK(8)) };
        curves(&base, &paths, &request).unwrap()
    }

    #[test]
    fn the_verdict_names_what_differs_from_the_reference() {
        let found = simulate(
            &[("grpo", world::COLLAPSES), ("js", world::KEEPS), ("dapo", world::COLLAPSES)],
            5,
        );
        let text = &found.verdict.text;
        assert_eq!(found.reference, "grpo");
        assert!(text.starts_with("At equal pass@1, js (+"), "{text}");
        assert!(text.contains("has a higher pass@8 than grpo."), "{text}");
        assert!(text.contains("No significant difference of pass@8 from grpo: dapo"), "{text}");
        assert!(text.contains("Holm's adjustment for 2 tests"), "{text}");
        assert!(text.contains("with probability .8"), "{text}");
        assert_eq!(found.comparisons.len(), 3);
        assert!(found.comparisons[2].p_value.is_none(), "js against dapo is descriptive");
        let power = found.verdict.power.unwrap();
        assert!((0.03..0.12).contains(&power.least) && power.seeds == 5, "{power:?}");
    }

    #[test]
    fn one_seed_and_no_rise_are_reported() {
        let text = simulate(&[("grpo", world::COLLAPSES), ("js", world::KEEPS)], 1).verdict.text;
        assert!(text.starts_with(ONE_SEED) && !text.contains("significant difference"), "{text}");
        let still = Objective { gain: 0.0, collapse: 0.0, ..world::KEEPS };
        let found = simulate(&[("grpo", world::COLLAPSES), ("still", still)], 3);
        assert!(
            found.verdict.text.contains("does not rise above the base's"),
            "{}",
            found.verdict.text
        );
        assert!(found.comparisons[0].p_value.is_none());
        let alone = simulate(&[("grpo", world::COLLAPSES)], 3).verdict;
        assert_eq!(alone.text, "No other objective is compared with grpo.");
        assert_eq!(alone.power, None);
        let found = simulate(&[("still", still), ("js", world::KEEPS)], 3).verdict.text;
        assert!(found.starts_with("Nothing is compared with still"), "{found}");
    }

    #[test]
    fn numbers_and_p_values_are_rounded() {
        let interval = Estimate { value: -0.0001, low: -0.004, high: 0.036 };
        assert_eq!(signed_with_interval(&interval, 0.95), "+.00, 95 %: +.00 to +.04");
        assert_eq!(
            (p_value(0.0002), p_value(0.012), p_value(0.2)),
            ("p < .001".into(), "p = .012".into(), "p = .20".into())
        );
        assert_eq!(listed(&["a", "b", "c"].map(str::to_owned)), "a, b and c");
    }
}
