//! What answers the problems of an evaluation: a model of ours, one that is only sampled from, a server.

pub mod local;
pub mod remote;
pub mod sampled;
