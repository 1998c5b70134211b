//! Verdicts for other programs: pairs of a gold answer and an answer, judged line by line or by HTTP.

mod addresses;
mod audit;
mod connection;
mod judge;
mod metrics;
mod serve;
mod service;
mod stream;

pub use audit::{Audit, Case, Dispute};
pub use judge::{Judge, Judged, Kind, Pair, Text, judged_by, math_line};
pub(crate) use serve::asks_this_machine;
pub use serve::serve;
