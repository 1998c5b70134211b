//! `tealight verify --audit FILE`: the audit as text, and the questions of `--label`.

use std::io::{BufRead, Write};
use std::path::Path;

use anyhow::Result;
use tealight_eval::Estimate;

use crate::app::verdicts::{Audit, Case, Judge};
use crate::system::telemetry::{out, print};

/// Pairs of a kind that are shown.
const SHOWN: usize = 3;
/// Kinds that are shown.
const KINDS: usize = 20;

pub(super) fn run(file: &Path, judge: &Judge, against: Option<&str>, asks: bool) -> Result<()> {
    let mut audit = Audit::open(file, judge, against)?;
    if asks {
        ask(&mut audit)?;
    }
    let (name, other) = (&audit.names.0, &audit.names.1);
    let accepted = audit.cases.iter().filter(|case| case.verdict.name() == "correct").count();
    let count = audit.cases.len();
    print(format_args!("{count} pairs; {name} accepts {accepted}"))?;
    if let Some(other) = other {
        let disputed = audit.cases.iter().filter(|case| case.is_disputed()).count();
        print(format_args!("{disputed} disagreements with {other}"))?;
        let kinds = audit.disputes();
        for dispute in kinds.iter().take(KINDS) {
            print(format_args!(
                "\n{} of gold answers that are {}: {name} says {}, {other} {}",
                dispute.cases.len(),
                dispute.gold,
                dispute.verdict.name(),
                dispute.other.name()
            ))?;
            for case in dispute.cases.iter().take(SHOWN) {
                print(format_args!("  line {}: {}", case.line, shown(case)))?;
            }
        }
        if kinds.len() > KINDS {
            print(format_args!("\n{} more kinds", kinds.len() - KINDS))?;
        }
    }
    print("")?;
    rates(&audit)
}

fn shown(case: &Case) -> String {
    let quoted = |text: &str| match text.char_indices().nth(100) {
        Some((end, _)) => format!("`{}...`", &text[..end]),
        None => format!("`{text}`"),
    };
    format!("gold {}, answer {}", quoted(&case.gold), quoted(&case.answer))
}

/// The rates, or which labels are missing for them.
fn rates(audit: &Audit) -> Result<()> {
    let labelled = audit.cases.iter().filter(|case| case.label.is_some()).count();
    let Some(rates) = audit.rates() else {
        let missing = audit.strata().into_iter().filter(|(_, stratum)| stratum.labelled == 0);
        let missing = missing.map(|((ours, theirs), stratum)| {
            let says = |accepts| if accepts { "accepted" } else { "not accepted" };
            let theirs = theirs.map(|accepts| format!(" and {} by the other", says(accepts)));
            format!("{} {}{}", stratum.size, says(ours), theirs.unwrap_or_default())
        });
        let missing: Vec<String> = missing.collect();
        return Ok(print(format_args!(
            "{labelled} labels. Rates need a label in every group; none is among the pairs that are {}. Add labels with \
             --label, or as \"label\": true or false in the file.",
            missing.join("; ")
        ))?);
    };
    let formatted = |estimate: &Estimate| match estimate.value.is_nan() {
        true => "not defined".to_owned(),
        false => {
            format!(
                "{:.4}, 95 % interval {:.4} to {:.4}",
                estimate.value, estimate.low, estimate.high
            )
        }
    };
    print(format_args!(
        "by {labelled} labels, a random sample of each group:\n\
         false-positive rate (accepted among incorrect)  {}\n\
         false-negative rate (rejected among correct)    {}\n\
         share of correct answers                        {}",
        formatted(&rates.false_positive),
        formatted(&rates.false_negative),
        formatted(&rates.correct)
    ))?;
    let (positive, negative) = (rates.false_positive.value, rates.false_negative.value);
    let signal = 1.0 - positive - negative;
    if signal.is_nan() {
        return Ok(());
    }
    if signal <= 0.0 {
        return Ok(print(
            "A verifier of these rates says nothing of an answer: it trains towards the wrong ones.",
        )?);
    }
    Ok(print(format_args!(
        "In training, the expected reward is {positive:.4} + {signal:.4} x accuracy: errors that do not depend on the \
         prompt shrink the policy gradient to {signal:.4} of its size. (reward - {positive:.4}) / {signal:.4} is the \
         reward without that bias."
    ))?)
}

/// Asks for labels until there are no more pairs, or the user has enough.
fn ask(audit: &mut Audit) -> Result<()> {
    let input = std::io::stdin();
    let todo = audit.to_label();
    for (number, index) in todo.iter().enumerate() {
        let case = &audit.cases[*index];
        let (gold, answer) = (&case.gold, &case.answer);
        print(format_args!(
            "\n{} of {}\ngold    {gold}\nanswer  {answer}",
            number + 1,
            todo.len()
        ))?;
        let label = loop {
            write!(out(), "Is the answer correct? [y]es, [n]o, [s]kip, [q]uit: ")?;
            out().flush()?;
            let mut line = String::new();
            if input.lock().read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim().to_lowercase().as_str() {
                "y" | "yes" => break Some(true),
                "n" | "no" => break Some(false),
                "s" | "skip" => break None,
                "q" | "quit" => return Ok(()),
                _ => {}
            }
        };
        if let Some(is_correct) = label {
            audit.label(*index, is_correct)?;
        }
    }
    Ok(())
}
