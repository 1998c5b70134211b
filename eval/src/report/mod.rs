//! Studies and evaluations as data, as rows of tables, and as pages.

mod browser;
pub mod chart;
pub mod contrast;
mod evaluation;
mod forgetting;
pub mod front;
mod front_chart;
pub mod ledger;
pub mod levels;
mod live;
mod page;
pub mod sheet;
mod study;
pub mod tables;

pub use evaluation::write;
pub use forgetting::{Forgetting, Forgotten};
pub use live::Live;
pub use page::{html, live_page};
pub use study::{
    Evaluated, EvaluationFilters, HeldOut, Measured, Study, Training, TrainingPoint, Tuned,
};

/// The k that curves are drawn at: `ks` and the powers of two up to `n`, in order.
pub fn grid(ks: &[usize], n: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |k| Some(k * 2)).take_while(|k| *k <= n);
    let mut grid: Vec<usize> = powers.chain(ks.iter().copied()).collect();
    grid.sort_unstable();
    grid.dedup();
    grid
}
