//! The six answers of an audit in plain words; [`audit_answers`](super::audit_answers) has their intervals and tests.

use super::audit_answers::direction;
use crate::audit::{SecondRule, TunedAudit, finding};
use crate::crossing::CrossingPoint;
use crate::number::{counted, signed};

/// What the page says first, where the data allow a word on the question.
pub(super) fn plain(tuned: &TunedAudit) -> Vec<String> {
    let all = [better(tuned), lost(tuned), narrower(tuned), strategies(tuned), templates(tuned)];
    all.into_iter().flatten().chain(tuned.second_rule.as_ref().map(trusted)).collect()
}

fn better(tuned: &TunedAudit) -> Option<String> {
    let effect = tuned.finding("pass@1")?.effect;
    let by = signed(effect.value, 3);
    let interval = format!("95 %: {} to {}", signed(effect.low, 3), signed(effect.high, 3));
    let one = match direction(tuned, "pass@1") {
        up if up > 0.0 => format!("On one try the tuned model is right more often ({by})"),
        down if down < 0.0 => format!("On one try the tuned model is right less often ({by})"),
        _ => format!("On one try the tuned model may be no better and no worse ({by}, {interval})"),
    };
    if tuned.change.contrast.pass.iter().all(|(k, _)| *k == 1) {
        return Some(format!("{one}; one sample of each problem cannot show more tries."));
    }
    let crossing = tuned.change.contrast.crossing;
    let is_claimed = crossing.high != CrossingPoint::Never;
    Some(match (crossing.at, is_claimed) {
        (CrossingPoint::K(k), true) => {
            format!(
                "{one}; from {} on the base solves more.",
                counted(k.ceil() as usize, "attempt")
            )
        }
        (CrossingPoint::FromTheStart, true) => {
            let pass = &tuned.change.contrast.pass;
            match pass.iter().all(|(_, change)| change.value <= 0.0) {
                true => format!("{one}; the tuned model solves more at no k."),
                false => format!("{one}; the base is ahead from the start."),
            }
        }
        (CrossingPoint::Never, _) if crossing.low == CrossingPoint::Never => {
            format!("{one}; the base solves more at no k.")
        }
        _ => format!("{one}; whether the base solves more with many tries is open."),
    })
}

fn lost(tuned: &TunedAudit) -> Option<String> {
    let lost = tuned.lost.as_ref()?;
    let beyond = |value: f64| format!("{:.0}", (value * lost.problems as f64).max(0.0));
    let said = |is_certain: bool| if is_certain { "" } else { " (not certain)" };
    Some(format!(
        "Of {}, {}{} were lost beyond what chance loses within {}{}, and {}{} gained.",
        counted(lost.problems, "problem"),
        beyond(lost.lost.beyond.value),
        said(direction(tuned, finding::LOST) != 0.0),
        counted(lost.tries, "attempt"),
        if lost.has_second_draw { "" } else { " (half of the base's samples)" },
        beyond(lost.gained.beyond.value),
        said(lost.gained.beyond.low > 0.0)
    ))
}

fn narrower(tuned: &TunedAudit) -> Option<String> {
    tuned.diversity.as_ref()?;
    tuned.finding(finding::ALIKE)?;
    Some(match direction(tuned, finding::ALIKE) {
        down if down < 0.0 => "Its correct answers became more alike.".to_owned(),
        up if up > 0.0 => "Its correct answers became less alike.".to_owned(),
        _ => "Whether its correct answers became more or less alike is open.".to_owned(),
    })
}

fn strategies(tuned: &TunedAudit) -> Option<String> {
    let first = tuned.strategies.ways.first()?;
    let is_certain = first.change.excludes_zero();
    Some(format!(
        "Among {} it has {:.2} distinct ones by {}, the base {:.2}{}.",
        counted(tuned.strategies.correct, "correct answer"),
        first.distinct[1],
        first.by,
        first.distinct[0],
        match is_certain {
            true => "",
            _ if first.distinct[0] == first.distinct[1] => " (no difference)",
            false => " (the difference is not certain)",
        }
    ))
}

fn templates(tuned: &TunedAudit) -> Option<String> {
    tuned.finding(finding::TEMPLATES)?;
    Some(match direction(tuned, finding::TEMPLATES) {
        down if down < 0.0 => {
            "By their words, a proxy, its completions point less to their own prompts: more of a template, or shorter."
                .to_owned()
        }
        up if up > 0.0 => "Its answers fit their own prompts more.".to_owned(),
        _ => "We see no change in how well answers fit their own prompts.".to_owned(),
    })
}

fn trusted(second: &SecondRule) -> String {
    let [first, other] = &second.rules;
    let others = second.measures(true);
    let accepts_none = |rule: usize| second.pass_at_1[rule] == [0.0; 2];
    let counts = second
        .counts
        .iter()
        .fold([0; 2], |[all, differ], one| [all + one[0], differ + one[1] + one[2]]);
    match others.is_empty() {
        _ if accepts_none(0) && accepts_none(1) => {
            format!(
                "The verifiers {first} and {other} accept no completion, so neither checks the other."
            )
        }
        _ if accepts_none(1) => {
            format!("{other} accepts no completion, so it cannot check {first}.")
        }
        _ if 10 * counts[1] > 9 * counts[0] => format!(
            "{first} and {other} disagree on {} of {}: one of them does not fit these files.",
            counts[1],
            counted(counts[0], "completion")
        ),
        true => format!(
            "The verifiers {first} and {other} lead to the same conclusions on {} (the page's other sections are by {first} \
             alone).",
            second.measures(false)
        ),
        false => format!("By {other} in place of {first}, {others} would change."),
    }
}
