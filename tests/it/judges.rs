//! Judges that fail and commands that end: what could not be judged is counted apart, programs end with us, signals
//! are heard.
#![cfg(unix)]

use crate::graded::with;
use crate::support::binary::{Folder, command, ok, refused, stderr_of, tealight};
use crate::support::processes::{self, spawned};
use crate::support::runs::{FEW, summary};
use serde_json::json;
use std::process::Command;

#[test]
fn unjudged_completions_are_counted_with_reasons() {
    let folder = Folder::new();
    // One gold in three cannot be read.
    let lines = [("a", "2"), ("b", "2"), ("c", "\\frac{{{")].map(|(id, gold)| {
        json!({"id": id, "completion": "\\boxed{2}", "gold": gold}).to_string() + "\n"
    });
    let file = folder.write("c.jsonl", lines.concat());
    let output = folder.path("graded");
    let done = tealight(command!("grade {file} --output {output}"));
    let text = stderr_of(&done);
    assert_eq!(done.status.code(), Some(3), "{text}");
    assert!(text.contains("problem `c`: the gold") && text.contains("--max-unjudged"), "{text}");
    let found = summary(&output);
    assert_eq!([&found["problems"], &found["unjudged"]], [2, 1]);
    assert_eq!(found["pass@k"]["1"]["value"], 1.0);
    ok(command!("grade {file} --output {} --max-unjudged 0.5", folder.path("again")));
    let page = std::fs::read_to_string(format!("{output}/report.html")).expect("a page");
    assert!(page.contains("could not be judged"), "the page warns too");
    // A program that crashes on some completions, and one that answers once too often.
    let script = r#"while read -r line; do n=${line#*\"request\":}; n=${n%%,*}
        case "$line" in *'"completion":"8'*) exit 1 ;; esac
        echo "{\"request\":$n,\"verdict\":\"correct\"}"; echo "{\"request\":$n,\"verdict\":\"wrong\"}"; done"#;
    let program = format!("program:sh {}", folder.write("judge.sh", script));
    let output = folder.path("judged");
    let line = format!(
        "eval --output {output} -n 16 -k 1,16 --no-greedy --verifier JUDGE {FEW} --max-unjudged 1"
    );
    let text = ok(&with(&line, &program));
    assert!(text.contains("the verifier failed") && text.contains("repeats no"), "{text}");
    assert_eq!(summary(&output)["pass@k"]["1"]["value"], 1.0, "no verdict is another's");
}

#[test]
fn a_failing_verifier_is_reported_once_with_the_reason() {
    let folder = Folder::new();
    let function = "def judge(gold, completion):\n    return len(completion) > 2 and 1 / 0\n";
    let spec = format!("python:{}:judge", folder.write("judge.py", function));
    let reason = "ZeroDivisionError: division by zero (judge.py, line 2)";
    let line = |id: usize, text: &str| {
        json!({"id": id, "completion": text, "gold": "7"}).to_string() + "\n"
    };
    let all: String = (0..5).map(|id| line(id, "long")).collect();
    let file = folder.write("some.jsonl", format!("{}{all}", line(9, "8")));
    for more in ["", &format!("--output {}", folder.path("graded"))] {
        let done = tealight(command!("grade {file} --verifier {spec} {more}"));
        let text = stderr_of(&done);
        assert_eq!(done.status.code(), Some(3), "{text}");
        assert_eq!(text.matches(reason).count(), 1, "{text}");
    }
    let all = folder.write("all.jsonl", all);
    refused!("grade {all} --verifier {spec}" => "no completion could be judged: problem `", reason);
    let (eval, train) = (folder.path("eval"), folder.path("train"));
    let function = "def judge(gold, completion):\n    return completion == gold or 1 / 0\n";
    folder.write("judge.py", function);
    refused!(
        "eval -n 2 -k 1 --output {eval} --verifier {spec} {FEW}"
        => "no completion could be judged: problem `", reason
    );
    refused!(
        "train --max-steps 1 --prompts-per-step 2 --num-generations 4 {FEW} --output {train} --verifier {spec}"
        => reason, "mend the verifier"
    );
}

#[test]
fn a_verifier_that_rejects_the_gold_answer_is_reported_before_sampling() {
    let folder = Folder::new();
    let script = r#"while read -r line; do n=${line#*\"request\":}; n=${n%%,*}
        echo "{\"request\":$n,\"verdict\":\"wrong\",\"why\":\"no tag\"}"; done"#;
    let program = format!("program:sh {}", folder.write("judge.sh", script));
    let rows = folder.write("rows.jsonl", "{\"prompt\": \"Is ice cold?\", \"answer\": \"yes\"}\n");
    let eval = |dataset: &str| {
        let line = format!("eval --dataset {dataset} -n 1 -k 1 --no-greedy {FEW} --verifier JUDGE");
        ok(&with(&line, &program))
    };
    let text = eval(&rows);
    let warnings: Vec<&str> =
        text.lines().filter(|line| line.contains("gold answer `yes` of")).collect();
    assert_eq!(warnings.len(), 1, "{text}");
    assert!(warnings[0].contains("incorrect (no tag)"), "{text}");
    // The gold answers of a generated task are its instances.
    assert!(!eval("countdown").contains("as the completion"), "instances are no answers");
}

#[test]
fn verifier_programs_end_with_their_parent() {
    let folder = Folder::new();
    let mark = format!("{}", 70_000 + std::process::id() % 9_000);
    let script = folder.write("judge.sh", format!("sleep {mark} & while :; do :; done\n"));
    let program = format!("program:timeout=60:sh {script}");
    let runs = |mark: &str| {
        let list = Command::new("ps").args(["-A", "-o", "args"]).output().expect("ps");
        String::from_utf8_lossy(&list.stdout).lines().any(|line| line.contains(mark))
    };
    let wait_for = |wanted: bool| {
        (0..150).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            runs(&format!("sleep {mark}")) == wanted
        })
    };
    for signal in ["-INT", "-KILL"] {
        let output = folder.path(&format!("e{signal}"));
        let line = format!("eval --output {output} -n 1 -k 1 --verifier JUDGE {FEW}");
        let mut child = spawned(&with(&line, &program));
        assert!(wait_for(true), "the program runs");
        for _ in 0..2 {
            // It may have ended between the two.
            let _ = Command::new("kill").args([signal, &child.id().to_string()]).status();
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        child.wait().expect("ends");
        assert!(wait_for(false), "the program and its child are gone after {signal}");
        assert!(!runs(&script), "and so is the busy loop");
    }
}

#[test]
fn a_command_with_nothing_to_save_ends_at_once() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut child = spawned("bench --model countdown --reps 1000 --max-seconds 600");
        std::thread::sleep(std::time::Duration::from_millis(700));
        processes::signal(signal, child.id());
        let started = std::time::Instant::now();
        assert_eq!(child.wait().expect("ends").code(), Some(code));
        assert!(started.elapsed().as_secs() < 5);
    }
}
