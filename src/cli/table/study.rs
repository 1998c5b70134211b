//! Studies and their plans as tables for the terminal.

use tealight_eval::front::tasks::{PAIRS_NOTE, TASKS_NOTE, TaskFronts, short_pair_rows, task_rows};
use tealight_eval::front::{Fronts, Verdict, power_line};
use tealight_eval::report::{Study, front, levels, tables};

use super::plain;
use crate::app::study::Plan;
use crate::app::study::tasks::FinishedTasks;

/// A study: the verdict and the fronts, one block for each set, one row for the base and each objective, and below the
/// first held-out set all models against each other.
pub(in crate::cli) fn study(study: &Study) -> String {
    let mut text = format!("{}\n{}\n", fronts(study), study.decoding());
    for evaluated in &study.datasets {
        text.push_str(&format!(
            "\n{} ({} problems)\n{}\n",
            evaluated.title(study),
            evaluated.base.summary.problems,
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
        let said = match study.seeds().len() {
            1 => "one seed: runs are compared and not objectives, and nothing is starred",
            _ => "over seeds and problems; * p < .05 after Holm's adjustment over the table",
        };
        text.push_str(&format!(
            "\n{}: change from base with 95 % intervals, {said}\n{}\n",
            evaluated.title(study),
            plain(&tables::to_base(study, evaluated))
        ));
        text.push_str(&format!(
            "\n{}: row minus column, pass@1 below the diagonal, pass@{} above\n{}\n",
            evaluated.title(study),
            study.largest(),
            plain(&tables::pairs(study, evaluated))
        ));
    }
    let budgets = plain(&tables::budgets(study));
    text.push_str(&format!("\nbudget of each objective, mean over seeds\n{budgets}\nmemory: planned peak of one run on its own, with --log-kl off\n"));
    text
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
    if let Some(reasons) = &done.all.without_distinct {
        text.push_str(&format!("\n{reasons}\n"));
    }
    for (TaskFronts { task, fronts, without_fronts }, finished) in
        done.all.tasks.iter().zip(&done.studies)
    {
        let study = &finished.study;
        if let Some(set) = study.reported() {
            let problems = set.base.summary.problems;
            text.push_str(&format!("\n{} ({problems} problems)\n", set.title(study)));
            text.push_str(&format!("{}\n", plain(&tables::with_header(study, set))));
        }
        let said = match fronts {
            Some(fronts) => {
                let none = "no level is reached by two objectives";
                let verdict = fronts.verdict.as_ref().map_or(none, |verdict| &verdict.text);
                format!("{task} by itself, with p-values for its own pairs: {verdict}")
            }
            None => {
                let reason = without_fronts.as_deref().unwrap_or("no reason is recorded");
                format!("No fronts on {task}: {reason}")
            }
        };
        text.push_str(&format!("{said}\n"));
    }
    if let Some(across) = &done.all.across {
        text.push_str(&format!("\n{}\n{PAIRS_NOTE}\n", plain(&short_pair_rows(across))));
    }
    text.push_str(&format!("\n{}\n{TASKS_NOTE}\n", plain(&task_rows(&done.all.tasks))));
    text
}

/// The plan of a study.
pub(in crate::cli) fn plan(plan: &Plan) -> String {
    let power = match &plan.power {
        Some(power) => power_line(power),
        None => {
            "This study cannot compare objectives: fronts need --eval-steps, two objectives and two seeds.".into()
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

/// The verdict, what other ways of matching and measuring say, and the first fronts as tables.
fn fronts(study: &Study) -> String {
    let Some(first) = study.fronts.first() else {
        let reason = study.without_fronts.as_ref();
        return reason.map(|reason| format!("\nNo fronts: {reason}\n")).unwrap_or_default();
    };
    let said = |fronts: &Fronts| {
        let verdict = fronts.verdict.as_ref();
        verdict
            .map_or("no level is reached by two objectives in all seeds".into(), |v| v.text.clone())
    };
    let mut text = format!("\n{}\n", said(first));
    for other in &study.fronts[1..] {
        let is_same = other.measure == first.measure
            && match (&first.verdict, &other.verdict) {
                (Some(one), Some(two)) => is_same_verdict(one, two),
                (None, None) => true,
                _ => false,
            };
        let way = match other.measure == first.measure {
            true => format!("With equal numbers of {}", other.matched),
            false => format!("By {}", other.measure),
        };
        if !is_same {
            text.push_str(&format!("\n{way}: {}\n", said(other)));
        }
    }
    text.push_str(&format!(
        "\n{} at each level of pass@1, with 95 % intervals (runs with equal numbers of {}; checkpoints chosen on {} validation problems)\n{}\n",
        first.measure,
        first.matched,
        first.valid_problems,
        plain(&front::rows(first))
    ));
    let all = front::pair_rows(first);
    let Some((header, rows)) = all.split_first() else { return text };
    // All pairs are in the documents.
    let reference = first.verdict.as_ref().map(|verdict| &verdict.second);
    let of = first.pairs.iter().zip(rows).filter(|(pair, _)| {
        reference.is_none_or(|name| [&pair.first, &pair.second].contains(&name))
    });
    let shown: Vec<Vec<String>> =
        std::iter::once(header.clone()).chain(of.map(|(_, row)| row.clone())).collect();
    text.push_str(&format!(
        "\nmean difference over the levels that both objectives reach, p adjusted for {} pairs\n{}\n",
        first.pairs.iter().filter(|pair| pair.p_value.is_some()).count(),
        plain(&shown)
    ));
    text
}

/// Whether two verdicts say the same of the same objectives.
fn is_same_verdict(one: &Verdict, two: &Verdict) -> bool {
    let names = |verdict: &Verdict| [verdict.first.clone(), verdict.second.clone()];
    let is_up = |verdict: &Verdict| verdict.difference.value > 0.0;
    names(one) == names(two) && one.is_significant == two.is_significant && is_up(one) == is_up(two)
}
