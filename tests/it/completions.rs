//! Files of completions through the binary: sets and their names, rules for truncated completions, empty files.

use serde_json::Value;

use crate::support::binary::{Folder, command, has, ok, refused, stderr_of, stdout_of, tealight};
use crate::support::runs::{json, summary};

/// Samples of lm-eval, two of each of two problems; of the first `correct` are correct.
fn lm_eval(correct: usize) -> String {
    let line = |doc: usize| {
        let answer = |sample: usize| if sample < correct { "#### 7" } else { "#### 8" };
        format!(
            "{{\"doc_id\":{doc},\"doc\":{{\"q\":{doc}}},\"target\":\"7\",\"resps\":[[\"{}\",\"{}\"]],\"filter\":\"none\"}}\n",
            answer(0),
            answer(1)
        )
    };
    line(0) + &line(1)
}

fn results(folder: &Folder, output: &str) -> Value {
    json(folder.path(&format!("{output}/results.json")))
}

#[test]
fn lm_eval_runs_are_compared_whatever_their_file_names() {
    let folder = Folder::new();
    let grade = |name: &str, correct: usize, output: &str, options: &str| {
        let (file, output) = (folder.write(name, lm_eval(correct)), folder.path(output));
        ok(command!("grade {file} --output {output} {options}"));
    };
    grade("samples_x_2026-11-01T10-00-00.123.jsonl", 1, "base", "");
    grade("samples_x_2026-11-26T12-00-00.456.jsonl", 2, "tuned", "");
    grade("other.jsonl", 2, "other", "");
    grade("third.jsonl", 2, "third", "--name arithmetic");
    let name = |output: &str| results(&folder, output)["sets"][0]["name"].clone();
    assert_eq!([name("base"), name("tuned"), name("other")], ["samples_x", "samples_x", "other"]);
    assert_eq!(name("third"), "arithmetic");
    for other in ["tuned", "other", "third"] {
        let output = folder.path("compared");
        let [a, b] = ["base", other].map(|name| folder.path(name));
        ok(command!("compare {a} {b} --json --overwrite --output {output}"));
    }
    // Other gold answers are another set.
    let file =
        folder.write("golds.jsonl", lm_eval(2).replace("\"target\":\"7\"", "\"target\":\"8\""));
    ok(&["grade", &file, "--output", &folder.path("golds")]);
    refused!("compare {} {}", folder.path("base"), folder.path("golds") => "share no set");
}

#[test]
fn compared_runs_must_share_the_truncation_rule() {
    let folder = Folder::new();
    let line = |id: &str, reason: &str| {
        format!(
            "{{\"id\":\"{id}\",\"completion\":\"7\",\"gold\":7,\"finish_reason\":\"{reason}\"}}\n"
        )
    };
    let text = line("a", "length") + &line("a", "stop") + &line("b", "stop");
    let file = folder.write("c.jsonl", text);
    let (wrong, judged) = (folder.path("wrong"), folder.path("judged"));
    let run = tealight(&["grade", &file, "--output", &wrong]);
    let shown = stdout_of(&run);
    assert!(shown.contains("2 problems, 1 to 2 samples each"), "{shown}");
    assert!(shown.contains("33.3 % truncated (1 of them with a correct answer)"), "{shown}");
    has(&stderr_of(&run), &["1 completion would be correct but reached the length limit"]);
    let warned = ok(&["grade", &file, "--truncated", "judged", "--output", &judged]);
    assert!(!warned.contains("length limit"), "the rule is chosen: {warned}");
    let pass = |output: &str| {
        let results = results(&folder, output);
        assert_eq!(results["config"]["truncated"], output);
        results["sets"][0]["summary"]["pass@k"]["1"]["value"].as_f64().expect("a number")
    };
    assert_eq!([pass("wrong"), pass("judged")], [0.75, 1.0]);
    refused!("compare {wrong} {judged}" => "truncated is wrong in", "judged in");
    ok(&["compare", &wrong, &judged, "--across", "truncated"]);
    // The judged samples say by which rule they count.
    let samples = std::fs::read_to_string(folder.path("judged/samples/c.jsonl")).expect("samples");
    assert!(samples.lines().all(|line| line.contains("\"truncated\":\"judged\"")), "{samples}");
}

#[cfg(unix)]
#[test]
fn evaluations_count_truncated_completions_by_the_rule() {
    let folder = Folder::new();
    // Two tokens end no expression; the verifier accepts every text.
    let function = "def judge(gold, completion):\n    return True\n";
    let file = folder.write("judge.py", function);
    for (rule, pass) in [("wrong", 0.0), ("judged", 1.0)] {
        let output = folder.path(rule);
        ok(command!(
            "eval --max-completion-length 2 --max-samples 2 -n 2 -k 1 --device cpu --verifier python:{file}:judge \
             --truncated {rule} --no-greedy --output {output}"
        ));
        let summary = summary(&output);
        assert_eq!(summary["truncated"], 1.0, "{summary}");
        assert_eq!(summary["pass@k"]["1"]["value"], pass, "{summary}");
    }
}

#[cfg(unix)]
#[test]
fn verifier_functions_are_checked_before_sampling() {
    let folder = Folder::new();
    let function = "def judge(gold, completion, prompt):\n    return prompt.index(gold) >= 0\n";
    let spec = format!("python:{}:judge", folder.write("judge.py", function));
    let dataset =
        folder.write("d.jsonl", "{\"id\":\"a\",\"question\":\"1 + 1?\",\"answer\":\"2\"}\n");
    let lines = folder.write("c.jsonl", "{\"id\":\"a\",\"completion\":\"2\",\"gold\":\"2\"}\n");
    let run = folder.path("run");
    let line = "ValueError: substring not found (judge.py, line 2)";
    for arguments in [
        format!("eval --dataset {dataset}"),
        format!("train --dataset {dataset}"),
        format!("grade {lines}"),
        format!("grade {lines} --dataset {dataset}"),
    ] {
        refused!("{arguments} --verifier {spec} --output {run}" => line);
    }
    let verify = tealight(command!("verify --gold 2 --answer 2 --verifier {spec}"));
    let both = [stdout_of(&verify), stderr_of(&verify)];
    assert!(both[0].contains(line) && both[1].contains(line), "{both:?}");
    let verify = ["verify", "--gold", "2", "--answer", "2", "--prompt", "1 + 1 = 2?", "--check"];
    ok(&[&verify[..], &["--verifier", &spec]].concat());
    let pair = folder.write(
        "p.jsonl",
        "{\"gold\": 2, \"answer\": \"x\", \"prompt\": [{\"role\": \"user\", \"content\": \"2?\"}]}",
    );
    ok(&["verify", "--jsonl", &pair, "--check", "--verifier", &spec]);
}

#[test]
fn the_samples_of_a_large_file_are_whole_and_reported_by_their_index() {
    let folder = Folder::new();
    let line = |number: usize| {
        format!("{{\"id\":{},\"completion\":\"{}\",\"gold\":7}}\n", number / 10, number % 9)
    };
    let lines: String = (0..20_000).map(line).collect();
    let (file, output) = (folder.write("c.jsonl", &lines), folder.path("out"));
    ok(command!("grade {file} --output {output}"));
    let entries = std::fs::read_dir(format!("{output}/samples")).expect("a folder").flatten();
    let left: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(left, ["c.jsonl"]);
    let written = std::fs::read_to_string(format!("{output}/samples/c.jsonl")).expect("samples");
    assert_eq!(written.lines().count(), 20_000);
    // The report, which reads the samples by where they stand, has all of them.
    let first = std::fs::read(format!("{output}/report.html")).expect("a report");
    ok(&["report", &output]);
    let again = std::fs::read(format!("{output}/report.html")).expect("a report");
    assert!(first == again, "an index of what was written is that of what is read");
    // A line that is found malformed after others were judged leaves nothing half written.
    let bad = folder.write("d.jsonl", lines.replacen("\"id\":1500,", "oops ", 1));
    let refused_output = folder.path("refused");
    refused!("grade {bad} --output {refused_output}" => "d.jsonl:15001: not JSON");
    assert!(!std::path::Path::new(&refused_output).exists(), "a refused command makes no folder");
}
