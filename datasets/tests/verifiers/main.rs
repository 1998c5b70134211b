//! The verifiers as their users see them.

#[cfg(unix)]
mod advantages;
mod costly_queries;
mod countdown;
mod expressions;
mod mathematics;
#[cfg(unix)]
mod programs;
#[cfg(unix)]
mod python;
mod solutions;
mod specifications;
mod sql;
