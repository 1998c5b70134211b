//! Attacks by untrusted files, links and servers: nothing of the user's is written, read or told.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::json;

use crate::support::binary::{
    Folder, command, ended, ok, on_hub, program, refused, stderr_of, words,
};
use crate::support::processes::binary;
use crate::support::runs::json as json_at;

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
        // A file brings no database of its own: scripts are those of datasets.
        refused!(
            "grade {file} --output {output} --overwrite --verifier sql-bird"
            => "a database is named, and the verifier has no folder"
        );
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
    ok(command!("grade {file} --output {} --no-samples -k 1", folder.path("graded")));
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
    ok(command!("grade {file} --output {output}"));
    ok(command!("report {output}"));
    let results = json_at(folder.path("graded/results.json")).to_string();
    for (count, other) in
        [("\"samples\":2", "\"samples\":18446744073709551615"), ("\"correct\":2", "\"correct\":3")]
    {
        let changed = results.replacen(count, other, 9);
        assert_ne!(changed, results);
        folder.write("graded/results.json", changed);
        refused!("report {output}" => "results.json");
    }
}

#[test]
fn links_and_pipes_in_an_output_folder_are_refused_at_once() {
    let folder = Folder::new();
    let victim = folder.write("victim", "precious");
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    // A command that waits for a pipe is killed, which is no status.
    let status = |line: &str| {
        let mut command = program();
        command.timeout(std::time::Duration::from_secs(60));
        let output = command.args(words(line)).output().expect("runs");
        (output.status.code().expect("no hang"), stderr_of(&output))
    };
    for (what, name) in ["link", "pipe"]
        .into_iter()
        .flat_map(|what| [".lock", "report.html.part", "samples/f.jsonl"].map(|name| (what, name)))
    {
        let output = folder.path(&format!("{}-{}", &what[..1], name.replace('/', "-")));
        let place = Path::new(&output).join(name);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        match what {
            "link" => std::os::unix::fs::symlink(&victim, &place).expect("a link"),
            _ => {
                let made = std::process::Command::new("mkfifo").arg(&place).status();
                assert!(made.expect("mkfifo").success());
            }
        }
        let grade = format!("grade {file} --output {output}");
        let eval = format!("eval -n 1 -k 1 --max-samples 1 --output {output}");
        for line in [&grade, &format!("{grade} --overwrite"), &eval] {
            let (code, stderr) = status(line);
            // Samples are written to a new file, which takes the place of a pipe.
            let is_replaced = (what, name) == ("pipe", "samples/f.jsonl") && line != &eval;
            let is_named =
                ["regular file", "--output", "link"].iter().any(|word| stderr.contains(word));
            assert_eq!(code, i32::from(!is_replaced), "{line}: {stderr}");
            assert!(is_replaced || is_named, "{line}: {stderr}");
            assert_eq!(std::fs::read(&victim).expect("the victim"), b"precious", "{line}");
        }
    }
}

#[test]
fn leftovers_of_a_killed_command_do_not_block() {
    let folder = Folder::new();
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    let grade = format!("grade {file} --output {}", folder.path("graded"));
    for line in [&grade, &format!("export --model countdown --output {}", folder.path("exported"))]
    {
        // As a process that was killed in the middle leaves them.
        let output = Path::new(line.split(' ').next_back().expect("a folder"));
        std::fs::create_dir_all(output.join(".tealight-tmp-folder")).expect("made");
        for name in [".lock", ".tealight-tmp-folder/half", ".tealight-tmp-file"] {
            std::fs::write(output.join(name), "tealight 4711").expect("written");
        }
        ok(line);
        for left in [".tealight-tmp-folder", ".tealight-tmp-file"] {
            assert!(!output.join(left).exists(), "{line}: {left}");
        }
    }
    folder.write("graded/samples/f.jsonl", "{\"half\":");
    std::fs::remove_file(folder.path("graded/results.json")).expect("removed");
    refused!("{grade}" => "--overwrite");
    ok(command!("{grade} --overwrite"));
}

#[cfg(target_os = "linux")]
#[test]
fn closed_stderr_does_not_end_the_command() {
    let folder = Folder::new();
    let file = folder.write("f.jsonl", "{\"id\":1,\"completion\":\"7\",\"gold\":\"7\"}\n");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let mut command = binary(&format!("grade {file} --output {}", folder.path("graded")));
    assert!(command.stderr(full).output().expect("runs").status.success());
}

#[test]
fn odd_environments_are_refused_in_a_line() {
    for (name, value, line) in [
        ("RAYON_NUM_THREADS", "100000", "doctor"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "soon", "eval --dataset hub:team/data:test.jsonl -n 1"),
    ] {
        let mut command = on_hub("http://127.0.0.1:9", Path::new("x"));
        let (is_ok, stderr) = ended(command.env(name, value).args(words(line)));
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
    refused!("eval --suite {suite} --output {output}" => "repeat it: --verifier 'program:touch");
    if cfg!(unix) {
        refused!("eval --suite /dev/zero --output {output}" => "not a regular file");
    }
    assert!(!Path::new(&owned).exists(), "the program was started");
}
