//! Every model of a study against every other, prompt by prompt.

use super::{Evaluated, Study};
use crate::compare::paired;
use crate::pass_at_k::pass_at_k;

/// A matrix as rows of cells, names first: row minus column, of Pass@1 below the diagonal and of the
/// largest Pass@k above it, by paired bootstrap over prompts; a star marks p below 0.05. Seeds are
/// averaged within each prompt.
pub fn pairs(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    let largest = study.ks.iter().max().copied().unwrap_or(study.n);
    let mut names = vec!["base"];
    names.extend(study.objectives());
    let values = |k: usize| -> Vec<Vec<f64>> {
        let of = |correct: &[usize]| -> Vec<f64> {
            correct.iter().map(|correct| pass_at_k(study.n, *correct, k)).collect()
        };
        let mut all = vec![of(&evaluated.base_correct)];
        for objective in study.objectives() {
            let runs: Vec<Vec<f64>> =
                evaluated.of(objective).map(|tuned| of(&tuned.correct)).collect();
            let mean = |problem: usize| {
                runs.iter().map(|run| run[problem]).sum::<f64>() / runs.len() as f64
            };
            all.push((0..evaluated.base_correct.len()).map(mean).collect());
        }
        all
    };
    let (below, above) = (values(1), values(largest));
    let cell = |row: usize, column: usize| {
        let values = match row.cmp(&column) {
            std::cmp::Ordering::Equal => return String::new(),
            std::cmp::Ordering::Greater => &below,
            std::cmp::Ordering::Less => &above,
        };
        paired(&values[row], &values[column]).to_string()
    };
    let mut rows =
        vec![[vec![String::new()], names.iter().map(ToString::to_string).collect()].concat()];
    for (row, name) in names.iter().enumerate() {
        let cells = (0..names.len()).map(|column| cell(row, column)).collect();
        rows.push([vec![name.to_string()], cells].concat());
    }
    rows
}
