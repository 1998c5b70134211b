//! Commands that look at what models say.

pub(super) mod audit;
pub(super) mod compare;
pub(super) mod eval;
pub(super) mod generate;
pub(super) mod report;
pub(super) mod verify;
