//! Commands about objectives rather than models.

pub(super) mod beta;
pub(super) mod gap;
pub(super) mod lab;
pub(super) mod prove;
