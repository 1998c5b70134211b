//! The comparison in a sentence that needs no statistics to be read.

use super::data::Measure;
use super::result::{Comparison, Curves};
use super::verdict::{listed, short};

/// Which objectives keep more, and which untrained baseline keeps more than every one of them.
pub fn plain(curves: &Curves) -> String {
    let measure = match curves.measure {
        Measure::PassAtK(k) => format!("a {{}} pass@{k}"),
        Measure::Distinct(_) => "{} distinct correct answers".to_owned(),
    };
    let than = |sign: f64| match (curves.measure, sign > 0.0) {
        (Measure::PassAtK(_), true) => measure.replace("{}", "higher"),
        (Measure::PassAtK(_), false) => measure.replace("{}", "lower"),
        (Measure::Distinct(_), true) => measure.replace("{}", "more"),
        (Measure::Distinct(_), false) => measure.replace("{}", "fewer"),
    };
    let reference = spoken(&curves.reference);
    let tested = || curves.comparisons.iter().filter(|one| one.p_value.is_some());
    let side = |sign: f64| -> Vec<String> {
        let is = |one: &&Comparison| {
            one.is_significant && one.difference.is_some_and(|d| d.value * sign > 0.0)
        };
        let named = |one: &Comparison| {
            let by = one.difference.map(|d| format!(" ({}{})", plus(d.value), short(d.value)));
            format!("{}{}", spoken(&one.first), by.unwrap_or_default())
        };
        tested().filter(is).map(named).collect()
    };
    let sentence = |sign: f64| {
        let names = side(sign);
        let gives = if names.len() == 1 { "gives" } else { "give" };
        let start = format!("At equal accuracy {} {gives}", listed(&names));
        (!names.is_empty()).then(|| format!("{start} {} than {reference}.", than(sign)))
    };
    let mut all: Vec<String> = [1.0, -1.0].into_iter().filter_map(sentence).collect();
    if all.is_empty() {
        let seeds = tested().map(|one| one.seeds).min();
        all.push(match seeds {
            Some(1) => "With one seed this study compares runs and not objectives.".to_owned(),
            Some(_) => format!(
                "At equal accuracy no objective differs significantly from {reference} in {}.",
                than(1.0).trim_start_matches("a higher ").trim_start_matches("more ")
            ),
            None => return curves.verdict.text.clone(),
        });
    }
    all.extend(best_baseline(curves));
    let course = course(curves, &reference);
    course.into_iter().chain(all).collect::<Vec<_>>().join(" ")
}

/// The sign that [`short`] does not write.
fn plus(value: f64) -> &'static str {
    if value > 0.0 { "+" } else { "" }
}

/// Where training under the reference led.
fn course(curves: &Curves, reference: &str) -> Option<String> {
    let curve = curves.curves.iter().find(|one| one.objective == curves.reference)?;
    let (base, end) = (&curves.base, curve.points.last()?);
    let under = match reference {
        "no penalty" => "Without a penalty".to_owned(),
        named => format!("Under {named}"),
    };
    let measure = match curves.measure {
        Measure::PassAtK(k) => format!("pass@{k}"),
        Measure::Distinct(n) => format!("the distinct correct answers among {n} samples"),
    };
    Some(format!(
        "{under} accuracy went from {} to {}, and {measure} from {} to {}{}.",
        short(base.pass_at_1.value),
        short(end.pass_at_1),
        short(base.value.value),
        short(end.value),
        if curves.is_exact { " (exact; tables of final models have samples)" } else { "" }
    ))
}

/// The baseline whose interval is above every trained objective, where there is one: the one with the largest lead.
fn best_baseline(curves: &Curves) -> Option<String> {
    let is_baseline =
        |name: &str| curves.curves.iter().any(|one| one.is_baseline && one.objective == name);
    let trained = || curves.curves.iter().filter(|one| !one.is_baseline);
    // Baseline minus objective, over the accuracy that both reach.
    let above = |baseline: &str, objective: &str| {
        curves.comparisons.iter().find_map(|one| {
            let difference = one.difference?;
            let (value, low) = match (one.first.as_str(), one.second.as_str()) {
                pair if pair == (baseline, objective) => (difference.value, difference.low),
                pair if pair == (objective, baseline) => (-difference.value, -difference.high),
                _ => return None,
            };
            // These differences are not tested: the interval is to exclude 0 at least.
            (low > 0.0).then_some((value, one.range?.1))
        })
    };
    let lead = |baseline: &str| -> Option<(f64, f64)> {
        let all = trained().map(|one| above(baseline, &one.objective));
        let all: Vec<(f64, f64)> = all.collect::<Option<_>>()?;
        all.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
    };
    let names = curves.curves.iter().map(|one| &one.objective).filter(|name| is_baseline(name));
    let all = names.filter_map(|name| Some((name, lead(name)?)));
    let (name, (by, until)) = all.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let untrained = match name.contains("temperature") {
        true => "; it needs no training, and cannot raise the greedy accuracy",
        false => "",
    };
    let (by, until) = (short(by), short(until));
    Some(format!(
        "Above them all is the {}, by at least {by} (untested, up to an accuracy of {until}){untrained}.",
        name.trim_start_matches("divergence:")
            .replace("none averaged", "model without penalty averaged")
    ))
}

/// An objective as a person says it.
fn spoken(label: &str) -> String {
    match label.strip_prefix("divergence:") {
        Some("none") => "no penalty".to_owned(),
        Some(name) => name.to_owned(),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::study_of_three;

    #[test]
    fn a_sentence_says_what_differs_and_which_baseline_is_above() {
        let mut curves = study_of_three();
        let text = plain(&curves);
        assert!(
            text.starts_with("Under grpo accuracy went from ") && text.ends_with("."),
            "{text}"
        );
        assert!(text.contains(" At equal accuracy ") && text.contains(" (+"), "{text}");
        assert!(!text.contains("Holm") && !text.contains("Above them all"), "{text}");
        // The highest curve as a baseline.
        let best = curves.comparisons.iter().find(|one| {
            one.second == curves.reference && one.difference.is_some_and(|d| d.value > 0.0)
        });
        let best = best.expect("one keeps more").first.clone();
        for one in curves.curves.iter_mut().filter(|one| one.objective == best) {
            one.is_baseline = true;
        }
        for one in &mut curves.comparisons {
            let Some(difference) = &mut one.difference else { continue };
            let sign = if one.first == best { 1.0 } else { -1.0 };
            if one.first == best || one.second == best {
                (difference.value, difference.low, difference.high) =
                    (sign * 0.25, sign * 0.25 - 0.1, sign * 0.25 + 0.1);
                (one.p_value, one.is_significant) = (None, false);
            }
        }
        let text = plain(&curves);
        assert!(text.contains(&format!("Above them all is the {best}, by at least .25")), "{text}");
        assert_eq!(spoken("divergence:none"), "no penalty");
    }
}
