//! Layouts of files that mean something else than their keys seem to say: joined tasks, lists of messages, numbers of
//! samples, runs that were written twice.

use serde_json::{Value, json};

use super::cases::{graded, graded_with, has_note, lines, numbers};
use crate::grade::GradeJob;

fn refused(name: &str, rows: &str) -> String {
    format!("{:#}", graded_with(name, rows, None, |job| job).err().expect("refused"))
}

#[test]
fn a_task_without_the_files_filter_is_read_under_its_own() {
    let row = |id: usize, task: &str, filter: &str| {
        json!({"doc_id": id, "doc_hash": format!("{task}{id}"), "doc": {}, "target": "7", "resps": [["7", "8"]],
            "filter": filter, "arguments": {}})
    };
    let task = |name: &'static str, filter: &'static str| (0..3).map(move |id| row(id, name, filter));
    let strict: Vec<Value> = task("a", "strict").chain(task("a", "loose")).collect();
    let plain: Vec<Value> = task("b", "none").collect();
    let turns = |rows: &[&Value]| (0..6).map(|i| rows[i / 2 + 3 * (i % 2)].clone()).collect::<Vec<_>>();
    let by_document = turns(&strict.iter().collect::<Vec<_>>());
    for (rows, filter, left_out, own) in [
        ([&strict[..], &plain].concat(), None, "3 lines of `loose`", "3 problems without a line of the filter `strict`"),
        ([&by_document[..], &plain].concat(), None, "3 lines of `loose`", "own first filter: `none` (3)"),
        ([&plain[..], &strict].concat(), None, "3 lines of `loose`", "own first filter: `strict` (3)"),
        ([&strict[..], &plain].concat(), Some("loose"), "3 lines of `strict`", "own first filter: `none` (3)"),
        ([&by_document[..], &plain].concat(), Some("loose"), "3 lines of `strict`", "own first filter: `none` (3)"),
    ] {
        let job = |job| GradeJob { filter, ..job };
        let graded = graded_with("f.jsonl", &lines(&rows), None, job).unwrap();
        assert_eq!(numbers(&graded), [(2, 1); 6]);
        has_note(&graded, left_out);
        has_note(&graded, own);
    }
    let none = graded_with("f.jsonl", &lines(&strict), None, |job| GradeJob { filter: Some("none"), ..job });
    let why = format!("{:#}", none.err().expect("refused"));
    assert!(why.contains("no line has the filter `none`; the filters are `loose`, `strict`"), "{why}");
}
