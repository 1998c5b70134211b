//! Errors in a dataset, each with the file, the line and the fix.

use std::path::PathBuf;

use tealight_core::display::shortened;

/// Most characters of a name that are shown: a file may have given it.
const SHOWN: usize = 300;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

/// A dataset that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Neither a named source nor a file.
    #[error("dataset `{spec}`: no such file, and not a named source (there is: {known}). {fix}")]
    Unknown {
        /// The name that was given.
        spec: String,
        /// The names there are.
        known: String,
        /// The name to give instead.
        fix: String,
    },
    /// A named source has no such split.
    #[error("dataset `{name}`: no split `{split}`; choose one of {known}")]
    Split {
        /// Name of the source.
        name: &'static str,
        /// The split asked for.
        split: String,
        /// The splits there are.
        known: &'static str,
    },
    /// A generated task cannot be made as its name says.
    #[error(
        "dataset `{name}/{split}`: {what}; the parameters of {name} with their defaults: {knobs}"
    )]
    Knob {
        /// Name of the task.
        name: &'static str,
        /// The text after the slash.
        split: String,
        /// The mistake, as the end of a sentence.
        what: String,
        /// Keys that the task has, separated by commas.
        knobs: String,
    },
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A row is not what the format says.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line (JSONL, CSV) or row (JSON, Parquet), counted from 1.
        line: usize,
        /// The mistake and its fix.
        what: String,
    },
    /// The file as a whole cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The mistake and its fix.
        what: String,
    },
    /// No verifier of that name, or an argument that it does not take.
    #[error("verifier `{}`: {what}", shortened(spec, SHOWN))]
    Verifier {
        /// The name that was given.
        spec: String,
        /// The mistake and its fix.
        what: String,
    },
    /// No gold answer in it can be compared with.
    #[error(
        "dataset `{name}`: no problem can be used; the first was left out with `{answer}`: {why}"
    )]
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
        "dataset `{name}`: the id `{id}` occurs twice; give every problem an id of its own, or none"
    )]
    Duplicate {
        /// The dataset.
        name: String,
        /// Id that two problems have.
        id: String,
    },
    /// There is nothing in it.
    #[error("dataset `{name}` is empty: it holds no problem")]
    Empty {
        /// The dataset.
        name: String,
    },
}
