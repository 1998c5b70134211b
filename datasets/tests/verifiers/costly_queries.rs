//! Queries that were made to take long: none may take more than the time that it has.

use std::time::Instant;

use tealight_datasets::verify::sql::Sql;
use tealight_datasets::{Database, Problem, Verdict, Verifier};

use super::problem;

/// Most seconds of a query: ten, and what is left of the step in which they end.
const MOST: f64 = 12.0;

/// Rows `c(x)` with the numbers from 1 to so many.
fn rows(count: usize, selected: &str) -> String {
    format!(
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<{count}) SELECT {selected} FROM c"
    )
}

/// A sum of calls, as a tree that is not deep.
fn sum(calls: &[String]) -> String {
    match calls {
        [] => "0".into(),
        [one] => one.clone(),
        _ => {
            let (left, right) = calls.split_at(calls.len() / 2);
            format!("({}+{})", sum(left), sum(right))
        }
    }
}

/// Many calls in each of three rows.
fn in_a_row(count: usize, call: &str) -> String {
    rows(3, &sum(&vec![call.to_owned(); count]))
}

/// Seconds that this thread computed, where the system says; a busy machine does not count.
fn seconds(started: Instant) -> f64 {
    let wall = started.elapsed().as_secs_f64();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|count| count.parse::<f64>().ok());
    nanoseconds.map_or(wall, |count| count * 1e-9)
}

/// Runs a query in a thread of its own: the verdict, and the seconds that it took.
fn judged(query: &str) -> (Verdict, f64) {
    let work = || {
        let problem = Problem {
            context: Some(Database::Script("CREATE TABLE t(x)".into())),
            ..problem("SELECT 1")
        };
        let (sql, started) = (Sql::from_scripts(), Instant::now());
        (sql.verify(&problem, query), seconds(started))
    };
    std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

#[test]
fn costly_queries_end_within_the_limit() {
    let letters = |count: usize, letter: char| format!("printf('%.{count}c','{letter}')");
    let (long, other) = (letters(60_000, 'a'), letters(250, 'b'));
    let nested = (0..8).fold("SELECT instr(@||x, #||x) AS y FROM c".to_owned(), |inner, _| {
        format!("SELECT y+y AS y FROM ({inner})")
    });
    let nested = nested.replace('@', &long).replace('#', &letters(250, 'a'));
    let set = format!("'*['||{other}||']*c'");
    let keys = "(SELECT json_group_object('k'||value,1) FROM generated)";
    let queries = [
        // As they came, with texts that are too long by now.
        "SELECT unhex(printf('%.250000c','z'),substr(printf('%.250000c','y'),1,249000)||'z')"
            .to_owned(),
        "SELECT length(trim(printf('%.250000c','a'),printf('%.20000c','b')||'a'))".into(),
        rows(100_000, "sum(length(trim(printf('%.250000c','a'),printf('%.20000c','b')||'a')))"),
        rows(100_000, "sum(printf('%.250000c','a') LIKE '%a%a%a%a%a%a%a%a%a%a%b')"),
        // The same with texts that fit.
        format!("SELECT unhex({},{}||'z')", letters(60_000, 'z'), letters(59_000, 'y')),
        format!("SELECT length(trim({long},{}||'a'))", letters(50_000, 'b')),
        rows(1_000_000, &format!("sum(length(trim({long}||x,{other}||'a')))")),
        rows(1_000_000, &format!("sum(instr({long}||x,{}||x))", letters(250, 'a'))),
        rows(1_000_000, &format!("sum(length(replace({long}||x,'a','b')))")),
        rows(1_000_000, &format!("sum({long}||x LIKE '%a%a%a%a%a%a%a%a%a%a%b')")),
        rows(1_000_000, &format!("sum({long}||x GLOB {set})")),
        // Few enough for the memory of SQLite, which the tests that run beside share.
        rows(3000, &format!("{long}||x AS y"))
            .replace("SELECT printf", "SELECT length(y) FROM (SELECT printf")
            + ") ORDER BY y COLLATE NOCASE",
        // Many calls in one row, between which SQLite does not look at the budget.
        in_a_row(100, &format!("length(trim({long}||x,{other}||'a'))")),
        in_a_row(400, &format!("({long}||x LIKE '%a%a%a%a%a%a%a%a%a%a%b')")),
        in_a_row(100, &format!("({long}||x GLOB {set})")),
        in_a_row(300, &format!("length(upper(lower({long}||x)))")),
        in_a_row(100, "json_valid('['||replace(zeros,'0','1,')||x||']')")
            .replace("zeros", &letters(30_000, '0')),
        in_a_row(40, &format!("length(json_patch({keys},{keys}))")).replace("generated", "c"),
        // An expression that is doubled by each query around it.
        rows(3, "1").replace("SELECT 1 FROM c", &nested),
    ];
    let results: Vec<(Verdict, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            queries.iter().map(|query| scope.spawn(move || judged(query))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for (query, (verdict, seconds)) in queries.iter().zip(results) {
        let start: String = query.chars().take(200).collect();
        println!("{seconds:.2} s {verdict:?} {start}");
        assert!(!verdict.is_correct() && seconds < MOST, "{seconds} s: {verdict:?} {start}");
    }
}
