//! Databases, opened read-only, and queries on them under a budget.
//!
//! The actions of a query are allowed while it is prepared: reading and calling functions, nothing else. A script that
//! makes a database may make tables and fill them, and nothing else either: a connection is guarded before anything
//! runs on it. The cost of a query is counted in steps of SQLite's machine, so that a verdict depends on the query
//! and the database alone. Time, and the memory of the whole process, have limits far above what these steps usually
//! take, for what a single step may cost: they are a net, not a rule. Functions that could slip through that net have
//! limits of their own (see `functions`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::allowed::is_allowed;
use super::budget::{Budget, STEPS_A_LOOK};
use super::functions;

use crate::Database;
use tealight_core::{names, regular};

/// Most bytes of a text or a row: what one call of a function takes grows with it.
const MAX_TEXT: i32 = 64 << 10;
/// Most rows of a result.
const MAX_ROWS: usize = 20_000;
/// Most instructions of a compiled query, up to SQLite's doubling of its buffer: nobody looks at the time between those
/// of one row. Queries of Spider and BIRD have some hundreds.
const MAX_INSTRUCTIONS: i32 = 6000;
/// Most arguments of a function.
const MAX_ARGUMENTS: i32 = 50;
/// Most bytes of a result.
const MAX_RESULT: usize = 64 << 20;
/// Bytes that a value of a result counts beside its text.
const BYTES_A_VALUE: usize = 32;
/// Most bytes that SQLite may hold in the whole process.
const MAX_HEAP: u64 = 1 << 30;
/// Connections that are kept open.
const MAX_IDLE: usize = 64;
/// A value of a result. Numbers are one kind: 1 and 1.0 are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// NULL.
    Null,
    /// A number, as its shortest decimal with up to twelve significant digits.
    Number(String),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// How many columns it has.
    pub columns: usize,
    /// The rows, in order.
    pub rows: Vec<Vec<Cell>>,
}

/// Databases by name or by script, with connections that are used again.
pub struct Databases {
    folder: Option<PathBuf>,
    idle: Mutex<HashMap<String, Vec<Guarded>>>,
}

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// It is malformed, forbidden, or there is no such database.
    Invalid(String),
    /// It costs more than a query may.
    TooCostly(String),
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid(why) | Self::TooCostly(why) => f.write_str(why),
        }
    }
}

impl From<String> for QueryError {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

/// A connection whose statements are limited.
struct Guarded {
    connection: Connection,
    budget: Arc<Budget>,
    /// The action that the last statement was not allowed.
    refused: Arc<Mutex<Option<String>>>,
}

impl Databases {
    /// Databases that lie in a folder.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder: Some(folder), idle: Mutex::default() }
    }

    /// Databases that are built from scripts.
    pub fn from_scripts() -> Self {
        Self { folder: None, idle: Mutex::default() }
    }

    /// Runs one query.
    ///
    /// # Errors
    /// The reason why it has no result, for a person to read.
    pub fn run(&self, database: &Database, query: &str) -> Result<Rows, QueryError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match (database, &self.folder) {
            (Database::File(name), Some(_)) | (Database::Script(name), None) => name,
            (Database::File(_), None) => {
                let why = "a database is named, and the verifier has no folder: use sql:FOLDER";
                return Err(QueryError::Invalid(why.into()));
            }
            (Database::Script(_), Some(_)) => {
                let why = "the problem brings its database, and the verifier has a folder of them";
                return Err(QueryError::Invalid(why.into()));
            }
        };
        let known = idle().get_mut(name).and_then(Vec::pop);
        let guarded = match known {
            Some(guarded) => guarded,
            None => match &self.folder {
                Some(folder) => Guarded::new(open(folder, name)?)?,
                None => Guarded::built(name)?,
            },
        };
        let rows = guarded.run(query);
        let mut idle = idle();
        if idle.values().map(Vec::len).sum::<usize>() >= MAX_IDLE {
            idle.clear();
        }
        idle.entry(name.clone()).or_default().push(guarded);
        rows
    }
}

/// Opens `FOLDER/NAME/NAME.sqlite` or `FOLDER/NAME.sqlite`, read-only: as a file that nothing changes, so that no locks
/// and logs are written beside it.
pub(super) fn open(folder: &Path, name: &str) -> Result<Connection, String> {
    if name.contains('/') {
        return Err(format!("`{name}` is no name of a database"));
    }
    let inside = |path: String| names::inside(folder, &path).map_err(|error| error.to_string());
    let endings = ["sqlite", "db"].into_iter();
    let paths = endings.flat_map(|e| [format!("{name}/{name}.{e}"), format!("{name}.{e}")]);
    let tried = paths.map(inside).collect::<Result<Vec<_>, _>>()?;
    let Some(path) = tried.iter().find(|path| path.is_file()) else {
        return Err(format!("{}: there is no such database", tried[0].display()));
    };
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let place = regular::own(folder, path).map_err(|error| told(&error))?.display().to_string();
    if std::fs::metadata(format!("{place}-wal")).is_ok_and(|log| log.len() > 0) {
        return Err(told(
            &"changes are in a -wal file: sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'",
        ));
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut name = place;
    if cfg!(unix) {
        flags |= OpenFlags::SQLITE_OPEN_URI;
        let path = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        name = format!("file:{path}?immutable=1");
    }
    Connection::open_with_flags(name, flags).map_err(|error| told(&error))
}

/// The statements that made the tables of a database.
pub fn schema(connection: &Connection) -> Result<String, String> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
             AND sql IS NOT NULL ORDER BY rowid",
        )?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let statements = read().map_err(|error| error.to_string())?;
    Ok(statements.iter().map(|statement| format!("{statement};")).collect::<Vec<_>>().join("\n"))
}

/// A rule for actions: the forbidden effect of an action, if it has one.
type Rule = fn(AuthAction<'_>) -> Option<String>;

impl Guarded {
    /// A connection on which queries run, and nothing else has.
    fn new(connection: Connection) -> Result<Self, QueryError> {
        let mut guarded = Self::limited(connection).map_err(|error| error.to_string())?;
        guarded.only_queries().map_err(|error| error.to_string())?;
        Ok(guarded)
    }

    /// A database in memory that a script makes, under the same limits as a query.
    fn built(script: &str) -> Result<Self, QueryError> {
        let describe = |error: String| format!("its database cannot be built: {error}");
        let connection = Connection::open_in_memory().map_err(|error| error.to_string())?;
        let mut guarded = Self::limited(connection).map_err(|error| error.to_string())?;
        guarded.allow(forbidden_in_scripts).map_err(|error| error.to_string())?;
        guarded.budget.begin();
        let done = guarded.connection.execute_batch(script).map_err(message);
        done.map_err(|error| guarded.reason(error)).map_err(|error| match error {
            QueryError::Invalid(why) => QueryError::Invalid(describe(why)),
            QueryError::TooCostly(why) => QueryError::TooCostly(describe(why)),
        })?;
        guarded.only_queries().map_err(|error| error.to_string())?;
        Ok(guarded)
    }

    fn limited(mut connection: Connection) -> rusqlite::Result<Self> {
        connection.execute_batch(&format!(
            "PRAGMA trusted_schema = 0; PRAGMA temp_store = 2; PRAGMA hard_heap_limit = {MAX_HEAP};"
        ))?;
        limit_lengths(&connection)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 64 << 10)?;
        connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, 200)?;
        connection.set_limit(Limit::SQLITE_LIMIT_FUNCTION_ARG, MAX_ARGUMENTS)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.set_limit(Limit::SQLITE_LIMIT_COLUMN, 200)?;
        let budget = Arc::new(Budget::new());
        functions::guard(&connection, &budget)?;
        let counted = budget.clone();
        connection.progress_handler(STEPS_A_LOOK, Some(move || counted.is_over()))?;
        Ok(Self { connection, budget, refused: Arc::default() })
    }

    /// From now on, queries and nothing else.
    fn only_queries(&mut self) -> rusqlite::Result<()> {
        self.connection.set_limit(Limit::SQLITE_LIMIT_VDBE_OP, MAX_INSTRUCTIONS)?;
        self.allow(forbidden_in_queries)
    }

    /// Lets a rule decide about every statement from now on.
    fn allow(&mut self, rule: Rule) -> rusqlite::Result<()> {
        let refused = self.refused.clone();
        self.connection.authorizer(Some(move |context: AuthContext<'_>| {
            let Some(what) = rule(context.action) else { return Authorization::Allow };
            *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
            Authorization::Deny
        }))
    }

    fn run(&self, query: &str) -> Result<Rows, QueryError> {
        self.budget.begin();
        let rows = self.rows(query)?;
        // The last step may have taken all that was left.
        match self.budget.excess() {
            Some(excess) => Err(QueryError::TooCostly(excess)),
            None => Ok(rows),
        }
    }

    /// The cause of a failure of the last statement.
    fn reason(&self, error: String) -> QueryError {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(what) = refused {
            return QueryError::Invalid(format!("forbidden: {what}"));
        }
        match self.budget.excess() {
            Some(excess) => QueryError::TooCostly(excess),
            // SQLite's messages at its limits of memory and of length.
            None if error.contains("out of memory") || error.contains("too big") => {
                QueryError::TooCostly(error)
            }
            None => QueryError::Invalid(error),
        }
    }

    fn rows(&self, query: &str) -> Result<Rows, QueryError> {
        let to_error = |error| self.reason(message(error));
        let mut statement = self.connection.prepare(query).map_err(to_error)?;
        if !statement.readonly() || statement.is_explain() != 0 {
            return Err(QueryError::Invalid("forbidden: anything but a query".into()));
        }
        let columns = statement.column_count();
        // REINDEX and ANALYZE are read-only where there is nothing to do.
        if columns == 0 {
            return Err(QueryError::Invalid("forbidden: anything but a query".into()));
        }
        let mut result = Rows { columns, rows: Vec::new() };
        let mut bytes = 0;
        let mut rows = statement.query([]).map_err(to_error)?;
        while let Some(row) = rows.next().map_err(to_error)? {
            if result.rows.len() == MAX_ROWS {
                return Err(QueryError::TooCostly(format!("more than {MAX_ROWS} rows")));
            }
            let cells = (0..columns)
                .map(|column| row.get_ref(column).map(cell))
                .collect::<rusqlite::Result<Vec<Cell>>>()
                .map_err(to_error)?;
            bytes += cells.iter().map(Cell::size).sum::<usize>();
            if bytes > MAX_RESULT {
                let why = format!("a result of more than {} MiB", MAX_RESULT >> 20);
                return Err(QueryError::TooCostly(why));
            }
            result.rows.push(cells);
        }
        Ok(result)
    }
}

/// Limits the texts of a connection, and the patterns of LIKE and GLOB.
pub(super) fn limit_lengths(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000)?;
    Ok(())
}

/// SQLite's message for a failure.
fn message(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::MultipleStatement => "more than one statement".to_owned(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    }
}

/// The effect of an action that no query may have; `None` for allowed actions.
fn forbidden_in_queries(action: AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => None,
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            (!is_allowed(&name)).then(|| format!("the function {name}"))
        }
        AuthAction::Attach { .. } => Some("ATTACH".into()),
        AuthAction::Pragma { pragma_name, .. } => Some(format!("PRAGMA {pragma_name}")),
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
            Some("a transaction".into())
        }
        _ => Some("anything but a query".into()),
    }
}

/// The same for a script that makes a database: plain tables and their rows.
fn forbidden_in_scripts(action: AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::CreateTable { .. } | AuthAction::CreateIndex { .. } => None,
        AuthAction::Insert { .. } | AuthAction::Transaction { .. } => None,
        // SQLite's own table of tables.
        AuthAction::Update { table_name: "sqlite_master", .. } | AuthAction::Reindex { .. } => None,
        AuthAction::Attach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Recursive
        | AuthAction::Function { .. } => forbidden_in_queries(action),
        _ => Some("anything but making and filling tables".into()),
    }
}

impl Cell {
    fn size(&self) -> usize {
        BYTES_A_VALUE
            + match self {
                Cell::Null => 0,
                Cell::Number(text) | Cell::Text(text) => text.len(),
                Cell::Blob(bytes) => bytes.len(),
            }
    }
}

impl Rows {
    /// The bytes that it counts in memory.
    pub(super) fn size(&self) -> usize {
        self.rows.iter().map(|row| BYTES_A_VALUE + row.iter().map(Cell::size).sum::<usize>()).sum()
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Number(value.to_string()),
        ValueRef::Real(value) => Cell::Number(decimal(value)),
        ValueRef::Text(bytes) => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    }
}

/// A real number to twelve significant digits, whole ones as integers: sums in another order round
/// differently in their last digits.
fn decimal(value: f64) -> String {
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        // Not -0.
        format!("{:.0}", rounded + 0.0)
    } else {
        format!("{rounded}")
    }
}
