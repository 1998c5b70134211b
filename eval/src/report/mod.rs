//! Studies and evaluations as data, as rows of tables, and as pages: data for the viewer that `web/` builds.

mod answer_place;
pub mod audit_answers;
pub mod audit_page;
mod audit_plain;
pub mod contrast;
pub mod curve;
pub mod differences;
mod evaluation;
mod evaluation_tables;
mod greedy;
mod listing;
mod page;
pub mod recipes;
mod samples;
mod steps;
mod stored;
mod study;
mod study_page;
pub mod tables;
mod titles;
mod training;
pub mod view;

pub use evaluation::{warnings, write, write_indexed};
pub use greedy::greedy_warnings;
pub use page::{document_page, shell_argument};
pub use study::{Evaluated, Measured, Study, Training, TrainingPoint, Tuned};
pub use study_page::{write_study, write_training};

/// The k that curves are drawn at: `ks` and the powers of two up to `n`, in order.
pub fn grid(ks: &[usize], n: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1_usize), |k| k.checked_mul(2)).take_while(|k| *k <= n);
    let mut grid: Vec<usize> = powers.chain(ks.iter().copied()).collect();
    grid.sort_unstable();
    grid.dedup();
    grid
}
