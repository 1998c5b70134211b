//! Problems of a task as JSON objects in the shape of reasoning-gym: `question`, `answer` and `metadata`.
//!
//! `metadata.source_dataset` is `tealight/NAME`, since reasoning-gym has tasks of the same names in other forms. The
//! statement is in the metadata, so that answers can be verified when the file is read again: `answer` is one of many.

use serde_json::{Value, json};

use super::Kind;
use super::knobs::InstanceSpec;
use crate::Problem;

/// The prefix of a task's name in `source_dataset`.
pub const PREFIX: &str = "tealight/";

/// A problem in reasoning-gym's shape; `index` is its place in the file.
pub fn row(kind: &Kind, wanted: &InstanceSpec, problem: &Problem, index: usize) -> Value {
    let difficulty: serde_json::Map<String, Value> =
        kind.knobs.iter().zip(&wanted.knobs).map(|(k, v)| (k.letter.into(), (*v).into())).collect();
    json!({
        "question": problem.prompt.plain(),
        "answer": problem.solution,
        "metadata": {
            "source_dataset": format!("{PREFIX}{}", kind.name),
            "source_index": index,
            "statement": problem.answer,
            "total": problem.total,
            "difficulty": difficulty,
        },
    })
}
