//! What servers and harnesses write, as people give it to `grade`: repeats, retries, joined runs, other golds.

use serde_json::{Value, json};
use tealight_datasets::verify;

use super::*;

/// Lines of JSON.
pub(super) fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// A dataset whose problem i asks for i + (i + 1), under the id i.
pub(super) fn sums(count: usize) -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ds.jsonl").display().to_string();
    let row = |i: usize| json!({"id": i.to_string(), "question": format!("What is {i} + {}?", i + 1), "answer": (2 * i + 1).to_string()});
    std::fs::write(&path, lines(&(0..count).map(row).collect::<Vec<_>>())).unwrap();
    tealight_datasets::open(&path, &Default::default(), None).unwrap()
}

pub(super) fn graded_with(
    name: &str,
    text: &str,
    dataset: Option<&Dataset>,
    change: impl for<'a> FnOnce(GradeJob<'a>) -> GradeJob<'a>,
) -> Result<Graded> {
    let verifier = verify::open("math").unwrap();
    let mut source = Source::new(text.as_bytes(), name)?;
    let job = change(GradeJob::new(&*verifier));
    GradeJob { dataset, ..job }.run(&mut source, &mut |_| Ok(()))
}

pub(super) fn graded(text: &str, dataset: Option<&Dataset>) -> Graded {
    graded_with("f.jsonl", text, dataset, |job| job).unwrap()
}

/// The samples and the correct ones of each problem.
pub(super) fn numbers(graded: &Graded) -> Vec<(usize, usize)> {
    graded.tallies.iter().map(|tally| (tally.samples, tally.correct)).collect()
}

pub(super) fn has_note(graded: &Graded, words: &str) {
    assert!(graded.notes.iter().any(|note| note.contains(words)), "{words}: {:?}", graded.notes);
}

#[test]
fn ids_that_number_samples_are_told_from_those_of_problems_by_the_prompts() {
    let dataset = sums(20);
    // evalscope with repeats, in an instruction of its own, and the same in other layouts.
    let prompt = |i: usize| format!("What is {i} + {}?\nPlease reason step by step.", i + 1);
    let evalscope = |index: usize, prompt: String, answer: String| {
        json!({"index": index, "messages": [{"role": "user", "content": prompt}], "model_output":
            {"choices": [{"message": {"content": answer}, "stop_reason": "stop"}]}})
    };
    let own = |index: usize, prompt: String, answer: String| json!({"id": index, "prompt": prompt, "completion": answer});
    let labelled = |index: usize, prompt: String, answer: String| json!({"id": index, "prompt": format!("Question: {prompt}"), "completion": answer});
    for row in [&evalscope as &dyn Fn(usize, String, String) -> Value, &own, &labelled] {
        let rows: Vec<Value> = (0..16)
            .map(|index| row(index, prompt(index / 4), format!("\\boxed{{{}}}", index / 4 * 2 + 1)))
            .collect();
        let graded = graded(&lines(&rows), Some(&dataset));
        assert_eq!(numbers(&graded), [(4, 4); 4]);
        assert_eq!(graded.problems[3].id, "3");
        has_note(&graded, "ids and prompts contradict each other");
    }
    // Prompts that show no question of the dataset: nothing tells what the ids number.
    let rows: Vec<Value> = (0..8)
        .map(|index| evalscope(index, format!("problem {}", index / 4), "1".into()))
        .collect();
    let refused = graded_with("f.jsonl", &lines(&rows), Some(&dataset), |job| job);
    let message = format!("{:#}", refused.err().expect("refused"));
    assert!(message.contains("f.jsonl:2: the ids `0` and `1` have the same prompt"), "{message}");
    // Other prompts that are shown under their own ids are no contradiction.
    let shots = |i: usize| format!("What is 0 + 1? 1.\nQ: What is {i} + {}?\nA:", i + 1);
    let rows: Vec<Value> = (0..4).map(|i| own(i, shots(i), (2 * i + 1).to_string())).collect();
    let graded = graded(&lines(&rows), Some(&dataset));
    assert_eq!((numbers(&graded), graded.notes.len()), (vec![(1, 1); 4], 1), "{:?}", graded.notes);
}

#[test]
fn the_datasets_gold_answer_wins_over_the_records_own() {
    let dataset = sums(3);
    for key in ["answer", "target", "gold", "label", "ground_truth", "solution", "expected_answer"]
    {
        let rows = [0, 1]
            .map(|i| json!({"id": i.to_string(), "completion": "I get \\boxed{99}", key: "99"}));
        let graded = graded(&lines(&rows), Some(&dataset));
        assert_eq!(numbers(&graded), [(1, 0), (1, 0)], "{key}");
        has_note(&graded, "2 problems have different gold answers in the file and in the dataset");
        has_note(&graded, "f.jsonl:1: `99` in the record, `1` in");
    }
    // The same answer in other words is no conflict.
    let row = json!({"id": "1", "completion": "3", "solution": "1 + 2 = 3\n#### 3.0"});
    let same = graded(&lines(&[row]), Some(&dataset));
    assert!(!same.notes.iter().any(|note| note.contains("another gold")), "{:?}", same.notes);
}

#[test]
fn records_with_ids_of_their_own_are_grouped_by_their_prompts() {
    let row = |id: usize, problem: usize, is_right: bool| json!({"id": id, "prompt": format!("Q{problem}?"), "gold": "7", "completion": if is_right { "7" } else { "8" }});
    let rows: Vec<Value> = (0..40).map(|id| row(id, id / 8, id % 8 < id / 8)).collect();
    let by_problem = graded(&lines(&rows), None);
    assert_eq!(numbers(&by_problem), [(8, 0), (8, 1), (8, 2), (8, 3), (8, 4)]);
    has_note(&by_problem, "ids number the records; 40 records are grouped by their prompts");
    // Sample by sample in place of problem by problem.
    let rows: Vec<Value> = (0..10).map(|id| row(id, id % 5, true)).collect();
    assert_eq!(numbers(&graded(&lines(&rows), None)), [(2, 2); 5]);
    // Each prompt once, or a few twice: the ids are problems'.
    let rows: Vec<Value> = (0..5).map(|id| row(id, id.max(1), true)).collect();
    assert_eq!(numbers(&graded(&lines(&rows), None)), [(1, 1); 5]);
}

#[test]
fn a_record_without_a_gold_answer_is_left_out_and_counted() {
    let mut rows: Vec<Value> =
        (0..5).map(|id| json!({"id": id, "gold": "7", "completion": "7"})).collect();
    rows[1]["gold"] = Value::Null;
    rows[3].as_object_mut().unwrap().remove("gold");
    let left_out = graded(&lines(&rows), None);
    assert_eq!(numbers(&left_out), [(1, 1); 3]);
    has_note(
        &left_out,
        "left out for want of a gold answer (--require-gold refuses such records): 2 records; f.jsonl:2",
    );
    let refused =
        graded_with("f.jsonl", &lines(&rows), None, |job| GradeJob { requires_gold: true, ..job });
    assert!(format!("{:#}", refused.err().unwrap()).contains("f.jsonl:2: no gold answer for `1`"));
    // An empty cell; a problem that the dataset lacks.
    let csv = graded_with("f.csv", "id,completion,gold\na,7,7\nb,7,\n", None, |job| job).unwrap();
    assert_eq!(numbers(&csv), [(1, 1)]);
    let rows = [json!({"id": "1", "completion": "3"}), json!({"id": "9", "completion": "3"})];
    let lacking = graded(&lines(&rows), Some(&sums(3)));
    assert_eq!(numbers(&lacking), [(1, 1)]);
    has_note(&lacking, "has no such problem");
    // A file without any is refused.
    let none = graded_with("f.jsonl", "{\"id\":1,\"completion\":\"7\"}\n", None, |job| job);
    assert!(format!("{:#}", none.err().unwrap()).contains("f.jsonl:1: no gold answer"));
}

#[test]
fn a_gold_key_names_the_gold_answer_of_records_with_a_verdict() {
    let row =
        json!({"id": 1, "completion": "7", "answer": "7", "score": 1.0, "truth": {"value": 8}});
    let keyed = |key: &'static str| {
        graded_with("f.jsonl", &lines(std::slice::from_ref(&row)), None, |job| GradeJob {
            gold_key: Some(key),
            ..job
        })
    };
    assert_eq!(numbers(&keyed("answer").unwrap()), [(1, 1)]);
    assert_eq!(numbers(&keyed("truth.value").unwrap()), [(1, 0)]);
    assert!(keyed("none").is_err());
    let message = format!(
        "{:#}",
        graded_with("f.jsonl", &lines(std::slice::from_ref(&row)), None, |job| job).err().unwrap()
    );
    assert!(message.contains("--gold-key answer"), "{message}");
}

#[test]
fn a_failed_request_and_its_retry_are_one_sample() {
    let dataset = sums(4);
    let answer = |id: &str, request: &str, text: &str| {
        json!({"id": request, "custom_id": id, "error": null, "response": {"status_code": 200, "request_id": request,
            "body": {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}}})
    };
    let failure = |id: &str, request: &str| json!({"id": request, "custom_id": id, "response": null, "error": {"message": "server_error"}});
    let rows = [
        answer("0", "a0", "1"),
        failure("1", "a1"),
        answer("2", "a2", "5"),
        answer("1", "b1", "3"),
    ];
    let retried = graded(&lines(&rows), Some(&dataset));
    assert_eq!(numbers(&retried), [(1, 1), (1, 1), (1, 1)]);
    has_note(&retried, "1 failed requests were repeated and answered");
    // Answered before, failed again; failed twice; failed and never made again.
    let rows = [
        answer("0", "a0", "1"),
        failure("0", "b0"),
        failure("1", "a1"),
        failure("1", "b1"),
        answer("2", "a2", "5"),
    ];
    assert_eq!(numbers(&graded(&lines(&rows), Some(&dataset))), [(1, 1), (1, 0), (1, 1)]);
    // Batches of four, joined: one request of a problem failed for good.
    let mut rows: Vec<Value> = (0..8)
        .map(|i| answer(&(i % 2).to_string(), &format!("r{i}"), &(i % 2 * 2 + 1).to_string()))
        .collect();
    rows[3] = failure("1", "r3");
    assert_eq!(numbers(&graded(&lines(&rows), Some(&dataset))), [(4, 4), (4, 3)]);
}

#[test]
fn every_choice_of_inspect_is_a_sample_and_a_filter_is_a_failure() {
    let row = |epoch: usize, choices: Value| json!({"id": 1, "epoch": epoch, "input": "What?", "target": "7", "output": {"choices": choices}});
    let choice = |text: &str, reason: &str| json!({"message": {"role": "assistant", "content": text}, "stop_reason": reason});
    let four = json!([
        choice("7", "stop"),
        choice("7", "stop"),
        choice("9", "stop"),
        choice("9", "max_tokens")
    ]);
    let graded_four =
        graded(&lines(&[row(1, four.clone()), row(2, four.clone()), row(2, four)]), None);
    assert_eq!(numbers(&graded_four), [(8, 4)]);
    assert_eq!(graded_four.tallies[0].truncated, 2);
    let filtered: Vec<Value> = (0..4)
        .map(|i| {
            row(
                i,
                json!([if i % 2 == 0 {
                    choice("7", "stop")
                } else {
                    choice("Sorry", "content_filter")
                }]),
            )
        })
        .collect();
    let wrong = graded(&lines(&filtered), None);
    let tally = &wrong.tallies[0];
    assert_eq!((tally.samples, tally.correct, tally.failed, tally.truncated), (4, 2, 2, 0));
    has_note(&wrong, "2 completions failed, were refused or have no text");
    let unjudged = graded_with("f.jsonl", &lines(&filtered), None, |job| GradeJob {
        rules: Rules { failed: crate::rules::Failed::Unjudged, ..Rules::default() },
        ..job
    });
    assert_eq!(numbers(&unjudged.unwrap()), [(2, 2)]);
}

#[test]
fn each_item_of_a_list_that_lm_eval_wrote_as_text_is_right() {
    let row = |target: &str, document: Value, answer: &str| json!({"doc_id": 0, "doc": document, "doc_hash": "h", "target": target, "resps": [[answer]], "filter": "none"});
    let correct = |target: &str, document: Value, answer: &str| {
        graded(&lines(&[row(target, document, answer)]), None).tallies[0].correct
    };
    for (target, answer, count) in [
        ("['3', '3.0']", "3", 1),
        ("[3, 3.0]", "3", 1),
        ("['three', '4']", "4", 1),
        ("[\"it's\", '4']", "4", 1),
        ("['\\\\frac{1}{2}']", "0.5", 1),
        ("['3']", "4", 0),
        ("('3', '5')", "5", 1),
    ] {
        assert_eq!(correct(target, json!({"q": "Q"}), answer), count, "{target}");
    }
    // An interval that the document has as it is, is one answer.
    let interval = json!({"problem": "p", "solution": "so $\\boxed{[0, 1]}$", "answer": "[0, 1]"});
    assert_eq!(correct("[0, 1]", interval.clone(), "\\boxed{[0, 1]}"), 1);
    assert_eq!(correct("[0, 1]", interval, "\\boxed{0}"), 0);
}

#[test]
fn complete_runs_of_lm_eval_are_samples_and_repeated_lines_count_once() {
    let row = |doc: usize, answer: &str| json!({"doc_id": doc, "doc_hash": format!("h{doc}"), "target": "7", "resps": [[answer]], "filter": "none"});
    let run = |answer: &str| -> Vec<Value> { (0..5).map(|doc| row(doc, answer)).collect() };
    let joined = [run("7"), run("7"), run("7"), run("8")].concat();
    let four = graded(&lines(&joined), None);
    assert_eq!(numbers(&four), [(4, 3); 5]);
    has_note(&four, "10 lines are equal to lines of another run of lm-eval");
    // One file twice; a run that was resumed.
    let twice = graded(&lines(&[run("7"), run("7")].concat()), None);
    assert_eq!(numbers(&twice), [(1, 1); 5]);
    has_note(&twice, "5 samples occur more than once and are counted once");
    let resumed = [&run("7")[..3], &run("7")[2..]].concat();
    assert_eq!(numbers(&graded(&lines(&resumed), None)), [(1, 1); 5]);
    // Of two filters one is read: the runs are told apart by its lines alone.
    let filtered: Vec<Value> = joined
        .iter()
        .flat_map(|row| {
            ["strict", "loose"].map(|filter| {
                let mut row = row.clone();
                row["filter"] = json!(filter);
                row
            })
        })
        .collect();
    assert_eq!(numbers(&graded(&lines(&filtered), None)), [(4, 3); 5]);
}

#[test]
fn the_files_solution_classes_are_used() {
    let distinct = |rows: &[Value]| {
        let graded = graded(&lines(rows), None);
        has_note(&graded, "the file gives the solution class of");
        assert!(graded.classes > 0);
        graded.tallies[0].classes.at(crate::Level::Solution).distinct()
    };
    let row = |text: &str, key: &str, class: &str| json!({"id": 1, "gold": "7", "completion": text, key: class});
    for key in ["class", "solution_class"] {
        assert_eq!(
            distinct(&[row("7", key, "a"), row("3 + 4 = 7", key, "a"), row("7", key, "b")]),
            2,
            "{key}"
        );
    }
    let several = json!({"id": 1, "gold": "7", "completions": ["7", "7", "so 7"], "classes": ["a", "b", "a"]});
    assert_eq!(distinct(&[several]), 2);
    let inside = json!({"id": 1, "gold": "7", "completions": [{"text": "7", "class": "a"}, {"text": "7", "class": "b"}]});
    assert_eq!(distinct(&[inside]), 2);
}

#[test]
fn tables_are_read_whatever_separates_their_columns() {
    for (name, text) in [
        ("f.csv", "id,completion,gold\na,\\boxed{2},2\n"),
        ("f.csv", "id;completion;gold\na;\\boxed{2};2\n"),
        ("f.csv", "sep=;\nid;completion;gold\na;\\boxed{2};2\n"),
        ("f.csv", "\u{feff}sep=;\r\nid;completion;gold\r\na;\\boxed{2};2\r\n"),
        ("f.csv", "id;completion;gold;not, read, at, all\na;\\boxed{2};2;x\n"),
        ("f.csv", "\u{feff}id;completion;gold\r\na;\\boxed{2};2\r\n"),
        ("f.csv", "\"id\";\"completion\";\"gold\"\na;\"1, 2; so \\boxed{2}\";2\n"),
        ("f.tsv", "id\tcompletion\tgold\na\t\\boxed{2}\t2\n"),
        ("f.csv", "id|completion|gold\na|\\boxed{2}|2\n"),
        ("F.TSV.gz", "id\tcompletion\tgold\na\t\\boxed{2}\t2"),
    ] {
        let graded =
            graded_with(name, text, None, |job| job).unwrap_or_else(|e| panic!("{text}: {e:#}"));
        assert_eq!((numbers(&graded), &*graded.problems[0].id), (vec![(1, 1)], "a"), "{text}");
    }
    let unnamed = graded_with("f.txt", "id\tcompletion\tgold\na\t2\t2\n", None, |job| job);
    assert!(format!("{:#}", unnamed.err().unwrap()).contains("must end in .csv or .tsv"));
    let unequal = graded_with("f.csv", "completion;gold\n2;2\n1;5;2\n", None, |job| job);
    let message = format!("{:#}", unequal.err().unwrap());
    assert!(message.contains("f.csv:3: 3 columns where the header has 2: put cells"), "{message}");
}

#[test]
fn responses_of_a_client_are_read_as_the_server_gave_them() {
    let choices = json!([
        {"message": {"content": "7"}, "finish_reason": "stop"},
        {"message": {"content": "7"}, "finish_reason": "length"},
        {"message": {"content": null, "refusal": "no"}, "finish_reason": "stop"},
        {"message": {"content": [{"type": "text", "text": "8"}]}, "finish_reason": "end_turn"},
    ]);
    let response = json!({"id": "chatcmpl-1", "object": "chat.completion", "choices": choices});
    for row in [
        json!({"id": 1, "gold": "7", "response": response}),
        json!({"id": 1, "gold": "7", "choices": choices}),
        json!({"id": 1, "gold": "7", "output": {"choices": choices}}),
    ] {
        let tally = &graded(&lines(&[row]), None).tallies[0];
        let counts = (tally.samples, tally.correct, tally.truncated, tally.failed);
        assert_eq!(counts, (4, 1, 1, 1));
    }
    // The options of a question are no completions.
    let options =
        json!({"id": 1, "gold": "B", "choices": ["A", "B"], "completion": "The answer is B"});
    assert_eq!(numbers(&graded(&lines(&[options]), None)), [(1, 1)]);
}

#[test]
fn golds_of_verifiers_and_in_objects_are_read() {
    let rollout = |id: usize, text: &str| {
        json!({"example_id": id, "prompt": [{"role": "user", "content": "What is 1 + 1?"}], "completion":
            [{"role": "assistant", "content": text}], "reward": 1.0, "answer": "2", "info": {}, "is_truncated": false})
    };
    let rows = [rollout(0, "\\boxed{2}"), rollout(0, "\\boxed{3}"), rollout(1, "2")];
    assert_eq!(numbers(&graded(&lines(&rows), None)), [(2, 1), (1, 1)]);
    for gts in [
        json!({"target": ["5"]}),
        json!({"ground_truth": "5"}),
        json!({"target": 5, "numbers": [2, 3]}),
        json!(["5"]),
        json!("5"),
    ] {
        let row = json!({"input": "user\nWhat is 2 + 3?\nassistant\n", "output": "\\boxed{5}", "gts": gts, "score": 1.0});
        assert_eq!(numbers(&graded(&lines(&[row]), None)), [(1, 1)], "{gts}");
    }
}

#[test]
fn a_number_that_python_writes_as_nan_is_null() {
    let judged = |key: &str| {
        let line = format!("{{\"id\":1,\"completion\":\"7\",\"gold\":7,\"{key}\":NaN}}\n");
        graded_with("f.jsonl", &line, None, |job| job).unwrap().tallies[0].correct
    };
    assert_eq!([judged("logp"), judged("perplexity")], [1, 1]);
}

#[test]
fn rows_of_csv_are_limited_and_named_by_their_line() {
    let verifier = verify::open("math").unwrap();
    let grade = |text: &str| {
        let mut source = Source::new(text.as_bytes(), "f.csv")?;
        GradeJob::new(&*verifier).run(&mut source, &mut |_| Ok(()))
    };
    let message = |text: &str| format!("{:#}", grade(text).err().expect("refused"));
    assert_eq!(
        numbers(&grade("id,completion,gold\na,\"x, y\nso it is 7\",7\nb,,8\n").unwrap()),
        [(1, 1), (1, 0)]
    );
    assert!(message("id,id\n1,2\n").contains("the column `id` occurs twice"));
    assert!(message("id,completion,gold\na,7,\n").contains("f.csv:2: no gold answer for `a`"));
    // Beyond what was read ahead with the row before.
    let endless = format!("id,completion,gold\na,\"{}", "x".repeat((64 << 20) + (1 << 17)));
    assert!(message(&endless).contains("a row of more than"), "limited");
}
