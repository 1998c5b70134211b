//! Studies and their plans as tables for the terminal.

use tealight_eval::curve::power_line;
use tealight_eval::curve::tasks::{PAIRS_NOTE, TASKS_NOTE, TaskCurves, pair_rows, task_rows};
use tealight_eval::number::counted;
use tealight_eval::report::differences::Differences;
use tealight_eval::report::{Study, curve, greedy_warnings, levels, tables};

use super::plain;
use crate::app::study::tasks::FinishedTasks;
use crate::app::study::{Plan, methods};

/// A study: the verdict and the curves, one block for each set, one row for the base and each objective, and below the
/// first held-out set all models against each other.
pub(in crate::cli) fn study(study: &Study) -> String {
    let mut text = format!("{}\n{}\n", curves(study), study.decoding());
    for evaluated in &study.datasets {
        text.push_str(&format!(
            "\n{} ({})\n{}\n",
            evaluated.title(study),
            counted(evaluated.base.summary.problems, "problem"),
            plain(&tables::with_header(study, evaluated))
        ));
    }
    for (title, table) in levels::averages(study) {
        text.push_str(&format!("\n{title}, with 95 % intervals\n{}\n", plain(&table)));
    }
    if let Some(forgetting) = &study.forgetting {
        text.push_str(&format!("\n{}\n{}\n", forgetting.title(), plain(&forgetting.rows())));
    }
    if let Some(evaluated) = study.reported() {
        let tested = Differences::new(study, evaluated);
        text.push_str(&format!(
            "\n{}: change from base with 95 % intervals, {}\n{}\n",
            evaluated.title(study),
            tested.legend(),
            plain(&tested.to_base())
        ));
        text.push_str(&format!(
            "\n{}: row minus column, pass@1 below the diagonal, pass@{} above\n{}\n",
            evaluated.title(study),
            study.largest(),
            plain(&tested.pairs())
        ));
    }
    let budgets = plain(&tables::budgets(study));
    text.push_str(&format!("\nbudget of each objective, mean over seeds\n{budgets}\nmemory: planned peak of one run on its own, with --log-kl off\n"));
    format!("{text}\nMethods, for a paper\n{}\n", methods(study))
}

/// A study on several tasks: the comparison over tasks, then each task's models and verdict.
pub(in crate::cli) fn tasks(done: &FinishedTasks) -> String {
    let mut text = String::new();
    if let Some(across) = &done.all.across {
        text.push_str(&format!("\n{}\n", across.text));
    }
    if let Some(distinct) = &done.all.distinct {
        text.push_str(&format!("\n{}\n", distinct.text));
    }
    for (TaskCurves { task, curves, without_curves }, finished) in
        done.all.tasks.iter().zip(&done.studies)
    {
        let study = &finished.study;
        if let Some(set) = study.reported() {
            let problems = counted(set.base.summary.problems, "problem");
            text.push_str(&format!("\n{} ({problems})\n", set.title(study)));
            text.push_str(&format!("{}\n", plain(&tables::with_header(study, set))));
        }
        let conclusion = match curves {
            Some(curves) => {
                format!(
                    "{task} by itself, with p-values for its own tests: {}",
                    curves.verdict.text
                )
            }
            None => {
                let reason = without_curves.as_deref().unwrap_or("no reason is recorded");
                format!("No curves on {task}: {reason}")
            }
        };
        text.push_str(&format!("{conclusion}\n"));
        for warning in greedy_warnings(study) {
            text.push_str(&format!("warning: {warning}\n"));
        }
    }
    if let Some(across) = &done.all.across {
        text.push_str(&format!("\n{}\n{PAIRS_NOTE}\n", plain(&pair_rows(across))));
    }
    text.push_str(&format!("\n{}\n{TASKS_NOTE}\n", plain(&task_rows(&done.all.tasks))));
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

/// The plans of a study's tasks: what each runs in one table, and the sum of the times.
pub(in crate::cli) fn plans(plans: &[(String, Plan)]) -> String {
    let mut text = String::new();
    for (task, one) in plans {
        text.push_str(&format!("{task}\n{}\n\n", plan(one)));
    }
    let seconds: f64 = plans.iter().map(|(_, plan)| plan.seconds).sum();
    format!("{text}{:.1} minutes for all {} tasks", seconds / 60.0, plans.len())
}

/// The verdict and what it rests on, and the warnings.
fn curves(study: &Study) -> String {
    let mut text = String::new();
    for (place, one) in study.curves.iter().enumerate() {
        if place == 0 {
            text.push_str(&format!("\n{}\n", tealight_eval::curve::plain(one)));
        }
        text.push_str(&format!("\n{}\n", one.verdict.text));
        // All differences of distinct answers are in the documents.
        if place == 0 {
            let rows = plain(&curve::reference_rows(one));
            text.push_str(&format!("\n{rows}\n{}\n", curve::notes(one)));
        }
    }
    if let Some(choices) = &study.choices {
        let (note, rows) = (curve::choice_note(choices), plain(&curve::choice_rows(choices)));
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
