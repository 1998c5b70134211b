//! Queries that are judged by what they give.

use std::path::Path;

use tealight_datasets::verify::sql::{Compare, Sql, canonical, extract, orders};
use tealight_datasets::{Database, Problem, Verdict, Verifier};

use super::problem;

const SCRIPT: &str = "CREATE TABLE pets(name TEXT, kind TEXT, age INTEGER, weight REAL);
    INSERT INTO pets VALUES ('Ada','dog',3,2.5),('Bo','cat',5,4),('Cy','dog',7,NULL),('Di','cow',5,1e9);";

fn verdict(verifier: &Sql, gold: &str, completion: &str) -> Verdict {
    let problem = Problem { context: Some(Database::Script(SCRIPT.into())), ..problem(gold) };
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
    let texts = "\
        DELETE FROM pets~DROP TABLE pets~SELECT 4; DELETE FROM pets~\
        ATTACH DATABASE '/tmp/tealight-escape.sqlite' AS x~SELECT 4 UNION SELECT load_extension('x')~\
        PRAGMA writable_schema = 1~CREATE TABLE t(x)~INSERT INTO pets VALUES ('E','dog',1,1)~\
        UPDATE pets SET age = 0~VACUUM INTO '/tmp/tealight-escape.sqlite'~\
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n~\
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n~\
        SELECT COUNT(*) FROM pets a, pets b, pets c, pets d, pets e, pets f, \
        pets g, pets h, pets i, pets j, pets k, pets l, pets m, pets n~\
        SELECT length(zeroblob(1000000000))~\
        SELECT replace(hex(hex(hex('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))), '6', \
        hex(hex(hex('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))))~\
        BEGIN; SELECT 4~EXPLAIN SELECT 4~REINDEX";
    for hostile in texts.split('~') {
        match verdict(&sql, gold, hostile) {
            Verdict::Wrong { why: Some(why), .. } => {
                assert!(!why.is_empty() && !hostile.contains("n(x)"), "{hostile}: {why}");
                // It has no result, and is forbidden even where it does nothing.
                assert!(hostile != "REINDEX" || why.contains("forbidden"), "{why}");
            }
            Verdict::Unjudged { why, is_too_costly: true } => {
                let is_costly = ["RECURSIVE", "COUNT(*)", "hex"];
                assert!(is_costly.iter().any(|word| hostile.contains(word)), "{hostile}: {why}");
            }
            other => panic!("{hostile}: {other:?}"),
        }
        assert!(verdict(&sql, gold, "SELECT 4").is_correct(), "after {hostile}");
    }
    assert!(!Path::new("/tmp/tealight-escape.sqlite").exists());
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
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
            .into(),
        "PRAGMA hard_heap_limit = 0".into(),
        "CREATE VIRTUAL TABLE t USING fts5(x)".into(),
        "CREATE TRIGGER t AFTER INSERT ON u BEGIN SELECT 1; END".into(),
    ] {
        for context in [Database::Script(script.clone()), Database::File(script.clone())] {
            let problem = Problem { context: Some(context), ..problem("SELECT 1") };
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

#[test]
fn queries_are_found_in_completions() {
    for (text, query) in [
        ("SELECT 1;", Some("SELECT 1")),
        ("```sql\nSELECT 1;\n```\n", Some("SELECT 1")),
        ("First\n```\nx\n```\nthen ```sql\nSELECT 2\n```", Some("SELECT 2")),
        ("```sql\nSELECT 3", Some("SELECT 3")),
        (
            "<think>SELECT 1</think>The query is: SELECT a FROM t;  It counts.",
            Some("SELECT a FROM t"),
        ),
        ("<answer> SELECT 1 </answer>", Some("SELECT 1")),
        ("DROP TABLE t", Some("DROP TABLE t")),
        ("we select the rows with care", None),
        ("", None),
    ] {
        assert_eq!(extract(text), query, "{text}");
    }
}

#[test]
fn spellings_of_one_query_share_a_form() {
    let one = "SELECT name FROM pets WHERE kind = 'dog' AND age > 3";
    for same in [
        "select NAME from Pets where (3 < age) and (kind = 'dog');",
        "SELECT p.name AS n FROM pets AS p WHERE 'dog' = p.kind AND p.age > 3",
        "SELECT \"name\"\n  FROM pets WHERE age > 3 AND kind = 'dog'",
    ] {
        assert_eq!(canonical(same.trim_end_matches(';')), canonical(one), "{same}");
    }
    for other in [
        "SELECT name FROM pets WHERE kind = 'dog' AND age >= 4",
        "SELECT name FROM pets WHERE kind = 'dog' OR age > 3",
        "SELECT name FROM pets WHERE kind = 'Dog' AND age > 3",
        "SELECT name FROM pets WHERE kind IN ('dog') AND age > 3",
    ] {
        assert_ne!(canonical(other), canonical(one), "{other}");
    }
    let (a, b) = ("SELECT 1 WHERE (a OR b) AND c", "SELECT 1 WHERE a OR (b AND c)");
    assert_ne!(canonical(a), canonical(b));
    assert_eq!(canonical("SELECT (a + b) + c"), canonical("SELECT c + (b + a)"));
    assert_ne!(canonical("SELECT a - (b - c)"), canonical("SELECT (a - b) - c"));
}

#[test]
fn ordering_is_that_of_the_outermost_query() {
    assert!(orders("SELECT a FROM t ORDER BY a"));
    assert!(!orders("SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 3)"));
    assert!(!orders("SELECT 'order by'"));
}

#[test]
fn rules_match_the_benchmarks_scripts() {
    use Compare::{Bird, Spider, Strict};
    let (plain, ordered) =
        ("SELECT 1, 2 UNION SELECT 3, 4", "SELECT 1 AS a, 2 UNION SELECT 3, 4 ORDER BY a");
    let inner = "SELECT a, b FROM (SELECT 1 AS a, 2 AS b UNION SELECT 3, 4 ORDER BY a LIMIT 2)";
    let other = "SELECT 3 AS a, 4 UNION SELECT 1, 2 ORDER BY a DESC";
    for (gold, answer, expected) in [
        // Rows in another order: only Bird does not care where the gold orders.
        (ordered, other, [false, true, false]),
        (plain, other, [true, true, true]),
        // A row twice: only Bird does not care.
        (plain, "SELECT 1, 2 UNION ALL SELECT 3, 4 UNION ALL SELECT 3, 4", [false, true, false]),
        // Columns in another order: only Spider does not care.
        (plain, "SELECT 2, 1 UNION SELECT 4, 3", [false, false, true]),
        // Each column on its own would fit, the rows do not.
        (plain, "SELECT 2, 3 UNION SELECT 4, 1", [false, false, false]),
        // An inner order counts for Spider's script alone.
        (inner, other, [true, true, false]),
    ] {
        let found = [Strict, Bird, Spider].map(|compare| {
            verdict(&Sql::from_scripts().comparing(compare), gold, answer).is_correct()
        });
        assert_eq!(found, expected, "{gold}; {answer}");
    }
}

#[cfg(unix)]
#[test]
fn a_database_is_read_without_a_trace_and_never_through_a_link_out_of_its_folder() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for path in [folder.path().join("pets.sqlite"), other.path().join("secret.sqlite")] {
        let make = rusqlite::Connection::open(path).unwrap();
        make.execute_batch(&format!("PRAGMA journal_mode = WAL; {SCRIPT}")).unwrap();
    }
    std::os::unix::fs::symlink(
        other.path().join("secret.sqlite"),
        folder.path().join("secret.sqlite"),
    )
    .unwrap();
    let names = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let sql = Sql::in_folder(folder.path().into());
    let ask = |name: &str| {
        let context = Some(Database::File(name.into()));
        let query = "SELECT name FROM pets WHERE age = 7";
        sql.verify(&Problem { context, ..problem(query) }, query)
    };
    assert!(ask("pets").is_correct(), "{:?}", ask("pets"));
    let refused = format!("{:?}", ask("secret"));
    assert!(refused.contains("a link out of the folder"), "{refused}");
    assert_eq!(names(), before, "a lock or a log was left");
}
