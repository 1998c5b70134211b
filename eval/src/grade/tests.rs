//! Records of every form, judged and refused: `records.jsonl` lists them with what they come to.

mod formats;
mod layouts;
mod overlap;

use super::sample_ids::before_number;
use super::*;
use std::fmt::Debug;

use crate::rules::{Failed, Truncated};
use crate::{Level, Summary};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tealight_datasets::verify;

/// A file of records, how it is graded, and what that comes to: counts or a refusal.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    /// What it shows.
    case: String,
    /// The records, one a line of JSON.
    rows: Vec<Value>,
    /// The file in their place, where it is no plain JSON.
    text: String,
    /// Its name; f.jsonl unless given.
    file: Option<String>,
    /// Rows of --dataset.
    dataset: Vec<Value>,
    gold_key: Option<String>,
    completion_key: Option<String>,
    starts_inside: bool,
    filter: Option<String>,
    requires_gold: bool,
    failed: Failed,
    truncated: Truncated,
    missing: Missing,
    /// The samples and the correct ones of each problem.
    counts: Option<Vec<(usize, usize)>>,
    ids: Option<Vec<String>>,
    /// Further counts, summed over the problems.
    tally: Map<String, Value>,
    /// Distinct correct answers of the first problem.
    classes: Option<usize>,
    /// Completions whose class the file names.
    named_classes: Option<usize>,
    models: Option<Vec<String>>,
    /// Settings of sampling that the file names.
    sampling: BTreeMap<String, String>,
    /// Part of the prompt, and the right choice, of the first problem.
    prompt: String,
    choice: Option<String>,
    /// What notes say, and how many there are.
    note: Vec<String>,
    notes: Option<usize>,
    /// What the error says.
    refused: Vec<String>,
}

/// Lines of JSON.
fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// Grades a file of this name by the verifier of mathematics.
fn grade_file(
    name: &str,
    text: &str,
    change: impl for<'a> FnOnce(GradeJob<'a>) -> GradeJob<'a>,
) -> Result<Graded> {
    let verifier = verify::open("math").unwrap();
    let mut source = Source::new(text.as_bytes(), name)?;
    change(GradeJob::new(&*verifier)).run(&mut source, &mut |_| Ok(()))
}

fn grade(rows: &[Value]) -> Graded {
    grade_file("f.jsonl", &lines(rows), |job| job).unwrap()
}

impl Case {
    fn grade(&self) -> Result<Graded> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ds.jsonl").display().to_string();
        std::fs::write(&path, lines(&self.dataset)).unwrap();
        let open = || tealight_datasets::open(&path, &Default::default(), None).unwrap();
        let dataset = (!self.dataset.is_empty()).then(open);
        let text = lines(&self.rows) + &self.text;
        let verifier = verify::open("math").unwrap();
        let job = GradeJob {
            dataset: dataset.as_ref(),
            filter: self.filter.as_deref(),
            keys: Keys {
                gold: self.gold_key.as_deref(),
                completion: self.completion_key.as_deref(),
                verdict: None,
            },
            starts_inside: self.starts_inside,
            requires_gold: self.requires_gold,
            rules: Rules { truncated: self.truncated, failed: self.failed },
            missing: self.missing,
            ..GradeJob::new(&*verifier)
        };
        let name = self.file.as_deref().unwrap_or("f.jsonl");
        job.run(&mut Source::new(text.as_bytes(), name)?, &mut |_| Ok(()))
    }

    /// What differs from what is listed.
    fn differences(&self) -> Vec<String> {
        let graded = match (self.grade(), &self.counts) {
            (Ok(graded), Some(_)) => graded,
            (Ok(graded), None) => return vec![format!("graded as {:?}", graded.tallies)],
            (Err(error), Some(_)) => return vec![format!("refused: {error:#}")],
            (Err(error), None) => {
                let error = format!("{error:#}");
                let lacks = |words: &&String| !error.contains(words.as_str());
                let lacking = self.refused.iter().filter(lacks);
                return lacking.map(|words| format!("no `{words}` in {error}")).collect();
            }
        };
        let tallies = &graded.tallies;
        let counts = tallies.iter().map(|tally| (tally.samples, tally.correct)).collect();
        let ids = tallies.iter().map(|tally| tally.problem.clone()).collect();
        let sum = |key: &String| -> u64 {
            let count = |tally| serde_json::to_value(tally).unwrap()[key].as_u64().unwrap_or(0);
            tallies.iter().map(count).sum()
        };
        let sums = self.tally.keys().map(|key| (key.clone(), sum(key).into())).collect();
        let setting = |key: &String| graded.sampling.get(key.as_str()).cloned().unwrap_or_default();
        let settings = self.sampling.keys().map(|key| (key.clone(), setting(key))).collect();
        let (first, problem) = (&tallies[0], &graded.problems[0]);
        let differing = [
            other(counts, self.counts.as_ref()),
            other(ids, self.ids.as_ref()),
            other(sums, Some(&self.tally)),
            other(first.classes.at(Level::Solution).distinct(), self.classes.as_ref()),
            other(graded.classes, self.named_classes.as_ref()),
            other(graded.models, self.models.as_ref()),
            other(settings, Some(&self.sampling)),
            other(problem.choice.as_ref(), self.choice.as_ref().map(Some).as_ref()),
            other(graded.notes.len(), self.notes.as_ref()),
        ];
        let prompt = problem.prompt.plain();
        let is_there = |words: &&String| {
            let has = |text: &str| text.contains(words.as_str());
            graded.notes.iter().any(|note| has(note)) || has(&prompt) && **words == self.prompt
        };
        let lacking = self.note.iter().chain([&self.prompt]).filter(|words| !is_there(words));
        let lacking = lacking.map(|words| format!("no `{words}` in {:?} {prompt}", graded.notes));
        differing.into_iter().flatten().chain(lacking).collect()
    }
}

/// What was found beside what is listed, where that is another.
fn other<T: Debug + PartialEq>(found: T, listed: Option<&T>) -> Option<String> {
    let listed = listed.filter(|listed| **listed != found)?;
    Some(format!("{found:?} and not {listed:?}"))
}

#[test]
fn listed_records_come_to_what_is_listed() {
    let cases = include_str!("tests/records.jsonl").lines();
    let cases: Vec<Case> = cases.map(|line| serde_json::from_str(line).unwrap()).collect();
    let failures = cases.iter().flat_map(|case| {
        let said = case.differences().into_iter();
        said.map(|difference| format!("{}: {difference}", case.case))
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn unknown_lengths_and_endings_are_not_zero() {
    let summary = |rows: &[Value]| Summary::new(&grade(rows).tallies, &[1]).unwrap();
    let unknown = summary(&[json!({"id": 1, "completion": "7", "gold": 7})]);
    assert_eq!((unknown.truncated, unknown.mean_length), (None, None));
    let known = summary(&[
        json!({"id": 1, "completion": "7", "gold": 7, "finish_reason": "length", "tokens": 4}),
        json!({"id": 1, "completion": "7", "gold": 7, "finish_reason": "stop", "tokens": 8}),
        json!({"id": 1, "completion": "7", "gold": 7}),
    ]);
    assert_eq!((known.truncated, known.mean_length), (Some(1.0 / 3.0), Some(6.0)));
}

#[test]
fn a_chunk_ends_by_text_and_by_completions() {
    let verifier = verify::open("math").unwrap();
    let chunks = |text: &str| {
        let mut sizes = Vec::new();
        let mut sink = |chunk: &JudgedChunk| {
            sizes.push(chunk.samples.len());
            Ok(())
        };
        let mut source = Source::new(text.as_bytes(), "f.jsonl").unwrap();
        GradeJob::new(&*verifier).run(&mut source, &mut sink).unwrap();
        sizes
    };
    let line = |completions: usize| {
        let list = vec!["\"\""; completions].join(",");
        format!("{{\"id\":1,\"gold\":7,\"completions\":[{list}]}}\n")
    };
    assert_eq!(chunks(&line(CHUNK_COMMAS).repeat(2)), [CHUNK_COMMAS; 2]);
    assert_eq!(chunks(&line(3).repeat(CHUNK + 1)), [3 * CHUNK, 3]);
    let text = format!("{}\n", "x".repeat((1 << 20) - 1)).repeat(14);
    let mut source = Source::new(text.as_bytes(), "f.jsonl").unwrap();
    assert_eq!([chunk(&mut source), chunk(&mut source)].map(|it| it.unwrap().len()), [9, 5]);
}

#[test]
fn completions_of_a_record_and_bytes_of_a_row_are_limited() {
    let list = vec!["\"\""; line::MAX_ANSWERS + 1].join(",");
    let many = "f.jsonl:2: `1` has more than 1048576 completions";
    // Beyond what was read ahead with the row before.
    let endless = "x".repeat((64 << 20) + (1 << 17));
    for (name, text, words) in [
        ("f.jsonl", format!("\n{{\"id\":1,\"gold\":7,\"completions\":[{list}]}}\n"), many),
        ("f.jsonl", format!("\n{{\"doc_id\":1,\"target\":7,\"resps\":[[{list}]]}}\n"), many),
        ("f.csv", format!("id,completion,gold\na,\"{endless}"), "a row of more than"),
    ] {
        let message = format!("{:#}", grade_file(name, &text, |job| job).err().expect("refused"));
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn what_stands_before_the_number_of_a_sample_names_the_problem() {
    for (id, stem) in [
        ("p7-3", Some("p7")),
        ("math/12_sample_0", Some("math/12")),
        ("p7/run-3", Some("p7")),
        ("p7#3", Some("p7")),
        ("p7_s3", Some("p7")),
        ("p7(3)", Some("p7")),
        ("gen3-p7", None),
        ("n1-0", Some("n1")),
        ("p7", None),
        ("7", None),
        ("-7", None),
    ] {
        assert_eq!(before_number(id), stem, "{id}");
    }
}
