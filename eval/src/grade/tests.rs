//! Records of every form, judged and refused: `records.jsonl` lists them with what they come to.

mod formats;
mod layouts;
mod overlap;

use super::known::before_number;
use super::*;
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
            gold_key: self.gold_key.as_deref(),
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
        let counts: Vec<(usize, usize)> =
            tallies.iter().map(|tally| (tally.samples, tally.correct)).collect();
        let ids: Vec<String> = tallies.iter().map(|tally| tally.problem.clone()).collect();
        let sum = |key: &String| -> u64 {
            let count = |tally| serde_json::to_value(tally).unwrap()[key].as_u64().unwrap_or(0);
            tallies.iter().map(count).sum()
        };
        let sums: Map<String, Value> =
            self.tally.keys().map(|key| (key.clone(), sum(key).into())).collect();
        let classes = tallies[0].classes.at(Level::Solution).distinct();
        let pairs = [
            (format!("{:?}", Some(counts)), format!("{:?}", self.counts)),
            (format!("{ids:?}"), format!("{:?}", self.ids.as_ref().unwrap_or(&ids))),
            (format!("{sums:?}"), format!("{:?}", self.tally)),
            (classes.to_string(), self.classes.unwrap_or(classes).to_string()),
            (graded.notes.len().to_string(), self.notes.unwrap_or(graded.notes.len()).to_string()),
        ];
        let differing = pairs.into_iter().filter(|(found, listed)| found != listed);
        let differing = differing.map(|(found, listed)| format!("{found} and not {listed}"));
        let lacks =
            |words: &&String| !graded.notes.iter().any(|note| note.contains(words.as_str()));
        let lacking = self.note.iter().filter(lacks);
        let lacking = lacking.map(|words| format!("no `{words}` in {:?}", graded.notes));
        differing.chain(lacking).collect()
    }
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
        ("p7", None),
        ("7", None),
        ("-7", None),
    ] {
        assert_eq!(before_number(id), stem, "{id}");
    }
}

#[test]
fn models_sampling_prompts_and_choices_are_read() {
    let row = |model: &str| json!({"id": "a", "gold": "1", "completion": "1", "model": model});
    assert_eq!(grade(&[row("base"), row("tuned"), row("base")]).models, ["base", "tuned"]);
    let nodes = json!([{"message": {"role": "user", "content": "How many?"}, "sampled": false},
        {"message": {"role": "assistant", "content": "7"}, "sampled": true}]);
    let episode = grade(&[json!({"task": {"data": {"prompt": "How many?", "answer": "7"}},
        "traces": [{"nodes": nodes, "agent": {"config": {"sampling": {"temperature": 0.5}}}}]})]);
    assert_eq!(episode.sampling["temperature"], "0.5");
    assert!(episode.problems[0].prompt.plain().contains("How many?"));
    let choice = json!({"message": {"content": "ANSWER: B"}, "stop_reason": "stop"});
    let inspect = grade(&[json!({"id": "0", "epoch": 1, "input": "What is 0 + 1?", "target": "B",
        "choices": ["134", "133"], "output": {"choices": [choice]}})]);
    assert_eq!(inspect.problems[0].choice.as_deref(), Some("133"));
}
