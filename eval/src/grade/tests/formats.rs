//! Every format that is read: the files of `tests/fixtures/grade` hold the same four completions, as each program wrote
//! them or as `make.py` there lays them out.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tealight_datasets::{open, read::Columns, verify};

use super::*;

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/grade");
    folder.join(name).display().to_string()
}

/// Grades a file or a folder.
fn graded(path: &str) -> Result<Graded> {
    let verifier = verify::open("math").unwrap();
    GradeJob::new(&*verifier).run(&mut Source::open(path)?, &mut |_| Ok(()))
}

/// The id, samples and correct ones of each problem of a fixture.
fn counts(name: &str, has_dataset: bool) -> Vec<(String, usize, usize)> {
    let verifier = verify::open("math").unwrap();
    let dataset = open(&fixture("dataset.jsonl"), &Columns::default(), None).unwrap();
    let job = GradeJob { dataset: has_dataset.then_some(&dataset), ..GradeJob::new(&*verifier) };
    let mut source = Source::open(&fixture(name)).unwrap();
    let graded =
        job.run(&mut source, &mut |_| Ok(())).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    graded
        .tallies
        .iter()
        .map(|tally| (tally.problem.clone(), tally.samples, tally.correct))
        .collect()
}

/// The files, and with which the dataset is given.
const FILES: &str = "\
    own.jsonl own.jsonl.gz own.jsonl.zst own_one_line.json own_pretty.json own.csv own_lists.jsonl \
    chats.jsonl vllm.jsonl tealight.jsonl+dataset openai_chat.jsonl+dataset \
    openai_responses.jsonl+dataset anthropic.jsonl+dataset lm_eval.jsonl inspect.eval \
    inspect_written.eval inspect.json inspect_one_line.json evalscope_reviews.jsonl \
    evalscope_predictions.jsonl+dataset lighteval.parquet opencompass.json \
    opencompass_one_line.json simple_evals.jsonl qwen_math.jsonl verl.jsonl verl.jsonl+dataset \
    openrlhf.jsonl+dataset trl.parquet trl.parquet+dataset";

#[test]
fn every_format_gives_the_same_counts() {
    for word in FILES.split(' ') {
        let name = word.trim_end_matches("+dataset");
        let has_dataset = name != word;
        let found = counts(name, has_dataset);
        let numbers: Vec<_> =
            found.iter().map(|(_, samples, correct)| (*samples, *correct)).collect();
        assert_eq!(numbers, [(2, 1), (2, 2)], "{name}");
        // Without an id, the prompt names the problem, or the dataset's problem with that prompt.
        let by_prompt = name.starts_with("simple")
            || (name.starts_with("verl") || name == "trl.parquet") && !has_dataset;
        if by_prompt {
            assert!(found.iter().all(|(id, ..)| id.starts_with("prompt-")), "{name}: {found:?}");
        } else {
            assert_eq!([&*found[0].0, &*found[1].0], ["0", "1"], "{name}");
        }
    }
}

#[test]
fn altered_archives_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(fixture("inspect.eval")).unwrap();
    let read = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, bytes).unwrap();
        graded(&path).map(|graded| graded.completions).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(read("whole.eval", &bytes), Ok(4));
    let says = |name: &str, bytes: &[u8], why: &str| {
        let message = read(name, bytes).unwrap_err();
        assert!(message.contains(name) && message.contains(why), "{message}");
    };
    says("cut.eval", &bytes[..bytes.len() - 30], "a zip archive that cannot be read");
    // A byte of a stored sample is another one.
    let at = bytes
        .windows(6)
        .position(|part| part == b"24 + 8")
        .or_else(|| bytes.windows(4).position(|part| part == b"0.15"));
    if let Some(at) = at {
        let mut changed = bytes.clone();
        changed[at] = b'9';
        says("changed.eval", &changed, "Invalid checksum");
    }
    let mut without = bytes.clone();
    while let Some(at) = without.windows(8).position(|part| part == b"samples/") {
        without[at] = b'x';
    }
    says("without.eval", &without, "without `samples/*.json`");
    // Sizes that reach beyond the file: members that overlap unpack to much more than the archive holds.
    let mut overlapping = bytes;
    while let Some(at) = overlapping.windows(4).position(|part| part == b"PK\x01\x02") {
        overlapping[at + 22] = 0x7f;
        overlapping[at + 2] = 0xff;
    }
    let restored: Vec<u8> = overlapping
        .windows(1)
        .enumerate()
        .map(
            |(at, byte)| {
                if byte[0] == 0xff && overlapping[..at].ends_with(b"PK") { 1 } else { byte[0] }
            },
        )
        .collect();
    says("overlapping.eval", &restored, "whose members overlap");
    let message = Source::open(&folder.path().display().to_string()).err().unwrap().to_string();
    assert!(message.contains("a folder; name one of its files of completions"), "{message}");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_a_folder_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("completions_00001.parquet");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    for refused in [
        graded(folder.path().to_str().unwrap()).err(),
        Source::open_regular(pipe.to_str().unwrap()).err(),
    ] {
        let error = format!("{:#}", refused.expect("refused"));
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn what_is_packed_twice_is_refused_by_that_reason() {
    let once = std::fs::read(fixture("own.jsonl.gz")).unwrap();
    let mut twice = Vec::new();
    flate2::read::GzEncoder::new(&*once, flate2::Compression::fast())
        .read_to_end(&mut twice)
        .unwrap();
    let Err(error) = Source::new(&*twice, "f.jsonl") else { panic!("it is read") };
    let error = error.to_string();
    assert_eq!(error, "f.jsonl: packed twice: unpack it once");
}

/// Every prefix and single changed byte of binary fixtures is read or refused, never a panic.
#[test]
fn damaged_archives_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.eval").display().to_string();
    let bytes = std::fs::read(fixture("inspect.eval")).unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        drop(graded(&path));
    };
    for at in (0..bytes.len()).step_by(7) {
        read(&bytes[..at]);
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        read(&changed);
    }
}

#[test]
fn the_status_of_an_inspect_log_that_did_not_end_is_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let graded = graded(&folder.path().join(name).display().to_string());
        graded.map(|graded| graded.notes.join("\n")).map_err(|error| format!("{error:#}"))
    };
    let log: Value =
        serde_json::from_slice(&std::fs::read(fixture("inspect.json")).unwrap()).unwrap();
    let (mut failed, mut empty) = (log.clone(), log.clone());
    failed["status"] = "error".into();
    failed["error"] = json!({"message": "no more credit", "traceback": ""});
    failed["samples"].as_array_mut().unwrap().truncate(3);
    (empty["status"], empty["samples"]) = ("cancelled".into(), json!([]));
    let why = "has the status `error` (no more credit): its run did not end, and the log has 3 of 4 \
               planned samples";
    for (name, log) in [("whole.json", &log), ("failed.json", &failed), ("empty.json", &empty)] {
        let text = serde_json::to_string_pretty(log).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    assert!(!read("whole.json").unwrap().contains("status"));
    assert!(read("failed.json").unwrap().contains(why));
    let refused = read("empty.json").unwrap_err();
    assert!(refused.contains("without samples: its status is `cancelled`"), "{refused}");
    // The same as an archive, with the header that a run writes when it ends, or only what it writes first.
    let write = |name: &str, header: Option<&Value>, samples: &[Value]| {
        let file = std::fs::File::create(folder.path().join(name)).unwrap();
        let mut zip = zip::ZipWriter::new(file);
        let mut member = |name: String, value: &Value| {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            std::io::Write::write_all(&mut zip, value.to_string().as_bytes()).unwrap();
        };
        member("_journal/start.json".into(), &json!({"eval": log["eval"]}));
        let numbered = samples.iter().enumerate();
        numbered.for_each(|(i, one)| member(format!("samples/{i}_epoch_1.json"), one));
        header.into_iter().for_each(|header| member("header.json".into(), header));
        zip.finish().unwrap();
    };
    let samples = failed["samples"].as_array().unwrap();
    write("whole.eval", Some(&log), log["samples"].as_array().unwrap());
    write("failed.eval", Some(&failed), samples);
    write("killed.eval", None, samples);
    write("empty.eval", Some(&empty), &[]);
    assert!(!read("whole.eval").unwrap().contains("status"));
    assert!(read("failed.eval").unwrap().contains(why));
    assert!(read("killed.eval").unwrap().contains("the status `started`: its run did not end"));
    assert!(read("empty.eval").unwrap_err().contains("status `cancelled`"));
}

#[test]
fn a_folder_of_trl_is_read_step_by_step_and_another_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    // The second step trains on the completions of the first once more.
    for (step, name) in [(9, "trl.parquet"), (10, "trl.parquet"), (11, "trl_next.parquet")] {
        let to = format!("completions_{step}.parquet");
        std::fs::copy(fixture(name), folder.path().join(to)).unwrap();
    }
    let read = graded(&path).unwrap();
    let numbers: Vec<_> = read.tallies.iter().map(|one| (one.samples, one.correct)).collect();
    assert_eq!(numbers, [(4, 2), (4, 4)]);
    for part in [
        "3 training steps (9 to 11)",
        "completions_10.parquet has the completions of the step before",
    ] {
        assert!(read.notes[0].contains(part), "{:?}", read.notes);
    }
    // The file and the row of a mistake.
    std::fs::write(folder.path().join("completions_12.parquet"), "no table").unwrap();
    let message =
        |path: &Path| format!("{:#}", graded(&path.display().to_string()).err().expect("refused"));
    assert!(message(folder.path()).contains("completions_12.parquet: not a Parquet file"));
    // verl's validation: each step has all problems.
    let steps = tempfile::tempdir().unwrap();
    for step in [0, 20, 100] {
        std::fs::copy(fixture("verl.jsonl"), steps.path().join(format!("{step}.jsonl"))).unwrap();
    }
    let words = "name one of its files of completions, such as 100.jsonl";
    assert!(message(steps.path()).contains(words));
}

#[test]
fn verdicts_of_lm_eval_on_several_completions_are_read_as_what_its_filter_left() {
    let verifier = verify::open("math").unwrap();
    let read = |filter: &str, filtered: Value, key: &str, found: Value| {
        let mut row = json!({"doc_id": 0, "doc": {}, "target": "7", "filter": filter, "resps": [["7", "8", "a 7", "9"]]});
        (row["filtered_resps"], row[key]) = (json!([filtered]), found);
        let text = format!("{row}\n");
        let keys = Keys { verdict: Some(key), ..Keys::default() };
        let job = GradeJob { keys, ..GradeJob::new(&*verifier) };
        let mut verdicts = Vec::new();
        let mut source = Source::new(text.as_bytes(), "f.jsonl").unwrap();
        let graded = job.run(&mut source, &mut |chunk: &JudgedChunk| {
            verdicts.extend(chunk.samples.iter().map(|sample| sample.other_verdict));
            Ok(())
        });
        graded
            .map(|graded| (verdicts, graded.notes.join("\n")))
            .map_err(|error| format!("{error:#}"))
    };
    let yes = Some(1.0);
    // take_first, with a pattern that finds something and with one that does not.
    for left in ["7", "[invalid]"] {
        let (verdicts, notes) = read("get-answer", json!(left), "exact_match", json!(1.0)).unwrap();
        assert_eq!(verdicts, [yes, None, None, None]);
        assert!(notes.contains("judged the first completion alone of 1 record"), "{notes}");
    }
    // take_first_k, and a verdict on each.
    let (verdicts, notes) =
        read("k", json!(["7", "8", "7"]), "exact_match", json!([1, 0, true])).unwrap();
    assert_eq!((verdicts, notes.as_str()), (vec![yes, Some(0.0), yes, None], ""));
    // Their mean.
    let four = json!(["7", "8", "7", "9"]);
    let (verdicts, notes) = read("k", four.clone(), "pass@1", json!(0.5)).unwrap();
    assert_eq!(verdicts, [Some(0.5); 4]);
    assert!(notes.contains("the mean of several verdicts in 1 record"), "{notes}");
    // What is a verdict on no completion.
    for (filter, left, key, found) in [
        ("maj@4", json!("7"), "exact_match", json!(1.0)),
        ("vote", json!("88"), "exact_match", json!(0.0)),
        ("k", four.clone(), "pass@4", json!(1.0)),
        ("k", four, "f1", json!(0.37)),
    ] {
        let refused = read(filter, left, key, found).unwrap_err();
        assert!(refused.contains("no verdict on one of its 4 completions"), "{refused}");
    }
}
