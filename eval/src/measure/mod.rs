//! The measures, one file a family: from the counts of one problem to a number.
//!
//! To add a measure, add a function here and a field of [`Summary`](crate::Summary).

pub mod hill;
pub mod pass_at_k;
pub mod rarefaction;
pub mod votes;
