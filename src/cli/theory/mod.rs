//! Commands about objectives rather than models.

pub(super) mod gap;
pub(super) mod lab;
