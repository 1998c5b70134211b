//! What a server's choices, refusals and moves mean for an evaluation: every choice is a sample, none is drawn again.

use serde_json::{Value, json};

use crate::engine::{Engine, Mood, eval};
use crate::support::binary::{Folder, command, has, stderr_of, tealight};
use crate::support::runs::summary;

#[test]
fn choices_without_text_are_samples_and_never_drawn_again() {
    let folder = Folder::new();
    let holey = Engine::start(&[Mood::Holey; 6]);
    let output = folder.path("holey");
    let done = eval(&holey, &output, "--engine-kwargs concurrency=2");
    let stderr = stderr_of(&done);
    assert!(done.status.success(), "{stderr}");
    // One request a problem: nothing was asked for again.
    assert_eq!(holey.seen.lock().expect("log").len(), 6);
    let counts = summary(&output);
    assert_eq!([&counts["failed"], &counts["n"], &counts["unjudged"]], [12, 4, 0]);
    has(
        &stderr,
        &["a sample without an answer", "12 completions without an answer", "--failed unjudged"],
    );
    // The same samples by the other rule.
    assert!(eval(&holey, &output, "--failed unjudged --max-unjudged 1").status.success());
    assert_eq!(holey.seen.lock().expect("log").len(), 6);
    let counts = summary(&output);
    assert_eq!((&counts["failed"], &counts["unjudged"]), (&Value::Null, &json!(12)));
}

#[test]
fn a_refused_prompt_is_counted_apart_and_the_others_are_sampled() {
    let folder = Folder::new();
    for (mood, why) in [
        (Mood::TooLong, "the server refused the prompt: 400 maximum context length is 10 tokens"),
        (Mood::Mute, "the server returned no completion"),
    ] {
        let engine = Engine::start(&[Mood::Good, mood, mood]);
        let output = folder.path(&format!("{}", why.len()));
        let options = "--engine-kwargs retries=1,concurrency=1 --max-unjudged 1";
        let done = eval(&engine, &output, options);
        let stderr = stderr_of(&done);
        assert!(done.status.success() && stderr.contains("4 of 4 samples failed"), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
        let counts = summary(&output);
        let lost = if mood == Mood::TooLong { [8, 2] } else { [4, 1] };
        assert_eq!([&counts["unjudged"], &counts["unjudged_problems"]], lost);
        assert_eq!((&counts["problems"], &counts["failed"]), (&json!(6 - lost[1]), &Value::Null));
        // Judging again does not make them wrong, under no rule.
        let again = "--verifier regex:x --max-unjudged 1 --failed wrong";
        let again = eval(&engine, &output, again);
        assert!(again.status.success(), "{}", stderr_of(&again));
        assert_eq!(summary(&output)["unjudged"], lost[0]);
    }
}

#[test]
fn samples_go_on_when_the_server_moves() {
    let folder = Folder::new();
    let (first, second) = (Engine::start(&[]), Engine::start(&[]));
    let output = folder.path("moved");
    let run = |engine: &Engine, n: &str, model: &str| {
        let (engine, few) = (&engine.address, "--max-samples 2 -k 1 --no-greedy");
        tealight(command!("eval --engine {engine} -n {n} --model {model} {few} --output {output}"))
    };
    assert!(run(&first, "4", "served").status.success());
    let done = run(&second, "6", "served");
    let stderr = stderr_of(&done);
    assert!(done.status.success(), "{stderr}");
    assert!(stderr.contains(&first.address) && stderr.contains(&second.address), "{stderr}");
    assert_eq!(summary(&output)["n"], 6);
    assert_eq!(second.seen.lock().expect("log")[0]["n"], 2);
    let renamed = run(&second, "6", "other");
    assert!(!renamed.status.success(), "another model's samples are others");
}
