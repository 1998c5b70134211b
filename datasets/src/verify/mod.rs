//! Ways of checking a completion, one file each, and how they are named.
//!
//! To add one, write a file with a [`Verifier`] and a row of [`VERIFIERS`].

mod classes;
pub mod countdown;
mod exact;
mod expression;
pub mod math;
mod numeric;
mod pattern;
pub(crate) mod program;
mod python;
pub mod sql;

use std::sync::Arc;

use crate::{DataError, Result, Verifier, task};
use tealight_core::display::{one_spaced, shortened};
use tealight_core::similar::nearest;

pub(crate) use classes::WithClasses;
pub use exact::Exact;
pub use expression::{Expression, Operator};
pub use numeric::Numeric;
pub use pattern::Pattern;
pub use program::Program;
pub use python::group_function;

/// What a verifier reads besides the completion and the gold answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// Files that its argument or the dataset names.
    Files,
    /// A program that its argument names, which it runs.
    Program,
}

/// A verifier of [`VERIFIERS`].
pub struct VerifierSpec {
    /// The name, before a colon.
    pub name: &'static str,
    /// The specifications that it takes, each with its meaning; errors list the first.
    pub forms: &'static [(&'static str, &'static str)],
    /// What it reads.
    pub reads: Reads,
    open: fn(&Request<'_>) -> Opened,
}

/// A specification that is to be opened.
struct Request<'a> {
    spec: &'a str,
    argument: &'a str,
    /// Smallest reward of a correct completion.
    threshold: Option<f64>,
}

/// A verifier, or why its argument is refused.
type Opened = std::result::Result<Arc<dyn Verifier>, String>;

impl Request<'_> {
    /// A verifier that takes no argument.
    fn plain(&self, verifier: impl Verifier + 'static) -> Opened {
        match self.argument {
            "" => Ok(Arc::new(verifier)),
            argument => {
                let name = self.spec.split(':').next().unwrap_or_default();
                Err(format!("`{name}` takes no argument `{argument}`"))
            }
        }
    }

    /// A verifier that compares the results of queries.
    fn sql(&self) -> Opened {
        let (compare, folder) = sql::named(self.spec).unwrap_or_default();
        let over = folder.map_or_else(sql::Sql::from_scripts, sql::Sql::in_folder);
        Ok(Arc::new(over.comparing(compare)))
    }
}

/// Every verifier but those of [`task::TASKS`].
pub const VERIFIERS: [VerifierSpec; 10] = [
    VerifierSpec {
        name: "math",
        forms: &[
            ("math", "mathematics, anywhere in the completion"),
            ("math:strict", "mathematics in a box, a tag, or after `the answer is` or ####"),
        ],
        reads: Reads::Nothing,
        open: |request| match request.argument {
            "strict" => Ok(Arc::new(math::Math { mode: math::Mode::Strict })),
            _ => request.plain(math::Math::default()),
        },
    },
    VerifierSpec {
        name: "exact",
        forms: &[("exact", "the whole completion is the gold text; exact:ignore-case")],
        reads: Reads::Nothing,
        open: |request| match request.argument {
            "ignore-case" => Ok(Arc::new(Exact { ignores_case: true })),
            _ => request.plain(Exact { ignores_case: false }),
        },
    },
    VerifierSpec {
        name: "regex",
        forms: &[("regex:PATTERN", "the pattern's last match, or the match's first group")],
        reads: Reads::Nothing,
        open: |request| Ok(Arc::new(Pattern::new(request.argument)?)),
    },
    VerifierSpec {
        name: "numeric",
        forms: &[("numeric", "a number; numeric:rel=1e-4,abs=0 sets the tolerance")],
        reads: Reads::Nothing,
        open: |request| Ok(Arc::new(Numeric::new(request.argument)?)),
    },
    VerifierSpec {
        name: "sql",
        forms: &[("sql:FOLDER", "a query, run on FOLDER/ID/ID.sqlite: the same columns and rows")],
        reads: Reads::Files,
        open: |request| match request.argument {
            "" => Err("name the folder of the databases, as in sql:spider/database".into()),
            _ => request.sql(),
        },
    },
    VerifierSpec {
        name: "sql-bird",
        forms: &[(
            "sql-bird",
            "a query, compared as in BIRD's script, with databases beside the data\n\
             or in sql-bird:FOLDER",
        )],
        reads: Reads::Files,
        open: |request| request.sql(),
    },
    VerifierSpec {
        name: "sql-spider",
        forms: &[("sql-spider", "the same, compared as in Spider's script; sql-spider:FOLDER")],
        reads: Reads::Files,
        open: |request| request.sql(),
    },
    VerifierSpec {
        name: "program",
        forms: &[("program:COMMAND", "a program with JSON lines; program:timeout=5:COMMAND")],
        reads: Reads::Program,
        open: |request| {
            Ok(Arc::new(Program::new(request.argument)?.from_reward(request.threshold)))
        },
    },
    VerifierSpec {
        name: "python",
        forms: &[(
            "python:FILE.py:FUNCTION",
            "a function of a gold answer and a completion, in separate processes;\n\
             python:timeout=5:FILE.py:FUNCTION",
        )],
        reads: Reads::Program,
        open: |request| {
            Ok(Arc::new(python::open(request.argument, "verdicts")?.from_reward(request.threshold)))
        },
    },
    VerifierSpec {
        name: "countdown",
        forms: &[
            (
                "countdown",
                "an expression that uses each given number once, anywhere in the completion",
            ),
            (
                "countdown:strict",
                "the same in a box, a tag, after `the answer is` or ####, or alone",
            ),
        ],
        reads: Reads::Nothing,
        open: |request| match request.argument {
            "strict" => Ok(Arc::new(countdown::Countdown { mode: math::Mode::Strict })),
            _ => request.plain(countdown::Countdown::default()),
        },
    },
];

/// Width of the column of specifications in [`help`].
const WIDTH: usize = 18;

/// The specifications that [`open`] reads with their meanings, a line each, for `--help`.
pub fn help() -> String {
    let forms = VERIFIERS.iter().flat_map(|row| row.forms).copied();
    let all = forms.chain([("TASK", "a task of `tealight tasks`, such as colouring")]);
    let line = |(form, meaning): (&str, &str)| {
        let meaning = meaning.replace('\n', &format!("\n{:1$}", "", WIDTH + 3));
        format!("  {form:<WIDTH$} {meaning}\n")
    };
    all.map(line).collect()
}

/// What the verifier that `spec` names reads; `None` where there is none of that name.
pub fn reads(spec: &str) -> Option<Reads> {
    let name = spec.split(':').next().unwrap_or_default();
    let row = VERIFIERS.iter().find(|row| row.name == name);
    row.map(|row| row.reads).or_else(|| task::find(name).map(|_| Reads::Nothing))
}

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
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let request = Request { spec, argument, threshold };
    let row = VERIFIERS.iter().find(|row| row.name == name);
    let opened = match (row, task::find(name)) {
        (Some(row), _) => (row.open)(&request),
        (None, Some(kind)) => request.plain(task::judge::Judge(kind)),
        (None, None) => Err(unknown(name)),
    };
    opened.map_err(|what| DataError::Verifier { spec: spec.into(), what })
}

/// The message about a name that no verifier has.
fn unknown(name: &str) -> String {
    let tasks = task::TASKS.iter().map(|kind| kind.name);
    if let Some(meant) = nearest(name, VERIFIERS.iter().map(|row| row.name).chain(tasks)) {
        return format!("not known; did you mean `{meant}`?");
    }
    let forms: Vec<&str> = VERIFIERS.iter().map(|row| row.forms[0].0).collect();
    format!("not known; choose {} or a task that `tealight tasks` lists", forms.join(", "))
}

/// The last `bytes` of a text, from a character on.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// A text to be shown: its first 64 characters.
pub(crate) fn short(text: &str) -> String {
    shortened(text, 64)
}

/// The class of a completion of which nothing but its text is known: the text with white space folded. Of a long one it
/// is the beginning, so that a person sees what it is, with a hash of all of it (FNV-1a, the same for ever).
pub(crate) fn text_class(text: &str) -> String {
    /// Most characters of a text that is its own class.
    const MAX: usize = 160;
    let text = one_spaced(text);
    match text.char_indices().nth(MAX) {
        None => text,
        Some((end, _)) => {
            format!("{}... (text {:016x})", &text[..end], tealight_core::fnv(text.bytes()))
        }
    }
}
