//! Every format that is read: the files of `tests/fixtures/grade` hold the same four completions, as each program wrote
//! them or as `make.py` there lays them out.

use std::path::PathBuf;

use tealight_datasets::{open, read::Columns, verify};

use super::*;

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/grade");
    folder.join(name).display().to_string()
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

#[test]
fn every_format_gives_the_same_counts() {
    for (name, has_dataset) in [
        ("own.jsonl", false),
        ("own.jsonl.gz", false),
        ("own.jsonl.zst", false),
        ("own_one_line.json", false),
        ("own_pretty.json", false),
        ("own.csv", false),
        ("own_lists.jsonl", false),
        ("chats.jsonl", false),
        ("vllm.jsonl", false),
        ("tealight.jsonl", true),
        ("openai_chat.jsonl", true),
        ("openai_responses.jsonl", true),
        ("anthropic.jsonl", true),
        ("lm_eval.jsonl", false),
        ("inspect.eval", false),
        ("inspect_written.eval", false),
        ("inspect.json", false),
        ("inspect_one_line.json", false),
        ("evalscope_reviews.jsonl", false),
        ("evalscope_predictions.jsonl", true),
        ("lighteval.parquet", false),
        ("opencompass.json", false),
        ("opencompass_one_line.json", false),
        ("simple_evals.jsonl", false),
        ("qwen_math.jsonl", false),
        ("verl.jsonl", false),
        ("verl.jsonl", true),
        ("openrlhf.jsonl", true),
        ("trl.parquet", false),
        ("trl.parquet", true),
    ] {
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
        let verifier = verify::open("math").unwrap();
        let graded = Source::open(&path)
            .and_then(|mut source| GradeJob::new(&*verifier).run(&mut source, &mut |_| Ok(())));
        graded.map(|graded| graded.completions).map_err(|error| format!("{error:#}"))
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
    assert!(message.ends_with("a folder; name one of its files of completions"), "{message}");
}

/// Every prefix and single changed byte of binary fixtures is read or refused, never a panic.
#[test]
fn damaged_archives_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.eval").display().to_string();
    let bytes = std::fs::read(fixture("inspect.eval")).unwrap();
    let verifier = verify::open("math").unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let graded = Source::open(&path)
            .and_then(|mut source| GradeJob::new(&*verifier).run(&mut source, &mut |_| Ok(())));
        drop(graded);
    };
    for at in (0..bytes.len()).step_by(7) {
        read(&bytes[..at]);
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        read(&changed);
    }
}
