//! The verifier of SQL where there is no SQLite: in WebAssembly. Nothing is judged, and every verdict says why.

use std::path::{Path, PathBuf};

use crate::{Problem, Verdict, Verifier};

/// Why nothing is judged.
const ABSENT: &str = "this build has no SQLite";

/// The rule by which a query's result would be compared with the gold query's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compare;

/// Judges no query.
pub struct Sql;

impl Sql {
    /// Databases in a folder.
    pub fn in_folder(_: PathBuf) -> Self {
        Self
    }

    /// Databases of the problems' scripts.
    pub fn from_scripts() -> Self {
        Self
    }

    /// The same, comparing results by another rule.
    #[must_use]
    pub fn comparing(self, _: Compare) -> Self {
        self
    }
}

impl Verifier for Sql {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn verify(&self, _: &Problem, _: &str) -> Verdict {
        Verdict::unjudged(ABSENT.into())
    }
}

/// The comparison and folder that `sql`, `sql-bird` or `sql-spider` name; none of another verifier.
pub fn named(spec: &str) -> Option<(Compare, Option<PathBuf>)> {
    let (name, folder) = spec.split_once(':').unwrap_or((spec, ""));
    let is_sql = ["sql", "sql-bird", "sql-spider"].contains(&name);
    is_sql.then(|| (Compare, (!folder.is_empty()).then(|| folder.into())))
}

/// The schema of a database in a folder.
///
/// # Errors
/// Always.
pub fn schema_of(_: &Path, _: &str) -> Result<String, String> {
    Err(ABSENT.into())
}
