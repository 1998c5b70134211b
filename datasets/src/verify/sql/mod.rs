//! SQL: a query is correct when its result is the gold query's on the problem's SQLite database.
//!
//! Rows are compared by a [`Compare`]: our own strict rule, Spider's or BIRD's; numbers by value, texts as they
//! are. The prediction runs read-only under a budget of steps (see `database`). A statement that is malformed or
//! forbidden is wrong, with the reason; one that is too costly is not judged. The class of a right query is its
//! normal form (see [`canonical`]).
//!
//! The problem's [`Database`] is the database: the name of a file in the verifier's folder or, in tests and fuzzing,
//! the script that builds it.

mod allowed;
mod budget;
mod columns;
mod compare;
mod database;
mod functions;
mod golds;
mod query;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Database, Problem, Verdict, Verifier};

pub use compare::Compare;
pub use database::{Cell, Databases, QueryError, Rows, schema};
use golds::{Golds, Outcome};
pub use query::{canonical, extract, orders};

/// Checks queries by running them.
pub struct Sql {
    databases: Databases,
    compare: Compare,
    golds: Golds,
}

impl Sql {
    /// Databases are `FOLDER/NAME/NAME.sqlite` or `FOLDER/NAME.sqlite`.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self::over(Databases::in_folder(folder))
    }

    /// Databases are built in memory from the problems' scripts.
    pub fn from_scripts() -> Self {
        Self::over(Databases::from_scripts())
    }

    fn over(databases: Databases) -> Self {
        Self { databases, compare: Compare::Strict, golds: Golds::default() }
    }

    /// The same, comparing results by another rule.
    #[must_use]
    pub fn comparing(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    fn gold(&self, database: &Database, query: &str) -> Outcome {
        let key = (String::from(database.clone()), query.to_owned());
        self.golds.get(key, || self.databases.run(database, query).map(Arc::new))
    }
}

impl Verifier for Sql {
    fn name(&self) -> &'static str {
        self.compare.name()
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let Some(query) = extract(completion) else { return Verdict::NoAnswer };
        let Some(database) = &problem.context else {
            return Verdict::unjudged("the problem names no database".into());
        };
        let gold = match self.gold(database, &problem.answer) {
            Ok(gold) => gold,
            Err(why) => return Verdict::unjudged(format!("the gold query: {why}")),
        };
        let rows = self.databases.run(database, query);
        match rows.and_then(|rows| self.compare.differs(&problem.answer, &gold, &rows)) {
            Err(QueryError::Invalid(why)) | Ok(Some(why)) => Verdict::because(why),
            Err(QueryError::TooCostly(why)) => Verdict::Unjudged { why, is_too_costly: true },
            Ok(None) => Verdict::correct(&canonical(query), "rows"),
        }
    }
}

/// The comparison and folder that `sql`, `sql-bird` or `sql-spider` name, each with or without `:FOLDER`; none of
/// another verifier.
pub fn named(spec: &str) -> Option<(Compare, Option<PathBuf>)> {
    let (name, folder) = spec.split_once(':').unwrap_or((spec, ""));
    let all = [Compare::Strict, Compare::Bird, Compare::Spider];
    let compare = all.into_iter().find(|compare| compare.name() == name)?;
    Some((compare, (!folder.is_empty()).then(|| folder.into())))
}

/// The schema of a database in a folder, as `CREATE TABLE` statements.
///
/// # Errors
/// No such database, or a file that is none; the message names it.
pub fn schema_of(folder: &Path, name: &str) -> Result<String, String> {
    schema(&database::open(folder, name)?)
}
