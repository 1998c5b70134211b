//! Lines of every form, judged and refused.

mod cases;
mod formats;
mod layouts;
mod matching;
mod overlap;
mod strangers;

use super::*;
use crate::Truncated;
use crate::rules::Failed;
use serde_json::json;
use tealight_datasets::verify;

fn run_with(
    text: &str,
    change: impl for<'a> FnOnce(GradeJob<'a>) -> GradeJob<'a>,
) -> Result<Graded> {
    let verifier = verify::open("math").unwrap();
    let mut source = Source::new(text.as_bytes(), "f.jsonl")?;
    change(GradeJob::new(&*verifier)).run(&mut source, &mut |_| Ok(()))
}

fn run(text: &str) -> Result<Graded> {
    run_with(text, |job| job)
}

/// Samples and correct ones of each problem.
fn numbers(graded: &Graded) -> Vec<(usize, usize)> {
    graded.tallies.iter().map(|tally| (tally.samples, tally.correct)).collect()
}

#[test]
fn every_form_of_line_is_counted() {
    let graded = run(concat!(
        r#"{"id":"a","completion":"\\boxed{7}","gold":7}"#,
        "\n\n",
        r#"{"id":"b","completions":["it is 3","4"],"answer":"4"}"#,
        "\n",
        r#"{"id":"a","completion":"8","gold":"7"}"#,
        "\n"
    ))
    .unwrap();
    let counts: Vec<_> =
        graded.tallies.iter().map(|t| (t.problem.as_str(), t.samples, t.correct)).collect();
    assert_eq!(counts, [("a", 2, 1), ("b", 2, 1)]);
    let harness =
        run(r#"{"doc_id":3,"target":"72","resps":[["72","71"],["the answer is 72"]]}"#).unwrap();
    assert_eq!((harness.tallies[0].samples, harness.tallies[0].correct), (3, 2));
    let summary = |graded: &Graded| crate::Summary::new(&graded.tallies, &[1]).unwrap();
    let unknown = summary(&harness);
    assert_eq!((unknown.truncated, unknown.mean_length), (None, None), "unknown is not zero");
    let known = run(concat!(
        r#"{"id":1,"completion":"7","gold":7,"finish_reason":"length","tokens":4}"#,
        "\n",
        r#"{"id":1,"completion":"7","gold":7,"finish_reason":"stop","tokens":8}"#,
        "\n",
        r#"{"id":1,"completion":"7","gold":7}"#,
        "\n"
    ));
    let known = summary(&known.unwrap());
    assert_eq!((known.truncated, known.mean_length), (Some(1.0 / 3.0), Some(6.0)));
    let cut = run("{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"id\":2,\"comp").unwrap();
    assert_eq!((cut.completions, cut.notes.len()), (1, 1));
    let whole =
        run("{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"completion\":\"7\",\"gold\":7}");
    let message = format!("{:#}", whole.err().expect("a whole line that is wrong"));
    assert!(message.contains("f.jsonl:2: no `id`"), "{message}");
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
fn too_many_completions_on_a_line_are_refused() {
    let list = vec!["\"\""; line::MAX_ANSWERS + 1].join(",");
    for list in [
        format!("{{\"id\":1,\"gold\":7,\"completions\":[{list}]}}\n"),
        format!("{{\"doc_id\":1,\"target\":7,\"resps\":[[{list}]]}}\n"),
    ] {
        let message = format!("{:#}", run(&format!("\n{list}")).err().expect("refused"));
        assert!(message.contains("f.jsonl:2: `1` has more than 1048576 completions"), "{message}");
    }
}

#[test]
fn samples_of_an_evaluation_are_judged_by_the_gold_and_not_by_their_own_answer() {
    let line = json!({"problem": "a", "sample": 3, "completion": "it is 8", "verdict": "wrong",
        "answer": "8", "is_finished": true, "tokens": 4, "logp": -1.0});
    let mut bare = line.clone();
    for key in ["is_finished", "tokens", "logp"] {
        bare.as_object_mut().unwrap().remove(key);
    }
    for line in [&line, &bare] {
        let message = format!("{:#}", run(&line.to_string()).err().expect("no gold"));
        assert!(message.contains("no gold answer for `a`: the line holds a verdict"), "{message}");
    }
    let mut told = line.clone();
    told["gold"] = json!(7);
    let mut failed = line;
    (failed["gold"], failed["failure"]) = (json!(7), json!("the server was gone"));
    failed["sample"] = json!(4);
    let both = format!("{told}\n{failed}\n");
    let tally = &run(&both).unwrap().tallies[0];
    assert_eq!((tally.samples, tally.correct, tally.unjudged, tally.failed), (2, 0, 0, 1));
    let unjudged = run_with(&both, |job| GradeJob {
        rules: Rules { failed: Failed::Unjudged, ..job.rules },
        ..job
    })
    .unwrap();
    assert_eq!((unjudged.tallies[0].samples, unjudged.tallies[0].unjudged), (1, 1));
    let twice = run(&format!("{told}\n{told}\n")).unwrap();
    assert_eq!((twice.completions, twice.notes.len()), (1, 1), "{:?}", twice.notes);
}

#[test]
fn bad_lines_are_refused_by_number() {
    for (text, words) in [
        ("{\"id\":\"a\",\"gold\":7}\n", "f.jsonl:1: `a` has no completion"),
        ("{\"id\":\"a\",\"completion\":\"7\"}\n", "no gold answer for `a`"),
        ("\n{oops\n", "f.jsonl:2: not JSON"),
        ("{\"completion\":\"7\",\"gold\":\"7\"}\n", "no `id`"),
        (
            "{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"id\":1,\"completion\":\"7\",\"gold\":8}\n",
            "f.jsonl:2: problem `1` has the gold `8` here and `7` before",
        ),
        ("{\"id\":1,\"id\":2,\"completion\":\"7\",\"gold\":7}", "the key `id` occurs twice"),
        (
            "{\"id\":1,\"completion\":\"7\",\"completions\":[\"7\"],\"gold\":7}",
            "`completion` beside `completions`",
        ),
        ("{\"id\":1,\"completion\":\"7\",\"gold\":7,\"tokens\":-3}", "`tokens` is -3"),
        ("{\"id\":1,\"completion\":\"7\",\"gold\":7,\"tokens\":1.5}", "`tokens` is 1.5"),
        (
            "{\"doc_id\":1,\"arguments\":{},\"target\":\"7\"}",
            "an lm-eval samples file without `resps`",
        ),
        ("{\"resps\":[[\"7\"]],\"target\":\"7\"}", "an lm-eval samples file without `doc_id`"),
        ("{\"doc_id\":1,\"resps\":[[\"7\"]]}", "no gold answer for `1` in an lm-eval samples file"),
        ("{\"doc_id\":1,\"target\":\"7\",\"resps\":[[[\"-1.25\",\"True\"]]]}", "multiple choice"),
        (
            "{\"custom_id\":1,\"method\":\"POST\",\"url\":\"/v1\",\"body\":{}}",
            "requests of an OpenAI batch",
        ),
        ("{\"results\":{},\"configs\":{}}", "results of a harness without completions"),
        ("{\"score:std\":0.4,\"score\":0.7}", "scores of simple-evals"),
        ("7", "a record is a JSON object"),
    ] {
        let text = format!("{}\n", text.trim_end());
        let message = format!("{:#}", run(&text).err().expect("refused"));
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn one_filter_of_lm_eval_is_read_and_named() {
    let line = |filter: &str, doc: usize| {
        format!(
            "{{\"doc_id\":{doc},\"doc\":{{\"q\":{doc}}},\"target\":\"7\",\"resps\":[[\"7\",\"8\"]],\"filter\":\"{filter}\"}}\n"
        )
    };
    let text = [line("strict", 0), line("strict", 1), line("loose", 0), line("loose", 1)].concat();
    let graded = run(&text).unwrap();
    assert_eq!(numbers(&graded), [(2, 1), (2, 1)]);
    assert!(
        graded.notes[0].contains("`strict` are read; 2 lines of `loose`"),
        "{:?}",
        graded.notes
    );
    let graded = run_with(&text, |job| GradeJob { filter: Some("loose"), ..job }).unwrap();
    assert_eq!(numbers(&graded), [(2, 1), (2, 1)]);
    let refused = run_with(&text, |job| GradeJob { filter: Some("none"), ..job });
    let message = format!("{:#}", refused.err().expect("no such filter"));
    assert!(
        message.contains("no line has the filter `none`; the filters are `loose`, `strict`"),
        "{message}"
    );
    let none = run_with("{\"id\":1,\"completion\":\"7\",\"gold\":7}\n", |job| GradeJob {
        filter: Some("x"),
        ..job
    });
    assert!(format!("{:#}", none.err().expect("no filter")).contains("only samples of lm-eval"));
    // Each of several targets is right.
    let several = run(r#"{"doc_id":0,"target":["7","seven","8"],"resps":[["8"],["9"]]}"#).unwrap();
    assert_eq!(numbers(&several), [(2, 1)]);
}

#[test]
fn failed_requests_and_refusals_are_counted_with_their_reason() {
    let text = concat!(
        r#"{"custom_id":"a","response":{"status_code":200,"body":{"choices":[{"message":{"content":null,"refusal":"I can't"},"finish_reason":"stop"}]}},"error":null}"#,
        "\n",
        r#"{"custom_id":"b","response":null,"error":{"code":"batch_expired","message":"too late"}}"#,
        "\n",
        r#"{"custom_id":"c","response":{"status_code":200,"body":{"choices":[{"message":{"content":null,"reasoning_content":"Let me"},"finish_reason":"length"}]}},"error":null}"#,
        "\n",
        r#"{"custom_id":"d","response":{"status_code":200,"body":{"choices":[{"message":{"content":"7"},"finish_reason":"stop"}]}},"error":null}"#,
        "\n"
    );
    let verifier = verify::open("math").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    let rows = ["a", "b", "c", "d", "e"]
        .map(|id| format!("{{\"id\":\"{id}\",\"question\":\"q{id}\",\"answer\":\"7\"}}\n"));
    std::fs::write(&path, rows.concat()).unwrap();
    let open = |path: &std::path::Path| {
        tealight_datasets::open(&path.display().to_string(), &Default::default(), None).unwrap()
    };
    let dataset = open(&path);
    let grade = |failed: Failed, missing: Missing| {
        let job = GradeJob {
            dataset: Some(&dataset),
            rules: Rules { failed, ..Rules::default() },
            missing,
            ..GradeJob::new(&*verifier)
        };
        job.run(&mut Source::new(text.as_bytes(), "f.jsonl").unwrap(), &mut |_| Ok(())).unwrap()
    };
    let wrong = grade(Failed::Wrong, Missing::LeftOut);
    assert_eq!(numbers(&wrong), [(1, 0), (1, 0), (1, 0), (1, 1)]);
    assert!(
        wrong.notes[0]
            .contains("2 completions failed, were refused or have no text, and count as incorrect"),
        "{:?}",
        wrong.notes
    );
    for why in ["`a`: refused: I can't", "`b`: too late"] {
        assert!(wrong.notes[0].contains(why), "{:?}", wrong.notes);
    }
    assert!(
        wrong.notes[1].contains("1 problems of the dataset have no completion, such as `e`"),
        "{:?}",
        wrong.notes
    );
    let summary = crate::Summary::new(&wrong.tallies, &[1]).unwrap();
    assert_eq!((summary.failed, summary.pass_at_k[&1].value), (2, 0.25));
    let all = grade(Failed::Unjudged, Missing::Wrong);
    // A thought that reached the limit is a truncated completion, and no failure.
    assert_eq!(numbers(&all), [(0, 0), (0, 0), (1, 0), (1, 1), (1, 0)]);
    assert_eq!(all.tallies.iter().map(|tally| tally.unjudged).sum::<usize>(), 2);
}

#[test]
fn ends_decide_by_the_rule_and_unknown_ones_are_reported() {
    let line = |reason: &str| {
        format!("{{\"id\":1,\"completion\":\"7\",\"gold\":7,\"finish_reason\":{reason}}}\n")
    };
    let text = [
        line("\"length\""),
        line("{\"type\":\"stop\",\"matched\":3}"),
        line("\"end_turn\""),
        line("\"bored\""),
        line("\"bored\""),
    ];
    let graded = run(&text.concat()).unwrap();
    let tally = &graded.tallies[0];
    assert_eq!(
        (tally.samples, tally.correct, tally.truncated, tally.truncated_correct),
        (5, 4, 1, 1)
    );
    assert!(graded.notes[0].contains("`bored` of 2 completions is unknown"), "{:?}", graded.notes);
    let judged = run_with(&text.concat(), |job| GradeJob {
        rules: Rules { truncated: Truncated::Judged, ..job.rules },
        ..job
    })
    .unwrap();
    assert_eq!((judged.tallies[0].correct, judged.tallies[0].truncated), (5, 1));
}

#[test]
fn duplicate_samples_count_once() {
    let line = |sample: usize, seed: usize, text: &str| {
        format!(
            "{{\"id\":\"a\",\"completion\":\"{text}\",\"gold\":\"5\",\"sample\":{sample},\"seed\":{seed}}}\n"
        )
    };
    let text =
        [line(0, 0, "5"), line(1, 0, "6"), line(0, 0, "5"), line(1, 0, "7"), line(0, 1, "5")]
            .concat();
    let graded = run(&text).unwrap();
    assert_eq!(numbers(&graded), [(3, 2)]);
    assert!(
        graded.notes[0].contains("2 samples occur more than once and are counted once; 1 of them"),
        "{:?}",
        graded.notes
    );
    // Equal texts are samples of their own where nothing says which they are.
    let plain = "{\"id\":\"a\",\"completion\":\"5\",\"gold\":\"5\",\"seed\":1}\n".repeat(4);
    assert_eq!(numbers(&run(&plain).unwrap()), [(4, 4)]);
    let request = r#"{"id":"r1","custom_id":"a","response":{"status_code":200,"body":{"choices":[{"text":"5"},{"text":"6"}]}}}"#;
    let batch =
        format!("{{\"id\":\"a\",\"completion\":\"5\",\"gold\":\"5\"}}\n{request}\n{request}\n");
    assert_eq!(numbers(&run(&batch).unwrap()), [(3, 2)]);
}

#[test]
fn problems_with_one_id_are_told_apart_by_their_prompts() {
    let line = |prompt: &str, completion: &str| {
        format!(
            "{{\"id\":0,\"prompt\":\"{prompt}\",\"completion\":\"{completion}\",\"gold\":\"5\"}}\n"
        )
    };
    let graded =
        run(&[line("Q1?", "5"), line("Q2?", "6"), line("Q1?", "6"), line("Q2?", "5")].concat())
            .unwrap();
    assert_eq!(numbers(&graded), [(2, 1), (2, 1)]);
    assert!(graded.problems[1].id.starts_with("0~"), "{}", graded.problems[1].id);
    assert!(graded.notes[0].contains("1 ids are shared by several problems"), "{:?}", graded.notes);
    let hashed = |hash: &str, gold: usize| {
        format!(
            "{{\"doc_id\":0,\"doc\":{{}},\"doc_hash\":\"{hash}\",\"target\":{gold},\"resps\":[[\"3\"]]}}\n"
        )
    };
    assert_eq!(
        numbers(&run(&[hashed("aa", 3), hashed("bb", 4)].concat()).unwrap()),
        [(1, 1), (1, 0)]
    );
}

#[test]
fn long_numbers_keep_their_digits() {
    let line = |id: &str, gold: &str, text: &str| {
        format!("{{\"id\":{id},\"gold\":{gold},\"completion\":\"{text}\"}}\n")
    };
    let text = [
        line("123456789012345678901", "18446744073709551616", "18446744073709551616"),
        line("123456789012345678902", "18446744073709551616", "18446744073709551617"),
        line("3", "0.1", "0.1"),
        line("3.0", "0.1", "0.2"),
    ];
    let graded = run(&text.concat()).unwrap();
    assert_eq!(numbers(&graded), [(1, 1), (1, 0), (2, 1)]);
    assert_eq!(graded.problems[1].id, "123456789012345678902");
}

#[test]
fn ids_from_zero_against_rows_from_one_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl").display().to_string();
    let rows = "{\"question\":\"q0\",\"answer\":\"21\"}\n{\"question\":\"q1\",\"answer\":\"22\"}\n";
    std::fs::write(&path, rows).unwrap();
    let dataset = tealight_datasets::open(&path, &Default::default(), None).unwrap();
    let verifier = verify::open("math").unwrap();
    let grade = |text: &str| {
        let job = GradeJob { dataset: Some(&dataset), ..GradeJob::new(&*verifier) };
        job.run(&mut Source::new(text.as_bytes(), "f.jsonl").unwrap(), &mut |_| Ok(()))
    };
    for text in [
        "{\"id\":\"0\",\"completion\":\"21\"}\n{\"id\":\"1\",\"completion\":\"22\"}\n",
        "{\"index\":1,\"model_output\":{\"choices\":[{\"message\":{\"content\":\"22\"}}]}}\n",
    ] {
        let message = format!("{:#}", grade(text).err().expect("refused"));
        assert!(
            message.contains("count from 0") && message.contains("those of rows from 1"),
            "{message}"
        );
    }
    let graded =
        grade("{\"id\":\"1\",\"completion\":\"21\"}\n{\"prompt\":\"q1\",\"completion\":\"22\"}\n")
            .unwrap();
    assert_eq!(numbers(&graded), [(1, 1), (1, 1)]);
    assert!(graded.notes[0].contains("those of its rows, from 1"), "{:?}", graded.notes);
}
