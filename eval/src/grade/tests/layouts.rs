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

#[test]
fn lists_of_messages_and_lists_in_lists_are_completions() {
    let turn = |text: &str| json!({"role": "assistant", "content": text});
    let said = ["\\boxed{7}", "\\boxed{8}", "7", "8"];
    let turns: Vec<Value> = said.iter().map(|text| turn(text)).collect();
    let asked = json!({"role": "user", "content": "6 + 1?"});
    for (key, list, samples) in [
        ("responses", json!(turns), 4),
        ("completion", json!(turns), 4),
        ("completions", json!([turns]), 4),
        ("outputs", json!([said]), 4),
        ("outputs", json!([&said[..2], &said[2..]]), 4),
        ("outputs", json!(json!([&said[..2], &said[2..]]).to_string()), 4),
        ("completions", json!(json!(turns).to_string()), 4),
        // Conversations, parts of one text, a matrix.
        ("completions", json!([[asked, turns[1]], [asked, turns[0]]]), 2),
        ("completion", json!([turns[1], asked, turns[0]]), 1),
        ("output", json!([{"type": "text", "text": "\\boxed{7}"}]), 1),
    ] {
        let row = json!({"id": 1, "prompt": "6 + 1?", "gold": "7", key: list});
        let found = graded(&lines(std::slice::from_ref(&row)), None);
        assert_eq!(numbers(&found), [(samples, samples.div_ceil(2))], "{row}");
    }
    for text in ["['So 7.' 'So 8.']", "['So 7.'\n \"It's 8.\"]", "[{'role': 'assistant', 'content': '7'}]"] {
        let row = json!({"id": 1, "gold": "7", "completions": text});
        assert!(refused("f.jsonl", &lines(&[row])).contains("as Python or numpy prints it"), "{text}");
    }
}

#[test]
fn answers_one_for_each_completion_are_no_golds() {
    let row = |key: &str, answers: Value| json!({"id": 1, key: answers, "completions": ["7", "8", "8"]});
    let why = refused("f.jsonl", &lines(&[row("answer", json!(["7", "8", "8"]))]));
    assert!(why.contains("`answer` is a list with one for each of the 3 completions"), "{why}");
    let named = |job| GradeJob { gold_key: Some("answer"), ..job };
    let rows = lines(&[row("answer", json!(["7", "7.0", "seven"]))]);
    assert_eq!(numbers(&graded_with("f.jsonl", &rows, None, named).unwrap()), [(3, 1)]);
    for (key, answers) in [("answer", json!(["7", "7", "7"])), ("answer", json!(["7", "7.0"])), ("gold", json!(["7", "x", "y"]))] {
        assert_eq!(numbers(&graded(&lines(&[row(key, answers)]), None)), [(3, 1)]);
    }
}
