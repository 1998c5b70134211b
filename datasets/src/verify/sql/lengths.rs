//! The length of texts in a connection to a database.

use rusqlite::Connection;
use rusqlite::limits::Limit;

/// Most bytes of a text or a row: what one call of a function takes grows with it.
const MAX_TEXT: usize = 64 << 10;

/// Limits the texts of a connection, and the patterns of LIKE and GLOB.
pub(super) fn limit_lengths(connection: &Connection) -> rusqlite::Result<()> {
    let bytes = i32::try_from(MAX_TEXT).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000)?;
    Ok(())
}
