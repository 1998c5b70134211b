//! A study's tables as a document.

use tealight_core::display;
use tealight_eval::number::counted;
use tealight_eval::report::differences::Differences;
use tealight_eval::report::{Study, curve, greedy_warnings, tables};

/// The study's tables.
pub(super) fn markdown(study: &Study) -> String {
    let seeds: Vec<String> = study.seeds().iter().map(ToString::to_string).collect();
    let mut text: String =
        study.curves.iter().map(|curves| curve::markdown(curves) + "\n").collect();
    if let Some(tuning) = &study.tuning {
        let (note, rows) = (curve::tuning_note(tuning), curve::tuning_rows(tuning));
        text.push_str(&format!("{note}\n\n{}\n", tables::markdown(&rows)));
    }
    if let Some(reason) = &study.without_curves {
        text.push_str(&format!("No curves: {reason}\n\n"));
    }
    for warning in greedy_warnings(study) {
        text.push_str(&format!("Warning: {warning}\n\n"));
    }
    text.push_str(&format!(
        "{}: {} a problem, seeds {}, as many {}. {} {}\n",
        display::markdown(&study.model),
        counted(study.n, "sample"),
        seeds.join(", "),
        study.matched,
        study.decoding(),
        tables::LEGEND
    ));
    let mut add = |title: &str, rows: &[Vec<String>]| {
        if !rows.is_empty() {
            let title = display::markdown(title);
            text.push_str(&format!("\n{title}\n\n{}", tables::markdown(rows)));
        }
    };
    for evaluated in &study.datasets {
        let problems = counted(evaluated.base.summary.problems, "problem");
        let title = format!("{} ({problems})", evaluated.name);
        add(&title, &tables::with_header(study, evaluated));
        let tested = Differences::new(study, evaluated);
        add("Change from base, with 95 % intervals", &tested.to_base());
    }
    let title = format!("Budgets. {}", tables::BUDGET_LEGEND);
    add(&title, &tables::budgets(study));
    text
}
