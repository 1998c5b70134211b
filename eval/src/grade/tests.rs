//! Lines of every form, judged and refused.

use super::*;
use crate::evaluate::Alone;
use serde_json::json;
use tealight_datasets::verify;

fn run(text: &str) -> Result<Graded> {
    let verifier = verify::open("math").unwrap();
    let how = (&*verifier, false);
    grade(text.as_bytes(), "f.jsonl", None, how, &Alone, &mut |_| Ok(()))
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
    assert_eq!((known.truncated, known.mean_length), (Some(0.5), Some(6.0)));
    let cut = run("{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"id\":2,\"comp").unwrap();
    assert_eq!((cut.completions, cut.notes.len()), (1, 1));
}

#[test]
fn a_chunk_ends_by_text_and_by_completions() {
    let verifier = verify::open("math").unwrap();
    let chunks = |text: &str| {
        let (how, mut sizes) = ((&*verifier, false), Vec::new());
        let mut sink = |samples: &[Sample]| {
            sizes.push(samples.len());
            Ok(())
        };
        grade(text.as_bytes(), "f.jsonl", None, how, &Alone, &mut sink).unwrap();
        sizes
    };
    let line = |completions: usize| {
        let list = vec!["\"\""; completions].join(",");
        format!("{{\"id\":1,\"gold\":7,\"completions\":[{list}]}}\n")
    };
    assert_eq!(chunks(&line(CHUNK_COMMAS).repeat(2)), [CHUNK_COMMAS; 2]);
    assert_eq!(chunks(&line(3).repeat(CHUNK + 1)), [3 * CHUNK, 3]);
    let text = format!("{}\n", "x".repeat((1 << 20) - 1)).repeat(70);
    let mut lines = Lines::new(text.as_bytes());
    assert_eq!([chunk(&mut lines), chunk(&mut lines)].map(|it| it.unwrap().len()), [65, 5]);
}

#[test]
fn a_line_has_a_most_of_completions() {
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
    let tally = &run(&format!("{told}\n{failed}\n")).unwrap().tallies[0];
    assert_eq!((tally.samples, tally.correct, tally.unjudged), (1, 0, 1));
    let message = format!("{:#}", run(&format!("{told}\n{told}\n")).err().expect("twice"));
    assert!(message.contains("f.jsonl:2: sample 3 of problem `a` is there twice"), "{message}");
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
        (r#"{"custom_id":"a","response":{"status_code":500},"error":null}"#, "failed in its batch"),
    ] {
        let text = format!("{}\n", text.trim_end());
        let message = format!("{:#}", run(&text).err().expect("refused"));
        assert!(message.contains(words), "{message}");
    }
}
