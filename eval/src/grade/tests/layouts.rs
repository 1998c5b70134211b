//! Files whose ids and numbers mean something else than they seem to say, and runs that were written twice.

use serde_json::{Value, json};

use super::{grade_file, lines};
use crate::grade::Graded;

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
    let error = grade_file("f.jsonl", &lines(&many), |job| job).err().expect("refused");
    assert!(format!("{error:#}").contains("ids seem to number the samples of a prompt"));
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
        has_note(&found, "the number does not identify samples, and all are counted");
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
    has_note(&found, "1 sample occurs more than once; each counts once; 1 with another text");
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
