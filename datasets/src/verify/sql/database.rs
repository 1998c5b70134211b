//! Databases, opened read-only, and queries on them under a budget.
//!
//! What a query may do is decided while it is prepared: reading and calling functions, nothing else.
//! What it may cost is counted in steps of SQLite's machine, not in time, so a verdict depends on the
//! query and the database alone. The memory limit is one for the whole process and far above what the
//! other limits allow one query: it is a net, not a rule.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::names;

/// Steps between two looks at the budget.
const STEPS_A_LOOK: i32 = 1000;
/// Looks after which a query is stopped: five million steps, some tenths of a second.
const MAX_LOOKS: u32 = 5000;
/// Most rows of a result.
const MAX_ROWS: usize = 20_000;
/// Most bytes of a text, and of all texts of a result.
const MAX_BYTES: usize = 1 << 20;
/// Most bytes that SQLite may hold in the whole process.
const MAX_HEAP: u64 = 1 << 30;
/// Connections that are kept open.
const MAX_IDLE: usize = 64;
/// Functions that could leave the database, never give the same twice, or serve only to fill memory.
const FORBIDDEN: [&str; 8] = [
    "load_extension",
    "fts3_tokenizer",
    "readfile",
    "writefile",
    "random",
    "randomblob",
    "zeroblob",
    "sqlite_log",
];

/// A value of a result. Numbers are one kind: 1 and 1.0 are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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

/// A connection whose queries are limited.
struct Guarded {
    connection: Connection,
    looks: Arc<AtomicU32>,
    /// What the last query was not allowed to do.
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
    pub fn run(&self, database: &str, query: &str) -> Result<Rows, String> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().get_mut(database).and_then(Vec::pop);
        let guarded = match known {
            Some(guarded) => guarded,
            None => Guarded::new(self.open(database)?)?,
        };
        let rows = guarded.run(query);
        let mut idle = idle();
        if idle.values().map(Vec::len).sum::<usize>() >= MAX_IDLE {
            idle.clear();
        }
        idle.entry(database.to_owned()).or_default().push(guarded);
        rows
    }

    fn open(&self, database: &str) -> Result<Connection, String> {
        match &self.folder {
            Some(folder) => open(folder, database),
            None => {
                let built = Connection::open_in_memory().and_then(|connection| {
                    connection.execute_batch(database)?;
                    Ok(connection)
                });
                built.map_err(|error| format!("its database cannot be built: {error}"))
            }
        }
    }
}

/// Opens `FOLDER/NAME/NAME.sqlite` or `FOLDER/NAME.sqlite`, read-only.
pub(super) fn open(folder: &Path, name: &str) -> Result<Connection, String> {
    if name.contains('/') {
        return Err(format!("`{name}` is no name of a database"));
    }
    let inside = |path: String| names::inside(folder, &path).map_err(|error| error.to_string());
    let mut tried = Vec::new();
    for ending in ["sqlite", "db"] {
        tried.push(inside(format!("{name}/{name}.{ending}"))?);
        tried.push(inside(format!("{name}.{ending}"))?);
    }
    let Some(path) = tried.iter().find(|path| path.is_file()) else {
        return Err(format!("{}: there is no such database", tried[0].display()));
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| format!("{}: {error}", path.display()))
}

/// The statements that made the tables of a database.
///
/// # Errors
/// A file that is no database.
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

impl Guarded {
    fn new(mut connection: Connection) -> Result<Self, String> {
        let looks = Arc::new(AtomicU32::new(0));
        let refused = Arc::new(Mutex::new(None));
        let mut prepare = || -> rusqlite::Result<()> {
            connection.execute_batch(&format!(
                "PRAGMA query_only = 1; PRAGMA trusted_schema = 0; PRAGMA temp_store = 2; \
                 PRAGMA hard_heap_limit = {MAX_HEAP};"
            ))?;
            let bytes = i32::try_from(MAX_BYTES).unwrap_or(i32::MAX);
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)?;
            connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 64 << 10)?;
            connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, 200)?;
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
            connection.set_limit(Limit::SQLITE_LIMIT_COLUMN, 200)?;
            let counted = looks.clone();
            connection.progress_handler(
                STEPS_A_LOOK,
                Some(move || counted.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKS),
            )?;
            let said = refused.clone();
            connection.authorizer(Some(move |context: AuthContext<'_>| {
                let Some(what) = forbidden(context.action) else { return Authorization::Allow };
                *said.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
                Authorization::Deny
            }))
        };
        prepare().map_err(|error| error.to_string())?;
        Ok(Self { connection, looks, refused })
    }

    fn run(&self, query: &str) -> Result<Rows, String> {
        self.looks.store(0, Ordering::Relaxed);
        let refused = || self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused() = None;
        self.rows(query).map_err(|error| {
            if let Some(what) = refused().take() {
                return format!("forbidden: {what}");
            }
            if self.looks.load(Ordering::Relaxed) > MAX_LOOKS {
                return format!("stopped after {} steps", MAX_LOOKS * STEPS_A_LOOK as u32);
            }
            error
        })
    }

    fn rows(&self, query: &str) -> Result<Rows, String> {
        let said = |error: rusqlite::Error| match error {
            rusqlite::Error::MultipleStatement => "more than one statement".to_owned(),
            rusqlite::Error::SqliteFailure(_, Some(message)) => message,
            rusqlite::Error::SqlInputError { msg, .. } => msg,
            other => other.to_string(),
        };
        let mut statement = self.connection.prepare(query).map_err(said)?;
        if !statement.readonly() || statement.is_explain() != 0 {
            return Err("forbidden: anything but a query".into());
        }
        let columns = statement.column_count();
        let mut found = Rows { columns, rows: Vec::new() };
        let mut bytes = 0;
        let mut rows = statement.query([]).map_err(said)?;
        while let Some(row) = rows.next().map_err(said)? {
            if found.rows.len() == MAX_ROWS {
                return Err(format!("more than {MAX_ROWS} rows"));
            }
            let cells = (0..columns)
                .map(|column| row.get_ref(column).map(cell))
                .collect::<rusqlite::Result<Vec<Cell>>>()
                .map_err(said)?;
            bytes += cells.iter().map(Cell::size).sum::<usize>();
            if bytes > 16 * MAX_BYTES {
                return Err(format!("a result of more than {} MB", (16 * MAX_BYTES) >> 20));
            }
            found.rows.push(cells);
        }
        Ok(found)
    }
}

/// What an action would do that no query may; `None` for what it may.
fn forbidden(action: AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => None,
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            FORBIDDEN.contains(&name.as_str()).then(|| format!("the function {name}"))
        }
        AuthAction::Attach { .. } => Some("ATTACH".into()),
        AuthAction::Pragma { pragma_name, .. } => Some(format!("PRAGMA {pragma_name}")),
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
            Some("a transaction".into())
        }
        _ => Some("anything but a query".into()),
    }
}

impl Cell {
    fn size(&self) -> usize {
        match self {
            Cell::Null => 0,
            Cell::Number(text) | Cell::Text(text) => text.len(),
            Cell::Blob(bytes) => bytes.len(),
        }
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
