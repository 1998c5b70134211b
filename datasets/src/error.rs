//! What can be wrong with a dataset, said with the file, the line and the fix.

use std::path::PathBuf;

use crate::suite::{self, SUITES};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

/// A dataset that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Neither a named source nor a file.
    #[error(
        "dataset `{spec}`: no such file, and not a named source (there is: {known}). {}",
        instead(spec)
    )]
    Unknown {
        /// What was asked for.
        spec: String,
        /// The names there are.
        known: String,
    },
    /// A named source has no such split.
    #[error("dataset `{name}`: no split `{split}`; choose one of {known}")]
    Split {
        /// The source.
        name: &'static str,
        /// The split asked for.
        split: String,
        /// The splits there are.
        known: &'static str,
    },
    /// A generated task cannot be made as its name says.
    #[error("dataset `{name}/{split}`: {what}; the knobs of {name} with their defaults: {knobs}")]
    Knob {
        /// The task.
        name: &'static str,
        /// What follows the slash.
        split: String,
        /// What is wrong.
        what: String,
        /// The knobs there are.
        knobs: String,
    },
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A row is not what the format says.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line (JSONL, CSV) or row (JSON, Parquet), counted from 1.
        line: usize,
        /// What is wrong and how to fix it.
        what: String,
    },
    /// The file as a whole cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to fix it.
        what: String,
    },
    /// No verifier of that name, or an argument that it does not take.
    #[error("verifier `{spec}`: {what}")]
    Verifier {
        /// What was asked for.
        spec: String,
        /// What is wrong and how to fix it.
        what: String,
    },
    /// No gold answer in it can be compared with.
    #[error("dataset `{name}`: no gold answer can be read; the first is `{answer}`: {why}")]
    Unusable {
        /// The dataset.
        name: String,
        /// The first gold answer.
        answer: String,
        /// Why it cannot be read.
        why: String,
    },
    /// Two problems have one id, so their samples could not be told apart.
    #[error(
        "dataset `{name}`: the id `{id}` stands there twice; give every problem an id of its own, or none"
    )]
    Duplicate {
        /// The dataset.
        name: String,
        /// The id.
        id: String,
    },
    /// There is nothing in it.
    #[error("dataset `{name}` is empty: it holds no problem")]
    Empty {
        /// The dataset.
        name: String,
    },
}

/// What to give in place of a dataset that is not there.
fn instead(spec: &str) -> String {
    let suite = SUITES.iter().find(|(name, _)| *name == spec);
    match suite.and_then(|_| suite::open(spec).ok()) {
        Some(sets) => {
            let sets: Vec<&str> = sets.iter().map(|set| set.dataset.as_str()).collect();
            format!(
                "`{spec}` is a suite: give --suite {spec} to eval, --test-suite {spec} to study, or its dataset, {}",
                sets.join(", ")
            )
        }
        None => {
            "Give the path of a .jsonl, .json, .csv or .parquet file, or a dataset on the Hub, OWNER/NAME:SPLIT"
                .into()
        }
    }
}
