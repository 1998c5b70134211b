//! Studies and their plans as tables for the terminal.

use tealight_eval::curve::power_line;
use tealight_eval::number::counted;
use tealight_eval::report::differences::Differences;
use tealight_eval::report::{Study, curve, greedy_warnings, tables};

use super::plain;
use crate::app::study::Plan;

/// A study: the verdict and the curves, one block for each set, one row for the base and each objective, and the
/// changes from the base on the first held-out set.
pub(in crate::cli) fn study(study: &Study) -> String {
    let mut text = format!("{}\n{}\n", curves(study), study.decoding());
    for evaluated in &study.datasets {
        text.push_str(&format!(
            "\n{} ({})\n{}\n",
            evaluated.name,
            counted(evaluated.base.summary.problems, "problem"),
            plain(&tables::with_header(study, evaluated))
        ));
    }
    if let Some(evaluated) = study.reported() {
        let tested = Differences::new(study, evaluated);
        text.push_str(&format!(
            "\n{}: change from base with 95 % intervals, {}\n{}\n",
            evaluated.name,
            tested.legend(),
            plain(&tested.to_base())
        ));
    }
    let budgets = plain(&tables::budgets(study));
    text.push_str(&format!("\nbudget of each objective, mean over seeds\n{budgets}\n"));
    text
}

/// The plan of a study.
pub(in crate::cli) fn plan(plan: &Plan) -> String {
    let power = match &plan.power {
        Some(power) => power_line(power),
        None => {
            "This study cannot compare objectives: curves need --eval-steps, two objectives and two seeds.".into()
        }
    };
    format!(
        "{}\n\n{:.1} minutes in all, {}\n{power} ({})",
        plain(&plan.rows),
        plan.seconds / 60.0,
        plan.measured,
        plan.assumed
    )
}

/// The verdict and what it rests on, and the warnings.
fn curves(study: &Study) -> String {
    let mut text = String::new();
    for (place, one) in study.curves.iter().enumerate() {
        if place == 0 {
            text.push_str(&format!("\n{}\n", tealight_eval::curve::plain(one)));
        }
        // Without a difference that was tested, the plain sentence is the verdict.
        if !text.contains(&one.verdict.text) {
            text.push_str(&format!("\n{}\n", one.verdict.text));
        }
        // Those of pass@k are in the documents.
        if place == 0 {
            let rows = plain(&curve::reference_rows(one));
            text.push_str(&format!("\n{rows}\n{}\n", curve::notes(one)));
        }
    }
    if let Some(tuning) = &study.tuning {
        let (note, rows) = (curve::tuning_note(tuning), plain(&curve::tuning_rows(tuning)));
        text.push_str(&format!("\n{rows}\n{note}\n"));
    }
    if let Some(reason) = &study.without_curves {
        text.push_str(&format!("\nNo curves: {reason}\n"));
    }
    for warning in greedy_warnings(study) {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    text
}
