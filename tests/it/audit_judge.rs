//! `tealight audit --judge-engine`: strategies by a model on a server, whose replies are kept and never guessed.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::binary::{Folder, ok, printed, refusal, refused};
use crate::support::hub::json_answer;
use crate::support::server::serve;

/// A server whose model replies to what it is asked; and all requests.
fn judge(
    reply: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let address = serve(move |request| {
        if request.method == "GET" {
            return json_answer(&json!({"data": [{"id": "served", "owned_by": "vllm"}]}));
        }
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let text = reply(body["messages"][1]["content"].as_str().expect("a chat"));
        log.lock().expect("log").push(body);
        let choice =
            json!({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
        json_answer(&json!({"model": "served", "choices": [choice]}))
    });
    (address, seen)
}

/// Groups solutions by their first word.
fn by_first_word(asked: &str) -> String {
    let solutions = asked.split("<solution ").skip(1);
    let words: Vec<&str> = solutions.filter_map(|text| text.split_whitespace().nth(1)).collect();
    let group = |word: &&str| 1 + words.iter().position(|other| other == word).expect("there");
    format!("They differ.\n{:?}\n", words.iter().map(group).collect::<Vec<_>>())
}

/// 12 problems with 6 correct answers of so many ways, in words that differ.
fn file(folder: &Folder, name: &str, ways: usize) -> String {
    let line = |i: usize| {
        let answer = |j: usize| format!("way{} of {name} {j} in {i} gives \\boxed{{7}}", j % ways);
        let all: Vec<String> = (0..6).map(answer).collect();
        json!({"id": i, "prompt": format!("Problem {i}?"), "gold": "7", "completions": all})
    };
    folder.write(name, (0..12).map(|i| format!("{}\n", line(i))).collect::<String>())
}

#[test]
fn a_judge_model_counts_strategies_and_its_replies_are_kept() {
    let folder = Folder::new();
    let (base, tuned) = (file(&folder, "base.jsonl", 3), file(&folder, "tuned.jsonl", 1));
    let (address, seen) = judge(|asked| match asked.contains("Problem 5?") {
        true => "[1, 1, 1]\nI will not say more.".into(),
        false => by_first_word(asked),
    });
    let output = folder.path("audit");
    let options = ["--judge-engine", &address, "--judge-model", "served", "--output", &output];
    let arguments = [&["audit", &base, &tuned], options.as_slice()].concat();
    let text = printed(&arguments);
    let read = || -> Value {
        let text = std::fs::read(Path::new(&output).join("audit.json")).expect("audit.json");
        serde_json::from_slice::<Value>(&text).expect("JSON")["tuned"][0]["judged"].clone()
    };
    let found = read();
    assert_eq!((&found["correct"], &found["asked"]), (&json!(4), &json!(12)), "{found}");
    assert_eq!((&found["unreadable"], &found["distinct"]), (&json!(1), &json!([3.0, 1.0])));
    assert!(found["change"]["high"].as_f64() < Some(0.0), "{found}");
    // Texts all differ: of 28 pairs the judge takes 1 of the base, 6 of the tuned model and 8 between them for one way.
    let agreement = found["agreement"].as_array().expect("pairs");
    let text_way = agreement.iter().find(|one| one[0] == "text").expect("text");
    assert!((text_way[1].as_f64().expect("a share") - 13.0 / 28.0).abs() < 1e-9, "{found}");
    assert!(text.contains("By the judge served, among 4 correct answers"), "{text}");
    assert!(text.contains("unreadable replies, left out: 1"), "{text}");
    let first = seen.lock().expect("log").len();
    assert_eq!(first, 12);
    assert!(seen.lock().expect("log").iter().all(|body| body["temperature"].as_f64() == Some(0.0)));
    // Again: only what could not be read is asked for once more.
    ok(&[arguments.as_slice(), &["--overwrite"]].concat());
    assert_eq!(seen.lock().expect("log").len(), first + 1);
    assert_eq!(read(), found);
}

#[test]
fn a_judge_that_says_nothing_readable_claims_nothing() {
    let folder = Folder::new();
    let (base, tuned) = (file(&folder, "base.jsonl", 3), file(&folder, "tuned.jsonl", 1));
    let (address, _) = judge(|_| "[".repeat(100_000));
    let text = printed(&["audit", &base, &tuned, "--judge-engine", &address, "--judge-model", "m"]);
    assert!(
        text.contains("too few replies to compare (unreadable replies, left out: 12)"),
        "{text}"
    );
    refused!("audit {base} {tuned} --judge-engine {address}" => "--judge-model MODEL need each other");
    let options = ["--judge-engine", "http://127.0.0.1:9", "--judge-model", "m"];
    let nobody = refusal(&[["audit", &base, &tuned].as_slice(), &options].concat());
    assert!(
        nobody.contains("--judge-engine http://127.0.0.1:9: no server answers there"),
        "{nobody}"
    );
}
