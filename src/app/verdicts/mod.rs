//! Verdicts on pairs of a gold answer and an answer, line by line, and audits of a verifier.

mod disputes;
mod judge;

pub use disputes::{Audit, Case, Dispute};
pub use judge::{Judge, Judged, Kind, Pair, Text, judged_by, math_line};
