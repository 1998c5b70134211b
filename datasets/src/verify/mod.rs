//! Ways of checking a completion, one file each, and how they are named.
//!
//! To add one, write a file with a [`Verifier`] and an arm of [`open`].

pub mod countdown;
mod exact;
mod expression;
pub mod math;
mod numeric;
mod pattern;
pub(crate) mod program;
mod python;
#[cfg_attr(target_family = "wasm", path = "sql_absent.rs")]
pub mod sql;

use std::sync::Arc;

use crate::{DataError, Result, Verifier, task};

pub use exact::Exact;
pub use expression::{Expression, Operator, ParseError};
pub use numeric::Numeric;
pub use pattern::Pattern;
pub use program::Program;

/// The specifications that [`open`] reads, for `--help`.
pub const SPECS: &str = "\
math               mathematics, anywhere in the completion
  math:strict        mathematics in a box, a tag, or after `the answer is` or ####
  exact              the whole completion is the gold text; exact:ignore-case
  regex:PATTERN      the pattern's last match, or the match's first group
  numeric            a number; numeric:rel=1e-4,abs=0 sets the tolerance
  sql:FOLDER         a query, run on FOLDER/ID/ID.sqlite: the same columns and rows
  sql-bird, sql-spider  a query, compared as in BIRD's and Spider's scripts, with
                     databases beside the data or in sql-bird:FOLDER
  program:COMMAND    a program with JSON lines; program:timeout=5:COMMAND
  python:FILE.py:FUNCTION  a function of a gold answer and a completion, in
                     separate processes; python:timeout=5:FILE.py:FUNCTION
  countdown          an expression that uses each given number once, anywhere in the
                     completion; countdown:strict in a box, a tag, after `the answer
                     is` or ####, or alone
  TASK               a task of `tealight tasks`, such as colouring";

/// Opens the verifier that `spec` names: `NAME` or `NAME:ARGUMENT`.
///
/// # Errors
/// An unknown name, or an argument that the verifier does not take.
pub fn open(spec: &str) -> Result<Arc<dyn Verifier>> {
    open_graded(spec, None)
}

/// The same, where a completion is correct whose reward is at least `threshold`; 1 unless given.
///
/// # Errors
/// An unknown name, or an argument that the verifier does not take.
pub fn open_graded(spec: &str, threshold: Option<f64>) -> Result<Arc<dyn Verifier>> {
    let refused = |what: String| DataError::Verifier { spec: spec.into(), what };
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let none = |verifier: Arc<dyn Verifier>| {
        if argument.is_empty() {
            Ok(verifier)
        } else {
            Err(refused(format!("`{name}` takes no argument `{argument}`")))
        }
    };
    match name {
        "math" if argument == "strict" => Ok(Arc::new(math::Math { mode: math::Mode::Strict })),
        "math" => none(Arc::new(math::Math::default())),
        "exact" if argument == "ignore-case" => Ok(Arc::new(Exact { ignores_case: true })),
        "exact" => none(Arc::new(Exact { ignores_case: false })),
        "regex" => Ok(Arc::new(Pattern::new(argument).map_err(refused)?)),
        "numeric" => Ok(Arc::new(Numeric::new(argument).map_err(refused)?)),
        "program" => {
            Ok(Arc::new(Program::new(argument).map_err(refused)?.from_reward(threshold)))
        },
        "python" => {
            Ok(Arc::new(python::open(argument).map_err(refused)?.from_reward(threshold)))
        },
        "sql" if argument.is_empty() => {
            Err(refused("name the folder of the databases, as in sql:spider/database".into()))
        }
        "sql" | "sql-bird" | "sql-spider" => {
            let (compare, folder) = sql::named(spec).unwrap_or_default();
            let over = folder.map_or_else(sql::Sql::from_scripts, sql::Sql::in_folder);
            Ok(Arc::new(over.comparing(compare)))
        }
        "countdown" if argument == "strict" => {
            Ok(Arc::new(countdown::Countdown { mode: countdown::Mode::Strict }))
        }
        "countdown" => none(Arc::new(countdown::Countdown::default())),
        _ => match task::find(name) {
            Some(kind) => none(Arc::new(task::judge::Judge(kind))),
            None => Err(refused(
                "there is none of that name; choose math, exact, regex:PATTERN, numeric, sql:FOLDER, \
                 sql-bird, sql-spider, program:COMMAND, python:FILE.py:FUNCTION, countdown or a task that `tealight tasks` lists"
                    .into(),
            )),
        },
    }
}

/// The last `bytes` of a text, from a character on.
fn tail(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// A text to be shown: its first 64 characters.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A hash of a text with white space folded, in hexadecimal (FNV-1a, the same for ever).
pub(crate) fn fingerprint(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    format!("{:016x}", crate::fnv(words.join(" ").bytes()))
}
