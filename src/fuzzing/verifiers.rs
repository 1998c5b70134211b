//! A gold answer, a zero byte and a completion: judged by every verifier of a task, the same each time.

use std::sync::{Arc, LazyLock};

use tealight_core::Prompt;
use tealight_datasets::task::TASKS;
use tealight_datasets::task::judge::Judge;
use tealight_datasets::verify::math::{Mode, Outcome, check, number, solution};
use tealight_datasets::verify::sql::Sql;
use tealight_datasets::verify::{Reads, VERIFIERS, open};
use tealight_datasets::{Database, Problem, Verifier};

/// The texts before and behind the first zero byte.
fn with_pair(data: &[u8], work: impl FnOnce(&str, &str)) {
    let text = String::from_utf8_lossy(data);
    let (gold, answer) = text.split_once('\0').unwrap_or(("", &text));
    work(gold, answer);
}

fn problem(gold: impl Into<String>) -> Problem {
    Problem::new("", Prompt::Text(String::new()), gold)
}

/// A verdict depends on nothing but its input.
pub(super) fn math(data: &[u8]) {
    with_pair(data, |gold, answer| {
        let flexible = check(gold, answer, Mode::Flexible);
        // A stricter place may hold another answer, but never one where the flexible rules find none.
        if check(gold, answer, Mode::Strict).outcome == Outcome::Correct {
            assert_ne!(flexible.outcome, Outcome::NoAnswer);
        }
        let _ = (number(answer), solution(answer, gold));
        assert_eq!(check(gold, answer, Mode::Flexible), flexible);
    });
}

/// Every verifier that reads no file and needs no argument.
pub(super) fn verifiers(data: &[u8]) {
    static PLAIN: LazyLock<Vec<Arc<dyn Verifier>>> = LazyLock::new(|| {
        let plain = VERIFIERS.iter().filter(|row| row.reads == Reads::Nothing);
        let forms = plain.flat_map(|row| row.forms).map(|(form, _)| form);
        let forms = forms.filter(|form| !form.contains(char::is_uppercase));
        forms.map(|form| open(form).expect("needs no argument")).collect()
    });
    with_pair(data, |gold, answer| {
        for gold in ["3,3,8,8=24", gold] {
            PLAIN.iter().for_each(|plain| drop(plain.verify(&problem(gold), answer)));
        }
    });
}

/// What a task lists is correct by its own verifier.
pub(super) fn tasks(data: &[u8]) {
    with_pair(data, |statement, answer| {
        for kind in TASKS {
            let problem = problem(format!("{}{statement}", kind.tag));
            drop(Judge(kind).verify(&problem, answer));
            for listed in (kind.texts)(&problem).unwrap_or_default() {
                assert!(Judge(kind).verify(&problem, &listed).is_correct(), "{listed}");
            }
        }
    });
}

const SCRIPT: &str = "CREATE TABLE pets(name TEXT, kind TEXT, age INTEGER);
    INSERT INTO pets VALUES ('Ada','dog',3),('Bo','cat',5),('Cy','dog',7);";

/// A query leaves the database as it was.
pub(super) fn query(data: &[u8]) {
    let sql = Sql::from_scripts();
    let problem = Problem {
        context: Some(Database::Script(SCRIPT.into())),
        ..problem("SELECT COUNT(*), SUM(age) FROM pets")
    };
    let text = String::from_utf8_lossy(data);
    for query in [text.as_ref(), &format!("SELECT {text}")] {
        drop(sql.verify(&problem, query));
    }
    assert!(sql.verify(&problem, "SELECT 3, 15").is_correct(), "the database was changed");
}
