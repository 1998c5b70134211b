//! Inputs that mean nothing, and outputs that take nothing: an error with the file, never a success.

#[cfg(target_os = "linux")]
use crate::support::binary::stderr_of;
use crate::support::binary::{Folder, refusal};

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
    for line in [&["objectives"][..], &["verify", "--gold", "1", "--answer", "1"], &["recipes"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tealight"));
        let done = command.args(line).stdout(full()).output().expect("runs");
        let stderr = stderr_of(&done);
        assert!(stderr.contains("standard output: No space left on device"), "{line:?}: {stderr}");
        assert_eq!(done.status.code(), Some(1));
    }
}
