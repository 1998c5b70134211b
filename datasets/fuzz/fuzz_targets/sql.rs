//! Any text as a query: judged, within bounds, and the database is as before.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tealight_datasets::verify::sql::Sql;
use tealight_core::Prompt;
use tealight_datasets::{Database, Problem, Verifier};

const SCRIPT: &str = "CREATE TABLE pets(name TEXT, kind TEXT, age INTEGER);
    INSERT INTO pets VALUES ('Ada','dog',3),('Bo','cat',5),('Cy','dog',7);";

thread_local! {
    static SQL: Sql = Sql::from_scripts();
}

fuzz_target!(|query: &str| {
    let problem = Problem {
        context: Some(Database::Script(SCRIPT.into())),
        ..Problem::new("", Prompt::Text(String::new()), "SELECT COUNT(*), SUM(age) FROM pets")
    };
    SQL.with(|sql| {
        let _ = sql.verify(&problem, query);
        let _ = sql.verify(&problem, &format!("SELECT {query}"));
        assert!(sql.verify(&problem, "SELECT 3, 15").is_correct(), "the database was changed");
    });
});
