//! Attacks by untrusted files, links and servers: nothing of the user's is written, read or told.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::support::binary::{
    Folder, command, ended, ok, on_hub, refusal, refused, stderr_of, tealight, words,
};

#[test]
fn a_file_of_completions_cannot_write() {
    let folder = Folder::new();
    let victim = folder.write("victim.db", "precious");
    let attack = |script: String| {
        let line =
            json!({"id": "1", "completion": "SELECT 1", "gold": "SELECT 1", "context": script});
        folder.write("f.jsonl", format!("{line}\n"))
    };
    for script in [
        format!("ATTACH '{victim}' AS x; DROP TABLE x.precious;"),
        format!("CREATE TABLE t(x); VACUUM INTO '{victim}.copy'"),
    ] {
        let file = attack(script);
        let output = folder.path("graded");
        tealight(&["grade", &file, "--output", &output, "--overwrite", "--verifier", "sql-bird"]);
        assert_eq!(std::fs::read(&victim).expect("the victim"), b"precious");
        assert!(!Path::new(&format!("{victim}.copy")).exists());
    }
}

#[test]
fn an_archive_that_claims_endless_members_is_refused() {
    let folder = Folder::new();
    let (path, start) = (folder.write("x.eval", b"PK\x03\x04"), 400_u64 << 20);
    // A header of the list, and ends that claim as many members as there are bytes before it, for which a reader would
    // reserve a hundred gigabytes.
    let numbers = |all: &[u64]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let header = [&b"PK\x01\x02"[..], &[0; 42]].concat();
    let sizes = numbers(&[start, start, 46 * start, start]);
    let end64 = [&b"PK\x06\x06"[..], &numbers(&[44]), &[45, 0, 45, 0], &[0; 8], &sizes].concat();
    let locator = [&b"PK\x06\x07\0\0\0\0"[..], &numbers(&[start + 46]), &[1, 0, 0, 0]].concat();
    let end = [&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0; 2]].concat();
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
    file.seek(SeekFrom::Start(start)).expect("a hole");
    file.write_all(&[header, end64, locator, end].concat()).expect("written");
    refused!("grade {path} --output {}", folder.path("graded") => "x.eval");
}

#[test]
fn many_completions_on_a_line_take_memory_in_proportion() {
    let folder = Folder::new();
    let completions = vec!["7"; 100_000];
    let line = json!({"id": "1", "gold": "7", "completions": completions});
    let file = folder.write("f.jsonl", format!("{line}\n"));
    // A quadratic remainder would take some forty gigabytes.
    ok(&["grade", &file, "--output", &folder.path("graded"), "--no-samples", "-k", "1"]);
}

#[test]
fn untrusted_counts_do_not_overflow() {
    let folder = Folder::new();
    let line = |id: usize| {
        format!(
            "{{\"id\":{id},\"completion\":\"7\",\"gold\":\"7\",\"tokens\":{},\"logp\":-1e308}}\n",
            u64::MAX
        )
    };
    let file = folder.write("f.jsonl", line(1) + &line(1) + &line(2));
    let output = folder.path("graded");
    ok(&["grade", &file, "--output", &output]);
    ok(&["report", &output]);
    let results = std::fs::read_to_string(folder.path("graded/results.json")).expect("results");
    for (count, other) in [
        ("\"samples\": 2", "\"samples\": 18446744073709551615"),
        ("\"correct\": 2", "\"correct\": 3"),
    ] {
        let (count, other) = (count.replace(": ", ":"), other.replace(": ", ":"));
        let compact = serde_json::from_str::<Value>(&results).expect("JSON").to_string();
        let changed = compact.replacen(&count, &other, 9);
        assert_ne!(changed, compact);
        folder.write("graded/results.json", changed);
        refused!("report {output}" => "results.json");
    }
}

#[cfg(unix)]
#[test]
fn links_in_an_output_folder_are_not_followed() {
    let folder = Folder::new();
    let victim = folder.write("victim", "precious");
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    for link in [".lock", "report.html.part", "samples/f.jsonl"] {
        let output = folder.path(&link.replace('/', "-"));
        let place = Path::new(&output).join(link);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::os::unix::fs::symlink(&victim, &place).expect("a link");
        tealight(&["grade", &file, "--output", &output]);
        tealight(&["grade", &file, "--output", &output, "--overwrite"]);
        assert_eq!(std::fs::read(&victim).expect("the victim"), b"precious", "{link}");
    }
}

#[cfg(unix)]
#[test]
fn pipes_in_an_output_folder_are_refused_at_once() {
    let folder = Folder::new();
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    let pipe = |path: &Path| {
        drop(std::fs::remove_file(path));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.expect("mkfifo").success());
    };
    // A command that waits for a pipe is killed, which is no status.
    let status = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("tealight").expect("the binary");
        command.env("RUST_BACKTRACE", "0").timeout(std::time::Duration::from_secs(60));
        let output = command.args(arguments).output().expect("runs");
        (output.status.code().expect("no hang"), stderr_of(&output))
    };
    for place in [".lock", "report.html.part", "samples/f.jsonl"] {
        let output = folder.path(&place.replace('/', "-"));
        pipe(&Path::new(&output).join(place));
        for line in [
            vec!["grade", &file, "--output", &output],
            vec!["grade", &file, "--output", &output, "--overwrite"],
            vec!["eval", "-n", "1", "-k", "1", "--max-samples", "1", "--output", &output],
        ] {
            let (code, stderr) = status(&line);
            let is_refused = stderr.contains("regular file") || stderr.contains("--output");
            assert!(code == 0 || is_refused, "{line:?}: {stderr}");
        }
    }
}

#[test]
fn leftovers_of_a_killed_command_do_not_block() {
    let folder = Folder::new();
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    let grade = ["grade", &file, "--output", &folder.path("graded")];
    for line in
        [&grade[..], command!("export --model countdown --output {}", folder.path("exported"))]
    {
        // As a process that was killed in the middle leaves them.
        let output = Path::new(line.last().expect("a folder"));
        std::fs::create_dir_all(output.join(".tealight-tmp-folder")).expect("made");
        for name in [".lock", ".tealight-tmp-folder/half", ".tealight-tmp-file"] {
            std::fs::write(output.join(name), "tealight 4711").expect("written");
        }
        ok(line);
        for left in [".tealight-tmp-folder", ".tealight-tmp-file"] {
            assert!(!output.join(left).exists(), "{line:?}: {left}");
        }
    }
    folder.write("graded/samples/f.jsonl", "{\"half\":");
    std::fs::remove_file(folder.path("graded/results.json")).expect("removed");
    assert!(refusal(&grade).contains("--overwrite"));
    ok(&[&grade[..], &["--overwrite"]].concat());
}

#[cfg(target_os = "linux")]
#[test]
fn closed_stderr_does_not_end_the_command() {
    let folder = Folder::new();
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tealight"));
    command.args(["grade", &file, "--output", &folder.path("graded")]).stderr(full);
    assert!(command.output().expect("runs").status.success());
}

#[test]
fn odd_environments_are_refused_in_a_line() {
    let hub = words("eval --dataset hub:team/data:test.jsonl -n 1");
    for (name, value, line) in [
        ("RAYON_NUM_THREADS", "100000", &["doctor"][..]),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "soon", &hub),
    ] {
        let (is_ok, stderr) =
            ended(on_hub("http://127.0.0.1:9", Path::new("x")).env(name, value).args(line));
        assert!(!is_ok && stderr.contains(&format!("{name}={value}")), "{stderr}");
    }
}

#[test]
fn a_suite_starts_no_program_and_is_read_up_to_a_limit() {
    let folder = Folder::new();
    let (owned, output) = (folder.path("owned"), folder.path("out"));
    let set =
        format!("[[set]]\ndataset = \"countdown/test\"\nverifier = \"program:touch {owned}\"\n");
    let suite = folder.write("s.toml", set);
    let eval = |suite: &str| refusal(&["eval", "--suite", suite, "--output", &output]);
    assert!(eval(&suite).contains("repeat it: --verifier 'program:touch"));
    if cfg!(unix) {
        assert!(eval("/dev/zero").contains("not a regular file"));
    }
    assert!(!Path::new(&owned).exists(), "the program was started");
}
