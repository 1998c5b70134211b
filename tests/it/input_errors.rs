//! Inputs that mean nothing, and outputs that take nothing: an error with the file, never a success.

use serde_json::Value;

#[cfg(target_os = "linux")]
use crate::support::binary::stderr_of;
use crate::support::binary::{Folder, refusal, tealight};

#[test]
fn an_invalid_batch_request_is_an_error_of_its_line() {
    let folder = Folder::new();
    let chat = |role: &str| {
        format!(
            "{{\"messages\":[{{\"role\":\"{role}\",\"content\":\"1,2,3,4=24:\"}}],\"max_tokens\":4}}"
        )
    };
    let text = |more: &str| format!("{{\"prompt\":\"1,2,3,4=24:\",\"max_tokens\":4{more}}}");
    let requests = [
        ("DELETE", "/v1/completions", text(""), "`method` \"DELETE\" is not \"POST\""),
        ("POST", "/v1/chat/completions", chat("hacker"), "role `hacker` is not one of"),
        (
            "POST",
            "/v1/completions",
            text(",\"temperature\":1e308"),
            "temperature must be at least 0",
        ),
        ("POST", "/v1/completions", text(",\"temperature\":-1"), "temperature must be at least 0"),
    ];
    let line = |(number, (method, url, body, _)): (usize, &(&str, &str, String, &str))| {
        format!(
            "{{\"custom_id\":\"{number}\",\"method\":\"{method}\",\"url\":\"{url}\",\"body\":{body}}}\n"
        )
    };
    let input = folder.write("in.jsonl", requests.iter().enumerate().map(line).collect::<String>());
    let output = folder.path("out.jsonl");
    let done = tealight(&["batch", "-i", &input, "-o", &output, "--device", "cpu"]);
    assert_eq!(done.status.code(), Some(1));
    let answers = std::fs::read_to_string(&output).expect("responses");
    for (line, (.., why)) in answers.lines().zip(&requests) {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let message = row["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(why), "{why}: {line}");
    }
    assert_eq!(answers.lines().count(), requests.len());
}

#[test]
fn a_file_without_rows_is_an_error_of_every_command_that_reads_rows() {
    let folder = Folder::new();
    let output = folder.path("out");
    for text in ["", "\n\n"] {
        let empty = folder.write("empty.jsonl", text);
        for line in [
            &["verify", "--jsonl", &empty][..],
            &["verify", "--audit", &empty],
            &["grade", &empty, "--output", &output],
            &["grade", &empty, "-k", "1"],
            &["batch", "-i", &empty, "-o", &output],
            &["show", &empty],
            &["train", "--dataset", &empty, "--output", &output],
            &["sft", "--dataset", &empty, "--output", &output],
            &["eval", "--dataset", &empty, "--output", &output],
            &["presample", "--dataset", &empty, "--output", &output],
        ] {
            assert!(refusal(line).contains("empty.jsonl") || line[0] == "grade", "{line:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_with_the_file_that_it_stopped() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    for line in [&["objectives"][..], &["verify", "--gold", "1", "--answer", "1"], &["schema"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tealight"));
        let done = command.args(line).stdout(full()).output().expect("runs");
        let stderr = stderr_of(&done);
        assert!(stderr.contains("standard output: No space left on device"), "{line:?}: {stderr}");
        assert_eq!(done.status.code(), Some(1));
    }
}
