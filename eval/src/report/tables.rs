//! A study's tables as rows of cells, for the terminal, documents and the page.

use tealight_core::display;
use tealight_core::names::list;

use super::{Evaluated, Study};
use crate::Summary;
use crate::contrast::{Contrast, Matched};
use crate::number::{counted, fixed, signed};

/// Correct answers that the table's diversity is compared at.
const CORRECT: usize = 4;

/// The legend of the columns of [`rows`].
pub const LEGEND: &str = "\u{b1} is the standard deviation over seeds. distinct: number of different correct answers \
among all samples of a problem; higher accuracy raises this number too. distinct among 4 correct: the same number among \
four correct answers, as a change from the base, on the problems where the base and every model of the table have four \
under every seed. KL(p*): KL(p* || model) in nats, \
on the base's correct samples.";

/// The header over [`rows`].
pub fn header(study: &Study, evaluated: &Evaluated) -> Vec<String> {
    let mut header = vec!["objective".to_owned()];
    header.extend(has_greedy(evaluated).then(|| "greedy".to_owned()));
    header.extend(study.ks.iter().map(|k| format!("pass@{k}")));
    header.push("distinct".into());
    header.push(matched_title(evaluated));
    header.extend(has_kl(evaluated).then(|| "KL(p*)".to_owned()));
    header
}

/// [`rows`] under their header.
pub fn with_header(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    [vec![header(study, evaluated)], rows(study, evaluated)].concat()
}

/// Rows under their header as a table in Markdown, with numbers to the right of the first column; nothing for no rows.
pub fn markdown(rows: &[Vec<String>]) -> String {
    let Some((header, rows)) = rows.split_first() else { return String::new() };
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| display::markdown(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|---|{}\n", "--:|".repeat(header.len() - 1));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}{rows}", line(header))
}

/// The column of diversity at equal numbers of correct answers: on how many problems.
pub(super) fn matched_title(evaluated: &Evaluated) -> String {
    match evaluated.contrasts.iter().find_map(|(_, contrast)| matched(contrast)) {
        Some(matched) => format!(
            "distinct among {CORRECT} correct, change from base ({})",
            counted(matched.problems, "problem")
        ),
        None => format!("distinct among {CORRECT} correct (too few problems)"),
    }
}

pub(super) fn matched(contrast: &Contrast) -> Option<&Matched> {
    contrast.matched.iter().find(|matched| matched.right == CORRECT)
}

fn has_kl(evaluated: &Evaluated) -> bool {
    evaluated.base.summary.kl_pstar.is_some()
}

pub(super) fn has_greedy(evaluated: &Evaluated) -> bool {
    evaluated.base.summary.greedy.is_some()
}

/// The mean, and where there are several values their standard deviation.
pub fn with_spread(values: &[f64], digits: usize) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return fixed(mean, digits);
    }
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    let spread = format!("{:.digits$}", (squares / (count - 1.0)).sqrt());
    format!("{} \u{b1}{}", fixed(mean, digits), spread.trim_start_matches('0'))
}

/// Digits after the point, and the value of a run.
type Number = (usize, Box<dyn Fn(&Summary) -> f64>);

/// The numbers of a set's table, each as one value a run.
fn numbers(study: &Study, evaluated: &Evaluated) -> Vec<Number> {
    let largest = study.largest();
    let mut all: Vec<Number> = Vec::new();
    if has_greedy(evaluated) {
        all.push((3, Box::new(|s| s.greedy.map_or(f64::NAN, |greedy| greedy.value))));
    }
    for k in study.ks.clone() {
        all.push((3, Box::new(move |s| s.pass_at_k.get(&k).map_or(f64::NAN, |e| e.value))));
    }
    let distinct = move |s: &Summary| s.unique_correct.get(&largest).map_or(f64::NAN, |e| e.value);
    all.push((2, Box::new(distinct)));
    all
}

/// The rows of a set's table, the base first.
pub fn rows(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    let numbers = numbers(study, evaluated);
    let cells = |name: &str, all: &[&Summary], contrast: Option<&Contrast>| {
        let mut row = vec![name.to_owned()];
        for (digits, number) in &numbers {
            row.push(with_spread(&all.iter().map(|s| number(s)).collect::<Vec<_>>(), *digits));
        }
        let matched = contrast.and_then(matched);
        row.push(matched.map_or(String::new(), |at| signed(at.change.value, 2)));
        if has_kl(evaluated) {
            let kl = |s: &&Summary| s.kl_pstar.map_or(f64::NAN, |kl| kl.value);
            row.push(with_spread(&all.iter().map(kl).collect::<Vec<_>>(), 2));
        }
        row
    };
    let mut rows = vec![cells("base", &[&evaluated.base.summary], None)];
    for (label, contrast) in &evaluated.contrasts {
        let all: Vec<&Summary> =
            evaluated.runs_of(label).map(|run| &run.measured.summary).collect();
        rows.push(cells(label, &all, Some(contrast)));
    }
    rows
}

/// The legend of the columns of [`budgets`].
pub const BUDGET_LEGEND: &str = "Means over seeds. gradients: number of completions with a backward pass; gradients of \
stored: number of stored completions of the base among them. seconds: duration of the steps on the machine that ran them.";

/// How much of everything each objective was given, mean over seeds: what is matched, and what is not.
pub fn budgets(study: &Study) -> Vec<Vec<String>> {
    let header: [&str; 8] =
        list("objective|completions|tokens|steps|updates|gradients|gradients of stored|seconds");
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for label in study.labels() {
        let runs = || study.training.iter().filter(|run| run.objective == label);
        let mean = |value: fn(&super::Training) -> f64| {
            format!("{:.0}", runs().map(value).sum::<f64>() / runs().count().max(1) as f64)
        };
        rows.push(vec![
            label.to_owned(),
            mean(|run| run.completions as f64),
            mean(|run| run.tokens as f64),
            mean(|run| run.steps as f64),
            mean(|run| run.updates as f64),
            mean(|run| run.gradients as f64),
            mean(|run| run.rehearsed as f64),
            mean(|run| run.seconds),
        ]);
    }
    rows
}
