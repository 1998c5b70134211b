//! Commands that make models.

pub(super) mod export;
mod foreign;
pub(super) mod presample;
mod resume;
pub(super) mod sft;
pub(super) mod study;
pub(super) mod train;
