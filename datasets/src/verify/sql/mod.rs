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
#[cfg(test)]
mod costly;
mod database;
mod functions;
mod golds;
mod lengths;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_core::Prompt;

    const SCRIPT: &str = "CREATE TABLE pets(name TEXT, kind TEXT, age INTEGER, weight REAL);
        INSERT INTO pets VALUES ('Ada','dog',3,2.5),('Bo','cat',5,4),('Cy','dog',7,NULL),('Di','cow',5,1e9);";

    fn verdict(verifier: &Sql, gold: &str, completion: &str) -> Verdict {
        let problem = Problem {
            context: Some(Database::Script(SCRIPT.into())),
            ..Problem::new("p", Prompt::question("?"), gold)
        };
        verifier.verify(&problem, completion)
    }

    #[test]
    fn queries_are_judged_by_result_not_spelling() {
        let sql = Sql::from_scripts();
        let gold = "SELECT name FROM pets WHERE kind = 'dog' AND age > 3";
        for right in [
            "select NAME from pets where age>=4 and kind='dog'",
            "Here it is:\n```sql\nSELECT p.name FROM pets AS p WHERE p.kind IN ('dog') AND p.age > 3;\n```",
            "<answer>SELECT 'Cy'</answer>",
            "WITH d AS (SELECT * FROM pets WHERE kind LIKE 'dog') SELECT name FROM d WHERE NOT age <= 3",
        ] {
            assert!(
                verdict(&sql, gold, right).is_correct(),
                "{right}: {:?}",
                verdict(&sql, gold, right)
            );
        }
        for (wrong, why) in [
            ("SELECT name FROM pets WHERE kind = 'dog'", "2 rows, not 1"),
            ("SELECT name, age FROM pets WHERE age = 7", "2 columns"),
            ("SELECT 'Ada'", "other rows"),
            ("SELECT nme FROM pets", "no such column"),
            ("SELEC name", ""),
        ] {
            match verdict(&sql, gold, wrong) {
                Verdict::Wrong { why: Some(reason), .. } => {
                    assert!(reason.contains(why), "{wrong}: {reason}")
                }
                Verdict::NoAnswer if why.is_empty() => {}
                other => panic!("{wrong}: {other:?}"),
            }
        }
        assert_eq!(verdict(&sql, gold, "I do not know"), Verdict::NoAnswer);
    }

    #[test]
    fn order_counts_only_where_the_gold_orders() {
        let sql = Sql::from_scripts();
        let plain = "SELECT age FROM pets";
        let ordered = "SELECT age FROM pets ORDER BY age DESC";
        assert!(verdict(&sql, plain, ordered).is_correct());
        assert!(!verdict(&sql, ordered, plain).is_correct());
        assert!(!verdict(&sql, plain, "SELECT DISTINCT age FROM pets").is_correct(), "a multiset");
        // Numbers are equal by value.
        assert!(verdict(&sql, "SELECT 1, 2.50", "SELECT 1.0, 2.5").is_correct());
        assert!(verdict(&sql, "SELECT SUM(weight) FROM pets", "SELECT 1000000006.5").is_correct());
        assert!(!verdict(&sql, "SELECT 1", "SELECT '1'").is_correct());
        assert!(!verdict(&sql, "SELECT NULL", "SELECT 0").is_correct());
    }

    #[test]
    fn forbidden_statements_are_wrong_costly_ones_unjudged_and_none_changes_anything() {
        let sql = Sql::from_scripts();
        let gold = "SELECT COUNT(*) FROM pets";
        for hostile in [
            "DELETE FROM pets",
            "DROP TABLE pets",
            "SELECT 4; DELETE FROM pets",
            "ATTACH DATABASE '/tmp/tealight-escape.sqlite' AS x",
            "SELECT 4 UNION SELECT load_extension('x')",
            "PRAGMA writable_schema = 1",
            "CREATE TABLE t(x)",
            "INSERT INTO pets VALUES ('E','dog',1,1)",
            "UPDATE pets SET age = 0",
            "VACUUM INTO '/tmp/tealight-escape.sqlite'",
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n",
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
            "SELECT COUNT(*) FROM pets a, pets b, pets c, pets d, pets e, pets f, pets g, pets h, pets i, pets j, pets k, pets l, pets m, pets n",
            "SELECT length(zeroblob(1000000000))",
            "SELECT replace(hex(hex(hex('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))), '6', hex(hex(hex('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))))",
            "BEGIN; SELECT 4",
            "EXPLAIN SELECT 4",
            "REINDEX",
        ] {
            match verdict(&sql, gold, hostile) {
                Verdict::Wrong { why: Some(why), .. } => {
                    assert!(!why.is_empty() && !hostile.contains("n(x)"), "{hostile}: {why}");
                }
                Verdict::Unjudged { why, is_too_costly: true } => {
                    let is_costly = ["RECURSIVE", "COUNT(*)", "hex"];
                    assert!(
                        is_costly.iter().any(|word| hostile.contains(word)),
                        "{hostile}: {why}"
                    );
                }
                other => panic!("{hostile}: {other:?}"),
            }
            assert!(verdict(&sql, gold, "SELECT 4").is_correct(), "after {hostile}");
        }
        assert!(!Path::new("/tmp/tealight-escape.sqlite").exists());
    }

    #[test]
    fn statements_without_a_result_are_forbidden_even_where_they_do_nothing() {
        let sql = Sql::from_scripts();
        match verdict(&sql, "SELECT 4", "REINDEX") {
            Verdict::Wrong { why: Some(why), .. } => assert!(why.contains("forbidden"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scripts_make_tables_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim.db");
        let make = rusqlite::Connection::open(&victim).expect("a database");
        make.execute_batch("CREATE TABLE precious(x); INSERT INTO precious VALUES (7)")
            .expect("a table");
        drop(make);
        let before = std::fs::read(&victim).expect("bytes");
        let path = victim.display();
        let sql = Sql::from_scripts();
        for script in [
            format!("ATTACH '{path}' AS x; DROP TABLE x.precious;"),
            format!("CREATE TABLE t(x); VACUUM INTO '{path}.copy'"),
            format!("ATTACH '{path}.new' AS x; CREATE TABLE x.t(y)"),
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n".into(),
            "PRAGMA hard_heap_limit = 0".into(),
            "CREATE VIRTUAL TABLE t USING fts5(x)".into(),
            "CREATE TRIGGER t AFTER INSERT ON u BEGIN SELECT 1; END".into(),
        ] {
            for context in [Database::Script(script.clone()), Database::File(script.clone())] {
                let problem = Problem { context: Some(context), ..Problem::new("p", Prompt::question("?"), "SELECT 1") };
                let judged = sql.verify(&problem, "SELECT 1");
                assert!(matches!(judged, Verdict::Unjudged { .. }), "{script}: {judged:?}");
            }
        }
        assert_eq!(std::fs::read(&victim).expect("bytes"), before);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_gold_that_fails_is_not_a_wrong_answer() {
        let sql = Sql::from_scripts();
        let judged = verdict(&sql, "SELECT nothing FROM nowhere", "SELECT 1");
        assert!(matches!(judged, Verdict::Unjudged { .. }), "{judged:?}");
        let sql = Sql::in_folder("/nonexistent".into());
        assert!(matches!(verdict(&sql, "SELECT 1", "SELECT 1"), Verdict::Unjudged { .. }));
    }
}
