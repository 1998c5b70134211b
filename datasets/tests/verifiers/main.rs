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

use tealight_core::Prompt;
use tealight_datasets::{Problem, Verdict};

fn problem(gold: &str) -> Problem {
    Problem::new("p", Prompt::Text("?".into()), gold)
}

/// Why a completion was not judged.
#[cfg(unix)]
fn unjudged(verdict: Verdict) -> String {
    match verdict {
        Verdict::Unjudged { why, .. } => why,
        other => panic!("{other:?}"),
    }
}
