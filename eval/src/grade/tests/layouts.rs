//! Layouts of files that mean something else than their keys seem to say: joined tasks, lists of messages, numbers of
//! samples, runs that were written twice.

use serde_json::{Value, json};

use super::{grade_file, lines};
use crate::grade::{GradeJob, Graded};

fn graded(text: &str) -> Graded {
    grade_file("f.jsonl", text, |job| job).unwrap()
}

/// The samples and the correct ones of each problem.
fn numbers(graded: &Graded) -> Vec<(usize, usize)> {
    graded.tallies.iter().map(|tally| (tally.samples, tally.correct)).collect()
}

fn has_note(graded: &Graded, words: &str) {
    assert!(graded.notes.iter().any(|note| note.contains(words)), "{words}: {:?}", graded.notes);
}

fn refused(name: &str, rows: &str) -> String {
    format!("{:#}", grade_file(name, rows, |job| job).err().expect("refused"))
}

#[test]
fn a_task_without_the_files_filter_is_read_under_its_own() {
    let row = |id: usize, task: &str, filter: &str| {
        json!({"doc_id": id, "doc_hash": format!("{task}{id}"), "doc": {}, "target": "7", "resps": [["7", "8"]],
            "filter": filter, "arguments": {}})
    };
    let task =
        |name: &'static str, filter: &'static str| (0..3).map(move |id| row(id, name, filter));
    let strict: Vec<Value> = task("a", "strict").chain(task("a", "loose")).collect();
    let plain: Vec<Value> = task("b", "none").collect();
    let turns =
        |rows: &[&Value]| (0..6).map(|i| rows[i / 2 + 3 * (i % 2)].clone()).collect::<Vec<_>>();
    let by_document = turns(&strict.iter().collect::<Vec<_>>());
    for (rows, filter, left_out, own) in [
        (
            [&strict[..], &plain].concat(),
            None,
            "3 lines of `loose`",
            "3 problems without a line of the filter `strict`",
        ),
        (
            [&by_document[..], &plain].concat(),
            None,
            "3 lines of `loose`",
            "own first filter: `none` (3)",
        ),
        (
            [&plain[..], &strict].concat(),
            None,
            "3 lines of `loose`",
            "own first filter: `strict` (3)",
        ),
        (
            [&strict[..], &plain].concat(),
            Some("loose"),
            "3 lines of `strict`",
            "own first filter: `none` (3)",
        ),
        (
            [&by_document[..], &plain].concat(),
            Some("loose"),
            "3 lines of `strict`",
            "own first filter: `none` (3)",
        ),
    ] {
        let graded =
            grade_file("f.jsonl", &lines(&rows), |job| GradeJob { filter, ..job }).unwrap();
        assert_eq!(numbers(&graded), [(2, 1); 6]);
        has_note(&graded, left_out);
        has_note(&graded, own);
    }
    let none =
        grade_file("f.jsonl", &lines(&strict), |job| GradeJob { filter: Some("none"), ..job });
    let why = format!("{:#}", none.err().expect("refused"));
    assert!(
        why.contains("no line has the filter `none`; the filters are `loose`, `strict`"),
        "{why}"
    );
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
        let found = graded(&lines(std::slice::from_ref(&row)));
        assert_eq!(numbers(&found), [(samples, usize::div_ceil(samples, 2))], "{row}");
    }
    for text in
        ["['So 7.' 'So 8.']", "['So 7.'\n \"It's 8.\"]", "[{'role': 'assistant', 'content': '7'}]"]
    {
        let row = json!({"id": 1, "gold": "7", "completions": text});
        assert!(
            refused("f.jsonl", &lines(&[row])).contains("as Python or numpy prints it"),
            "{text}"
        );
    }
}

#[test]
fn answers_one_for_each_completion_are_no_golds() {
    let row =
        |key: &str, answers: Value| json!({"id": 1, key: answers, "completions": ["7", "8", "8"]});
    let why = refused("f.jsonl", &lines(&[row("answer", json!(["7", "8", "8"]))]));
    assert!(why.contains("`answer` is a list with one for each of the 3 completions"), "{why}");
    let rows = lines(&[row("answer", json!(["7", "7.0", "seven"]))]);
    let named = grade_file("f.jsonl", &rows, |job| GradeJob { gold_key: Some("answer"), ..job });
    assert_eq!(numbers(&named.unwrap()), [(3, 1)]);
    for (key, answers) in [
        ("answer", json!(["7", "7", "7"])),
        ("answer", json!(["7", "7.0"])),
        ("gold", json!(["7", "x", "y"])),
    ] {
        assert_eq!(numbers(&graded(&lines(&[row(key, answers)]))), [(3, 1)]);
    }
}

/// Rows of `samples` completions of some problems, of which every other one is correct.
fn rows(samples: usize, row: impl Fn(usize, usize) -> Value) -> Vec<Value> {
    let one = |(problem, sample): (usize, usize)| {
        let mut one = row(problem, sample);
        one["prompt"] = json!(format!("What is {problem} + 1?"));
        one["gold"] = json!(problem + 1);
        one["completion"] =
            json!(format!("As {sample} says, \\boxed{{{}}}", problem + 1 + sample % 2));
        one
    };
    (0..6).flat_map(|problem| (0..samples).map(move |sample| (problem, sample))).map(one).collect()
}

#[test]
fn ids_that_come_with_every_prompt_number_samples() {
    for key in ["id", "idx", "example_id"] {
        let mut all = rows(4, |_, sample| json!({key: sample}));
        for _ in 0..2 {
            let found = graded(&lines(&all));
            assert_eq!(numbers(&found), [(4, 2); 6], "{key}");
            has_note(
                &found,
                "each id comes with every prompt, so ids number the samples; 24 records",
            );
            all.sort_by_key(|row| row[key].as_u64());
        }
        // A run that was written twice.
        all.extend(all.clone());
        assert_eq!(numbers(&graded(&lines(&all))), [(4, 2); 6]);
    }
    // Templates that come with every problem, and tasks whose ids begin at 0 again.
    let template = |row: &Value| {
        let mut row = row.clone();
        let sample = row["s"].as_u64();
        row["prompt"] = json!(["Box it.", "Think."][(sample.unwrap() % 2) as usize]);
        row
    };
    let all: Vec<Value> =
        rows(4, |id, sample| json!({"id": id, "s": sample})).iter().map(template).collect();
    assert_eq!(graded(&lines(&all)).problems.len(), 12);
    let tasks = rows(2, |problem, _| json!({"id": problem % 3}));
    assert_eq!(numbers(&graded(&lines(&tasks))), [(2, 1); 6]);
    // Beyond the first lines of a file nothing is grouped.
    let prompt = |i: usize| json!({"id": i / 4200, "prompt": format!("Q{}?", i % 4200), "gold": "7", "completion": "7"});
    let many: Vec<Value> = (0..8400).map(prompt).collect();
    assert!(
        refused("f.jsonl", &lines(&many)).contains("ids seem to number the samples of a prompt")
    );
}

#[test]
fn numbers_that_come_again_with_other_texts_number_no_samples() {
    for number in [
        |_, _| json!({"sample": 0}),
        |id, _| json!({"request_id": id}),
        |_, i| json!({"sample_index": i % 2}),
    ] {
        let number: fn(usize, usize) -> Value = number;
        let found = graded(&lines(&rows(4, number)));
        assert_eq!(numbers(&found), [(4, 2); 6]);
        has_note(&found, "it tells no samples apart, and all are counted");
    }
    // Most texts are equal.
    let equal = |row: &Value| {
        let is_other = row["prompt"].as_str().is_some_and(|prompt| prompt.contains("is 1"));
        let mut row = row.clone();
        row["completion"] = if is_other { row["completion"].clone() } else { json!("1") };
        row
    };
    let found = rows(8, |_, _| json!({"sample": 0})).iter().map(equal).collect::<Vec<_>>();
    assert_eq!(graded(&lines(&found)).completions, 48);
    // A run that was resumed wrote few samples twice.
    let mut all = rows(4, |_, sample| json!({"sample": sample}));
    all.push(json!({"sample": 3, "prompt": "What is 0 + 1?", "gold": "1", "completion": "So 1"}));
    let found = graded(&lines(&all));
    assert_eq!(numbers(&found), [(4, 2); 6]);
    has_note(
        &found,
        "1 samples occur more than once and are counted once; 1 of them with another text",
    );
}

#[test]
fn a_run_that_was_written_twice_is_noted() {
    let all = rows(4, |_, _| json!({}));
    let note = |rows: &[Value]| {
        let notes = graded(&lines(rows)).notes;
        notes.into_iter().find(|note| note.contains("a run twice"))
    };
    let twice = note(&[&all[..], &all].concat()).unwrap();
    assert!(twice.contains("6 of 6 problems repeat all their texts in the same order"), "{twice}");
    assert!(note(&[&all[..], &all, &all].concat()).is_some());
    // A run that was resumed at its fourth problem, and at its last.
    assert!(note(&[&all[..], &all[8..]].concat()).unwrap().contains("4 of 6 problems"));
    assert_eq!(note(&[&all[..], &all[20..]].concat()), None);
    assert_eq!(note(&all), None);
    let same = rows(4, |_, _| json!({})).into_iter().map(|mut row| {
        row["completion"] = json!("1");
        row
    });
    assert_eq!(note(&same.collect::<Vec<_>>()), None);
}

#[test]
fn a_problem_whose_gold_cannot_be_read_is_left_out_as_a_whole() {
    let row = |gold: Value| json!({"id": 1, "gold": gold, "completions": ["3 + +", "\\boxed{7}", "I do not know"]});
    let tally = |gold: Value| graded(&lines(&[row(gold)])).tallies.remove(0);
    let unread = tally(json!("3 + +"));
    assert_eq!((unread.samples, unread.unjudged), (0, 3));
    for (golds, correct) in [(json!(["3 + +", "7"]), 2), (json!(["3 + +", "8"]), 1)] {
        let either = tally(golds);
        assert_eq!((either.samples, either.correct, either.unjudged), (3, correct, 0));
    }
    // A name is compared as a text.
    let name = json!({"id": 1, "gold": "J. K. Rowling", "completions": ["It is J. K. Rowling.", "It is London."]});
    assert_eq!(numbers(&graded(&lines(&[name]))), [(2, 1)]);
}

#[test]
fn everyday_names_and_a_named_key_hold_completions() {
    for key in [
        "samples",
        "rollouts",
        "candidates",
        "texts",
        "model_outputs",
        "preds",
        "solutions",
        "model_answers",
    ] {
        let row = json!({"id": 1, "question": "6 + 1?", "gt_answer": "7", key: ["7", "8"], "is_corrects": [true, false]});
        assert_eq!(counts_of(&row), (2, 1), "{key}");
    }
    for key in ["model_output", "pred", "text"] {
        assert_eq!(
            counts_of(&json!({"id": 1, "question": "6 + 1?", "answer": "7", key: "So 7"})),
            (1, 1),
            "{key}"
        );
    }
    // The text of a problem, and an answer that was found in a completion.
    assert!(
        refused("f.jsonl", &lines(&[json!({"id": 1, "text": "6 + 1?", "answer": "7"})]))
            .contains("--completion-key")
    );
    assert_eq!(
        counts_of(&json!({"id": 1, "gold": "7", "completion": "So 7", "pred": "8"})),
        (1, 1)
    );
    let named = |row: Value| {
        grade_file("f.jsonl", &lines(&[row]), |job| GradeJob {
            completion_key: Some("said"),
            ..job
        })
    };
    for (said, samples) in [(json!("7"), 1), (json!(["7", "8"]), 2), (json!("[\"7\", \"8\"]"), 2)] {
        let graded = named(json!({"id": 1, "gold": "7", "said": said, "output": "9"})).unwrap();
        assert_eq!(numbers(&graded), [(samples, 1)]);
    }
    let why = format!(
        "{:#}",
        named(json!({"id": 1, "gold": "7", "output": "9"})).err().expect("refused")
    );
    assert!(
        why.contains("no key `said` (--completion-key): the record has `id`, `gold`, `output`"),
        "{why}"
    );
}

fn counts_of(row: &Value) -> (usize, usize) {
    numbers(&graded(&lines(std::slice::from_ref(row))))[0]
}

#[test]
fn one_answer_beside_several_judged_completions_is_the_gold() {
    let row =
        json!({"prompt": "6 + 1?", "completions": ["7", "8"], "answer": "7", "reward": [1.0, 0.0]});
    assert_eq!(counts_of(&row), (2, 1));
    let one = json!({"prompt": "6 + 1?", "completion": "7", "answer": "7", "reward": 1.0});
    assert!(refused("f.jsonl", &lines(&[one])).contains("--gold-key answer"));
}

#[test]
fn steps_settings_and_topics_of_plain_records_are_read() {
    let row = |step: usize| {
        json!({"id": step, "gold": "7", "completions": ["7", "7"], "global_step": step, "class": "algebra",
            "temperature": 0.7, "sampling_params": {"max_tokens": 64}})
    };
    let found = graded(&lines(&[row(1), row(2)]));
    assert_eq!(found.models, ["step 1", "step 2"]);
    assert_eq!(
        (&*found.sampling["temperature"], &*found.sampling["max_completion_length"]),
        ("0.7", "64")
    );
    assert_eq!(found.classes, 0);
    let trl = json!({"prompt": "6 + 1?", "solution": "7", "completion": "7", "advantage": 0.5, "step": 3});
    assert!(graded(&lines(&[trl])).models.is_empty());
    let listed = json!({"id": 1, "gold": "7", "completions": ["7", "7"], "class": ["a", "b"]});
    assert_eq!(graded(&lines(&[listed])).classes, 2);
}

#[test]
fn only_files_that_close_thoughts_begin_inside_them() {
    let file = |texts: [&str; 4]| {
        lines(&texts.map(|text| json!({"id": text, "gold": "7", "completion": text})))
    };
    let asked = |texts| {
        let job =
            grade_file("f.jsonl", &file(texts), |job| GradeJob { starts_inside: true, ..job });
        job.unwrap()
    };
    let thinks = ["6 + 1</think>\\boxed{7}", "is it \\boxed{7}", "So 7", "8</think>7"];
    assert_eq!(numbers(&asked(thinks)), [(1, 1), (1, 0), (1, 0), (1, 1)]);
    let plain = asked(["\\boxed{7}", "is it \\boxed{7}", "So 7", "8"]);
    assert_eq!(numbers(&plain), [(1, 1), (1, 1), (1, 1), (1, 0)]);
    has_note(&plain, "no completion of f.jsonl closes a thought");
    has_note(
        &graded(&file(thinks)),
        "2 of the first 4 completions close a thought that they did not open",
    );
    let opened = ["<think>6</think>7", "<think>7", "So 7", "<think>8</think>7"];
    assert!(graded(&file(opened)).notes.is_empty());
}

#[test]
fn verdicts_of_the_file_that_are_inverted_or_empty_are_noted() {
    let file = |verdict: fn(usize) -> bool| {
        let row = |i: usize| json!({"id": i, "gold": "7", "completion": (6 + i % 2).to_string(), "correct": verdict(i)});
        graded(&lines(&(0..10).map(row).collect::<Vec<_>>()))
    };
    has_note(&file(|i| i % 2 == 0), "differ on 10 of 10 completions");
    has_note(&file(|_| false), "the file calls none of 10 completions correct, and the verifier 5");
    assert!(file(|i| i % 2 == 1).notes.is_empty());
}

#[test]
fn collections_that_are_no_records_are_named() {
    for (name, text, why) in [
        (
            "f.json",
            r#"{"id":{"0":"a","1":"b"},"completion":{"0":"7","1":"8"}}"#,
            "a table by its columns (`id`, `completion`)",
        ),
        ("f.json", r#"{"id":["a","b"],"completion":["7","8"]}"#, "a table by its columns"),
        (
            "f.json",
            r#"{"a":{"completion":"7"},"b":{"completion":"8"}}"#,
            "records by their ids (`a`, `b`)",
        ),
        ("f.arrow", "ARROW1\0\0", "f.arrow: an Arrow file"),
    ] {
        let why_not = refused(name, text);
        assert!(why_not.contains(why), "{why_not}");
    }
    let pickle = crate::grade::Source::new(&b"\x80\x04\x95"[..], "f.pkl").unwrap_err().to_string();
    assert!(pickle.contains("f.pkl: a pickle of Python"), "{pickle}");
}
