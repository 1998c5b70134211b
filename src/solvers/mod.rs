//! Sources of answers for an evaluation: a model of ours, one that is only sampled from, a server.

pub mod local;
pub mod remote;
pub mod sampled;
