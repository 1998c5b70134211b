//! The six answers of an audit, in a sentence or two each.

use tealight_core::names::list;

use crate::audit::{CANDIDATES, Moved, SecondRule, TunedAudit, finding};
use crate::inference::{Effect, Finding, in_words};
use crate::number::{counted, signed};
use crate::planner::{MOST_PROBLEMS, POWER, Plan};

/// The six questions.
pub const QUESTIONS: [&str; 6] = list(
    "Better on one try, and overtaken at many?|What was lost?|Narrower, or only cleaner?|How many strategies?|\
    Answers to the prompt, or a template?|Is the verifier to be trusted?",
);

/// The answers to the six questions, in a sentence or two each.
pub fn verdict(tuned: &TunedAudit) -> [String; 6] {
    [better, lost, narrower, strategies, templates, trusted].map(|answer| answer(tuned))
}

/// The direction of a finding; 0 where it is none among all tests.
pub(super) fn direction(tuned: &TunedAudit, name: &str) -> f64 {
    let found = tuned.finding(name).filter(|found| found.finding == Finding::Change);
    found.map_or(0.0, |found| found.effect.value.signum())
}

/// A finding in words, with what its adjustment says.
fn adjusted(tuned: &TunedAudit, name: &str, effect: &Effect) -> String {
    tuned.finding(name).map_or_else(|| in_words(effect), |found| found.in_words())
}

pub(super) fn better(tuned: &TunedAudit) -> String {
    let one = tuned.finding("pass@1").map(|found| found.sentence("pass@1")).unwrap_or_default();
    let crossing = tuned.change.contrast.crossing;
    let text = match tuned.change.contrast.pass.iter().all(|(k, _)| *k == 1) {
        true => format!("On one try, {one}; one sample of each problem cannot show more tries."),
        false => format!("On one try, {one}; {crossing}."),
    };
    match tuned.plans.is_empty() {
        true => text,
        false => format!("{text} {}", planned(&tuned.plans)),
    }
}

/// What would settle what the data leave open.
fn planned(plans: &[Plan]) -> String {
    let mut ks: Vec<usize> = plans.iter().map(|plan| plan.k).collect();
    ks.dedup();
    let of_k = |k: &usize| {
        let some: Vec<&Plan> = plans.iter().filter(|plan| plan.k == *k).collect();
        let settles = |plan: &&&Plan| plan.problems.is_some();
        let phrase = |plan: &&Plan| {
            let problems = counted(plan.problems.unwrap_or_default(), "problem");
            format!("{} of {problems}", counted(plan.samples, "sample"))
        };
        let phrases: Vec<String> = some.iter().filter(settles).map(phrase).collect();
        let difference = some.first().map_or(0.0, |plan| plan.difference);
        let seen = signed(difference, 3);
        match phrases.is_empty() {
            true if difference.abs() < 5e-4 => format!(
                "at pass@{k} no difference was observed, and no number of problems would settle one of 0"
            ),
            true => format!(
                "a difference of {seen} at pass@{k} is too small to settle with {} problems",
                MOST_PROBLEMS
            ),
            false => {
                format!("{} would settle pass@{k} (as modelled: {seen})", phrases.join(", or "))
            }
        }
    };
    let parts: Vec<String> = ks.iter().map(of_k).collect();
    format!(
        "What would settle the rest with a chance of {:.0} %, if the pass rates are as observed: {}.",
        100.0 * POWER,
        parts.join("; ")
    )
}

pub(super) fn lost(tuned: &TunedAudit) -> String {
    let Some(lost) = &tuned.lost else {
        return "Lost problems need two samples of every problem.".into();
    };
    let count = |moved: &Moved| {
        let beyond = moved.beyond;
        let all = |share: f64| signed(share * lost.problems as f64, 1);
        format!(
            "{:.1} of {} ({:.1} by chance alone; beyond it {}, 95 %: {} to {})",
            moved.all,
            lost.problems,
            moved.by_chance,
            all(beyond.value),
            all(beyond.low),
            all(beyond.high)
        )
    };
    let word = match direction(tuned, finding::LOST) {
        more if more > 0.0 => "Problems were lost".to_owned(),
        fewer if fewer < 0.0 => "Fewer problems were lost than chance alone loses".to_owned(),
        _ => {
            let after = tuned.finding(finding::LOST).map(|found| found.adjustment());
            format!("We see no loss beyond chance{}", after.unwrap_or_default())
        }
    };
    format!(
        "{word}: within {}, the base alone solves {}, the tuned model alone {}.",
        counted(lost.tries, "attempt"),
        count(&lost.lost),
        count(&lost.gained)
    )
}

pub(super) fn narrower(tuned: &TunedAudit) -> String {
    let Some(change) = &tuned.diversity else {
        return "Diversity needs problems with two samples of each model.".into();
    };
    let is_narrower = direction(tuned, finding::ALIKE) < 0.0;
    // The term of incorrect answers falls too where accuracy falls from one half to nothing.
    let is_cleaner = direction(tuned, finding::GONE) < 0.0
        && tuned.finding("pass@1").is_some_and(|found| found.effect.value > 0.0);
    let word = match (is_narrower, is_cleaner) {
        (true, true) => "Both narrower and cleaner",
        (true, false) => "Narrower",
        (false, true) => "Only cleaner, as far as the data show",
        (false, false) => "Neither narrower nor cleaner, as far as the data show",
    };
    let became = |effect: &Effect| match effect.value {
        up if up > 5e-4 => "became less alike",
        down if down < -5e-4 => "became more alike",
        _ => "stayed as alike",
    };
    format!(
        "{word}: the chance that two completions differ (correct ones as in 4, others by their answer) goes from {:.3} to \
         {:.3}: {} by the number of incorrect ones, {} because incorrect ones {}, {} because correct ones {}.",
        change.diversity[0],
        change.diversity[1],
        adjusted(tuned, finding::GONE, &change.incorrect_gone),
        in_words(&change.incorrect_alike),
        became(&change.incorrect_alike),
        adjusted(tuned, finding::ALIKE, &change.correct_alike),
        became(&change.correct_alike)
    )
}

pub(super) fn strategies(tuned: &TunedAudit) -> String {
    let found = &tuned.strategies;
    let Some(first) = found.ways.first() else {
        return "Too few problems have two correct answers of each model to compare strategies."
            .into();
    };
    let text = format!(
        "Distinct among {} by {}: {:.2} to {:.2}, {}.",
        counted(found.correct, "correct answer"),
        first.by,
        first.distinct[0],
        first.distinct[1],
        in_words(&first.change)
    );
    match found.disagreement() {
        Some(differing) => format!("{text} The measures disagree: {differing}."),
        None => text,
    }
}

pub(super) fn templates(tuned: &TunedAudit) -> String {
    let word = match direction(tuned, finding::TEMPLATES) {
        less if less < 0.0 => "Completions say less about their prompts",
        more if more > 0.0 => "Completions say more about their prompts",
        _ => "We see no change in how much completions say about their prompts",
    };
    let Some(found) = &tuned.templates else {
        return format!(
            "Templates cannot be seen: the files have no prompts, or fewer than {CANDIDATES}."
        );
    };
    format!(
        "{word}: {:.1} % of the base's and {:.1} % of the tuned model's repeat the words of their own prompt most, among \
         {} prompts ({}; a proxy of mutual information).",
        100.0 * found.base.value,
        100.0 * found.tuned.value,
        found.candidates,
        adjusted(tuned, finding::TEMPLATES, &found.change)
    )
}

pub(super) fn trusted(tuned: &TunedAudit) -> String {
    let Some(second) = &tuned.second_rule else {
        return "The verdicts are of one rule: name a second verifier with --against, or a column with --verdict-key that \
                has verdicts for both models."
            .into();
    };
    let others = second.measures(true);
    let share =
        |counts: &[usize; 3]| 100.0 * (counts[1] + counts[2]) as f64 / counts[0].max(1) as f64;
    let conclusion = match others.is_empty() {
        true => format!("no conclusion on {} changes", second.measures(false)),
        false => format!("the conclusion on {others} changes"),
    };
    format!(
        "By {} in place of {} {conclusion}: they disagree on {:.1} % of the base's completions and {:.1} % of the \
         tuned model's. Pass@1 of the base and the tuned model: {:.3} and {:.3} by {}, {:.3} and {:.3} by {}.",
        second.rules[1],
        second.rules[0],
        share(&second.counts[0]),
        share(&second.counts[1]),
        second.pass_at_1[0][0],
        second.pass_at_1[0][1],
        second.rules[0],
        second.pass_at_1[1][0],
        second.pass_at_1[1][1],
        second.rules[1]
    ) + &judged_in_part(second)
}

/// That a second rule judges some completions alone.
fn judged_in_part(second: &SecondRule) -> String {
    let [judged, all] = [second.counts.map(|counts| counts[0]), second.completions]
        .map(|numbers| numbers.iter().sum::<usize>());
    match judged < all {
        true => {
            format!(
                " Of {all} completions {} judges {judged}, and both are compared on these.",
                second.rules[1]
            )
        }
        false => String::new(),
    }
}
