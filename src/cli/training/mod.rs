//! Commands that make models.

pub(super) mod export;
mod foreign;
mod resume;
pub(super) mod sft;
pub(super) mod study;
pub(super) mod train;
