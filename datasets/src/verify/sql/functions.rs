//! Functions and collations of SQLite whose work can grow with the product of their arguments' lengths, or with a whole
//! result, under a limit of their own.
//!
//! SQLite looks at the budget between the steps of its machine, and only where a program jumps: one row can call a slow
//! function thousands of times in between. So each of these functions is replaced by one that looks at the time and at
//! the lengths of its arguments first, and then asks SQLite's own on another connection: results are SQLite's.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, ToSql};

use super::budget::Budget;
use super::database::limit_lengths;

/// Functions, each with how many arguments it takes; the first two are those that are compared.
const SLOW: [(&str, usize); 8] = [
    ("instr", 2),
    ("replace", 3),
    ("like", 2),
    ("like", 3),
    ("glob", 2),
    ("trim", 2),
    ("ltrim", 2),
    ("rtrim", 2),
];

/// Largest product of two lengths in bytes: some hundredths of a second.
const MAX_PRODUCT: usize = 1 << 24;

/// Texts from this length on are compared only while there is time.
const LONG: usize = 64;

/// Puts the guarded functions and collations in the place of SQLite's own.
pub(super) fn guard(connection: &Connection, budget: &Arc<Budget>) -> rusqlite::Result<()> {
    let inner = Connection::open_in_memory()?;
    limit_lengths(&inner)?;
    let inner = Arc::new(Mutex::new(inner));
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, count) in SLOW {
        let marks = vec!["?"; count].join(", ");
        let (call, inner, budget) =
            (format!("SELECT {name}({marks})"), inner.clone(), budget.clone());
        let count_of_arguments = i32::try_from(count).unwrap_or(-1);
        connection.create_scalar_function(name, count_of_arguments, flags, move |context| {
            check(name, context, &budget)?;
            let inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            let mut statement = inner.prepare_cached(&call)?;
            let arguments = (0..count).map(|index| context.get_raw(index));
            let arguments = arguments.map(ToSqlOutput::Borrowed);
            statement.query_row(rusqlite::params_from_iter(arguments), |row| {
                Ok(match row.get_ref(0)? {
                    ValueRef::Text(text) => Answer::Text(text.to_vec()),
                    other => Answer::Other(other.try_into()?),
                })
            })
        })?;
    }
    let late = budget.clone();
    connection.create_collation("NOCASE", move |a: &str, b: &str| {
        if is_late(a, b, &late) { Ordering::Equal } else { without_case(a, b) }
    })?;
    let late = budget.clone();
    connection.create_collation("RTRIM", move |a: &str, b: &str| {
        if is_late(a, b, &late) {
            return Ordering::Equal;
        }
        a.trim_end_matches(' ').cmp(b.trim_end_matches(' '))
    })
}

/// The value of SQLite's own function: text byte by byte, whether UTF-8 or not.
enum Answer {
    Text(Vec<u8>),
    Other(Value),
}

impl ToSql for Answer {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Answer::Text(bytes) => ValueRef::Text(bytes),
            Answer::Other(value) => value.into(),
        }))
    }
}

/// Refuses a call that comes too late, or that would take too long.
fn check(name: &str, context: &Context<'_>, budget: &Budget) -> rusqlite::Result<()> {
    if budget.is_late() {
        return Err(Error::UserFunctionError("out of time".into()));
    }
    let bytes = |index| match context.get_raw(index) {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    let (first, second) = (bytes(0), bytes(1));
    if first.saturating_mul(second) > MAX_PRODUCT {
        let why = format!("too big: {name} of {first} and {second} bytes");
        return Err(Error::UserFunctionError(why.into()));
    }
    Ok(())
}

/// Whether there is no time left to compare long texts. The order is then of no account: the query is stopped.
fn is_late(a: &str, b: &str, budget: &Budget) -> bool {
    a.len().max(b.len()) > LONG && budget.is_late()
}

/// The order of SQLite's NOCASE: the letters A to Z as a to z.
fn without_case(a: &str, b: &str) -> Ordering {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    a.bytes().map(lower).cmp(b.bytes().map(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(connection: &Connection, expression: &str) -> Result<Value, String> {
        let row = connection.query_row(&format!("SELECT {expression}"), [], |row| row.get(0));
        row.map_err(|error| error.to_string())
    }

    #[test]
    fn bytes_that_are_not_utf_8_stay_as_they_are() {
        let connection = Connection::open_in_memory().expect("a database");
        let budget = Arc::new(Budget::new());
        budget.begin();
        guard(&connection, &budget).expect("guarded");
        let bytes = evaluate(&connection, "hex(replace(CAST(x'ff41' AS TEXT), 'A', 'B'))");
        assert_eq!(bytes, Ok(Value::Text("FF42".into())));
    }

    #[test]
    fn guarded_functions_and_collations_equal_sqlites() {
        let (plain, guarded) =
            [(); 2].map(|()| Connection::open_in_memory().expect("a database")).into();
        let budget = Arc::new(Budget::new());
        guard(&guarded, &budget).expect("guarded");
        budget.begin();
        let values: Vec<&str> =
            "NULL~''~'a'~'aXbxA'~'x'~'%a_b%'~'*[a-b]?'~'äßÄ'~'ä'~' a '~3~-2.5~1e20~0.1~1e-7~x\
            '61ff62'~x'ff'~'[^a]*'~'\\%'"
                .split('~')
                .collect();
        let mut compared = 0;
        for a in &values {
            for b in &values {
                let mut expressions = Vec::new();
                for (name, count) in SLOW {
                    let third = if name == "like" { "'\\'" } else { "'yz'" };
                    let more = if count == 3 { format!(", {third}") } else { String::new() };
                    expressions.push(format!("{name}({a}, {b}{more})"));
                }
                for order in ["NOCASE", "RTRIM"] {
                    expressions.push(format!("{a} < {b} COLLATE {order}"));
                    expressions.push(format!("{a} = {b} || '  ' COLLATE {order}"));
                }
                expressions.push(format!("{a} LIKE {b}"));
                expressions.push(format!("typeof(trim({a}, {b}))"));
                for expression in expressions {
                    let (expected, found) =
                        (evaluate(&plain, &expression), evaluate(&guarded, &expression));
                    // Texts that are not UTF-8 cannot be read by `row.get`: these come back lossy.
                    if !matches!(&expected, Err(why) if why.contains("utf-8") || why.contains("UTF-8"))
                    {
                        assert_eq!(found, expected, "{expression}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 4000, "{compared}");
    }

    #[test]
    fn calls_that_come_late_or_would_take_long_are_refused() {
        let connection = Connection::open_in_memory().expect("a database");
        let budget = Arc::new(Budget::new());
        guard(&connection, &budget).expect("guarded");
        assert!(
            evaluate(&connection, "instr('ab', 'b')").expect_err("late").contains("out of time")
        );
        let alike = "printf('%.100c', 'a') = printf('%.100c', 'b') COLLATE";
        for order in ["NOCASE", "RTRIM"] {
            assert_eq!(evaluate(&connection, &format!("{alike} {order}")), Ok(Value::Integer(1)));
        }
        budget.begin();
        for order in ["NOCASE", "RTRIM"] {
            assert_eq!(evaluate(&connection, &format!("{alike} {order}")), Ok(Value::Integer(0)));
        }
        assert_eq!(evaluate(&connection, "instr('ab', 'b')"), Ok(Value::Integer(2)));
        let long = "trim(printf('%.60000c', 'a'), printf('%.6000c', 'b'))";
        assert!(
            evaluate(&connection, long)
                .expect_err("long")
                .contains("too big: trim of 60000 and 6000")
        );
    }
}
