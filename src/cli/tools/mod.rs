//! Commands about this machine and this program.

pub(super) mod bench;
pub(super) mod doctor;
pub(super) mod objectives;
pub(super) mod tasks;
