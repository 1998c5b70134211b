//! Servers that answer late or never, and processes that want one output at once.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::binary::{Folder, command, ok, refused, stderr_of};

/// A server that sends each connection `head`, then a byte every tenth of a second for ever.
fn trickle(head: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = BufReader::new(stream.try_clone()?);
                let mut line = String::new();
                while request.read_line(&mut line)? > 2 {
                    line.clear();
                }
                stream.write_all(head.as_bytes())?;
                loop {
                    std::thread::sleep(Duration::from_millis(100));
                    stream.write_all(b"x")?;
                }
                #[expect(unreachable_code, reason = "the type of the closure")]
                std::io::Result::Ok(())
            });
        }
    });
    address
}

/// The outcome of an evaluation of a dataset on that hub, when a second of silence breaks a connection.
fn evaluated(hub: &str, timeout: &str) -> (Output, Duration) {
    let home = Folder::new();
    let mut command = assert_cmd::Command::cargo_bin("tealight").expect("the binary");
    command.env("HF_ENDPOINT", hub).env("HF_HOME", home.0.path()).env("RUST_BACKTRACE", "0");
    command
        .env("HF_HUB_DOWNLOAD_TIMEOUT", timeout)
        .env_remove("HF_HUB_OFFLINE")
        .env_remove("HF_HUB_CACHE");
    command.args(command!(
        "eval --dataset hub:team/data:test.jsonl -n 1 --output {}",
        home.path("out")
    ));
    let started = Instant::now();
    (command.timeout(Duration::from_secs(120)).output().expect("ends"), started.elapsed())
}

#[test]
fn a_hub_that_sends_a_byte_now_and_then_is_given_up() {
    // Headers that never end, and a file that comes too slowly to be worth waiting for.
    let endless = trickle("HTTP/1.1 200 OK\r\nETag: ");
    let slow = trickle(
        "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nX-Repo-Commit: 0123456789abcdef0123456789abcdef01234567\r\nContent-Length: 1000000\r\n\r\n",
    );
    for hub in [endless, slow] {
        let (done, took) = evaluated(&hub, "1");
        assert_eq!(done.status.code(), Some(1), "{}", stderr_of(&done));
        let last = stderr_of(&done).lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("error: ") && last.contains("test.jsonl"), "{last}");
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
    let (done, _) = evaluated("http://127.0.0.1:9", "soon");
    assert!(
        stderr_of(&done).contains("HF_HUB_DOWNLOAD_TIMEOUT=soon: give whole seconds"),
        "{}",
        stderr_of(&done)
    );
}

#[test]
fn leftovers_of_killed_presample_and_export_are_removed() {
    let folder = Folder::new();
    let (samples, exported) = (folder.path("samples"), folder.path("exported"));
    let presample =
        ["presample", "--num-presamples", "2", "--max-samples", "2", "--output", &samples];
    let export = ["export", "--model", "countdown", "--output", &exported];
    for (output, arguments) in [(&samples, &presample[..]), (&exported, &export[..])] {
        // As a process that was killed at its start leaves them.
        std::fs::create_dir_all(format!("{output}/.tealight-tmp-folder")).expect("made");
        std::fs::write(format!("{output}/.tealight-tmp-folder/half"), "half of a file")
            .expect("written");
        std::fs::write(format!("{output}/.tealight-tmp-file"), "half of a file").expect("written");
        std::fs::write(format!("{output}/.lock"), "tealight 4711").expect("written");
        ok(arguments);
        for left in [".tealight-tmp-folder", ".tealight-tmp-file"] {
            assert!(!std::path::Path::new(output).join(left).exists(), "{output}/{left}");
        }
    }
    // A folder that others filled does not become ours.
    let theirs = folder.path("theirs");
    std::fs::create_dir(&theirs).expect("made");
    std::fs::write(format!("{theirs}/thesis.txt"), "precious").expect("written");
    refused!("export --model countdown --output {theirs}" => "thesis.txt");
}
