//! Commands that make models.

mod foreign;
pub(super) mod resume;
pub(super) mod sft;
pub(super) mod study;
pub(super) mod train;
