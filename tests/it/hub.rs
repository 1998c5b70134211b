//! The Hub client against a local server that speaks the Hub's API.
//!
//! Every test runs the real binary with its own cache and endpoint, as a user's shell would set them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use assert_cmd::Command;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A Hub with one repository, `team/model`, which holds the embedded model. Its threads end with
/// the test's process.
struct Hub {
    endpoint: String,
    log: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Good,
    /// The first answer with weights breaks off in the middle.
    CutsOnce,
    /// Only who knows the token may read.
    Gated,
}

impl Hub {
    fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let cuts = Arc::new(AtomicBool::new(mood == Mood::CutsOnce));
        let seen = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, cuts) = (seen.clone(), cuts.clone());
                // The client may have gone; that is its right.
                std::thread::spawn(move || drop(serve(&stream, mood, &cuts, &seen)));
            }
        });
        Self { endpoint, log }
    }

    fn seen(&self) -> usize {
        self.log.lock().expect("log").len()
    }
}

fn files() -> HashMap<String, Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/countdown");
    std::fs::read_dir(directory)
        .expect("models/countdown")
        .map(|entry| entry.expect("entry").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("readable"))
        })
        .collect()
}

/// Answers one request and closes the connection.
fn serve(
    mut stream: &TcpStream,
    mood: Mood,
    cuts: &AtomicBool,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut is_allowed = mood != Mood::Gated;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        is_allowed |= line.eq_ignore_ascii_case("authorization: Bearer secret");
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    log.lock().expect("log").push(format!("{method} {target}"));
    let answer = if is_allowed { route(target) } else { Err((401, "GatedRepo")) };
    let (status, headers, body) = match answer {
        Ok((headers, body)) => (200, headers, body),
        Err((status, code)) => (status, format!("X-Error-Code: {code}\r\n"), b"{}".to_vec()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )?;
    if method == "HEAD" {
        return Ok(());
    }
    let is_cut = target.ends_with("model.safetensors") && cuts.swap(false, Ordering::SeqCst);
    stream.write_all(if is_cut { &body[..length / 2] } else { &body })
}

type Answer = Result<(String, Vec<u8>), (u16, &'static str)>;

fn route(target: &str) -> Answer {
    let path = target.split('?').next().unwrap_or_default();
    let files = files();
    if let Some(rest) = path.strip_prefix("/api/models/") {
        return match rest {
            "team/model" | "team/model/revision/main" | "team/model/revision/v1" => {
                let siblings: Vec<_> =
                    files.keys().map(|name| serde_json::json!({"rfilename": name})).collect();
                let info =
                    serde_json::json!({"id": "team/model", "sha": COMMIT, "siblings": siblings});
                Ok((String::new(), info.to_string().into_bytes()))
            }
            _ if rest.starts_with("team/model") => Err((404, "RevisionNotFound")),
            _ => Err((404, "RepoNotFound")),
        };
    }
    if path == "/datasets/team/data/resolve/main/test.jsonl" {
        let prompt = "[{\"role\":\"user\",\"content\":\"1+1\"}]";
        let body = format!("{{\"prompt\":{prompt},\"answer\":\"2\"}}\n").into_bytes();
        let headers = format!("ETag: \"etag-data\"\r\nX-Repo-Commit: {COMMIT}\r\n");
        return Ok((headers, body));
    }
    let known = ["/team/model/resolve/main/", "/team/model/resolve/v1/"];
    let name = known.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or_default();
    let body = files.get(name).ok_or((404, "EntryNotFound"))?;
    let headers = format!("ETag: \"etag-{name}-{}\"\r\nX-Repo-Commit: {COMMIT}\r\n", body.len());
    Ok((headers, body.clone()))
}

struct Shell {
    home: tempfile::TempDir,
    endpoint: String,
}

impl Shell {
    fn new(hub: &Hub) -> Self {
        Self { home: tempfile::tempdir().expect("a directory"), endpoint: hub.endpoint.clone() }
    }

    /// Evaluates `model` on two problems; the exit status and what was said on stderr.
    fn eval(&self, model: &str, set: &[(&str, &str)]) -> (bool, String) {
        self.eval_on(model, "countdown", set)
    }

    fn eval_on(&self, model: &str, dataset: &str, set: &[(&str, &str)]) -> (bool, String) {
        let output = self.home.path().join("out");
        let _ = std::fs::remove_dir_all(&output);
        let mut command = Command::cargo_bin("tealight").expect("the binary");
        for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command.env("HF_HOME", self.home.path()).env("HF_ENDPOINT", &self.endpoint);
        command.args(["eval", "--model", model, "--max-samples", "2", "-n", "2", "-k", "1"]);
        command.args(["--dataset", dataset, "--max-completion-length", "20", "--device", "cpu"]);
        command.arg("--output").arg(&output);
        command.envs(set.iter().copied());
        // A client that hangs must fail the test, not stall it.
        command.timeout(std::time::Duration::from_secs(60));
        let done = command.output().expect("runs");
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

#[test]
fn a_first_use_downloads_and_the_next_makes_no_call() {
    let hub = Hub::start(Mood::Good);
    let shell = Shell::new(&hub);
    let (is_ok, said) = shell.eval("team/model", &[]);
    assert!(is_ok, "{said}");
    assert!(said.contains("downloading team/model/model.safetensors"), "{said}");
    let after_first = hub.seen();
    assert!(after_first > 0);
    let (is_ok, said) = shell.eval("team/model", &[]);
    assert!(is_ok, "{said}");
    let (is_ok, said) = shell.eval("team/model", &[("HF_HUB_OFFLINE", "1")]);
    assert!(is_ok, "{said}");
    assert_eq!(hub.seen(), after_first, "{:?}", hub.log.lock().expect("log"));
}

#[test]
fn a_dataset_is_fetched_once_and_a_missing_file_named() {
    let hub = Hub::start(Mood::Good);
    let shell = Shell::new(&hub);
    let spec = "hub:team/data:test.jsonl";
    let (is_ok, said) = shell.eval_on("countdown", spec, &[]);
    assert!(is_ok && said.contains("1 problems, checked by `math`"), "{said}");
    let after_first = hub.seen();
    assert!(after_first > 0);
    let (is_ok, said) = shell.eval_on("countdown", spec, &[("HF_HUB_OFFLINE", "1")]);
    assert!(is_ok, "{said}");
    assert_eq!(hub.seen(), after_first);
    let (is_ok, said) = shell.eval_on("countdown", "hub:team/data:train.jsonl", &[]);
    assert!(!is_ok && said.contains("no such file"), "{said}");
    let (is_ok, said) = shell.eval_on("countdown", "hub:team", &[]);
    assert!(!is_ok && said.contains("hub:OWNER/NAME"), "{said}");
}

#[test]
fn a_named_revision_is_fetched_and_an_unknown_one_refused() {
    let hub = Hub::start(Mood::Good);
    let shell = Shell::new(&hub);
    let (is_ok, said) = shell.eval("team/model@v1", &[]);
    assert!(is_ok, "{said}");
    let (is_ok, said) = shell.eval("team/model@v9", &[]);
    assert!(!is_ok && said.contains("v9") && said.contains("revision"), "{said}");
}

#[test]
fn offline_without_a_cached_copy_makes_no_call_and_says_so() {
    let hub = Hub::start(Mood::Good);
    let (is_ok, said) = Shell::new(&hub).eval("team/model", &[("HF_HUB_OFFLINE", "1")]);
    assert!(!is_ok && said.contains("HF_HUB_OFFLINE"), "{said}");
    assert_eq!(hub.seen(), 0);
}

#[test]
fn an_unknown_repository_is_named() {
    let hub = Hub::start(Mood::Good);
    let (is_ok, said) = Shell::new(&hub).eval("team/nothing", &[]);
    assert!(
        !is_ok && said.contains("team/nothing") && said.contains("no such repository"),
        "{said}"
    );
}

#[test]
fn a_gated_repository_asks_for_a_token_and_opens_with_it() {
    let hub = Hub::start(Mood::Gated);
    let shell = Shell::new(&hub);
    let (is_ok, said) = shell.eval("team/model", &[]);
    assert!(!is_ok && said.contains("HF_TOKEN"), "{said}");
    let (is_ok, said) = shell.eval("team/model", &[("HF_TOKEN", "secret")]);
    assert!(is_ok, "{said}");
}

#[test]
fn a_connection_cut_in_the_middle_is_tried_again() {
    let hub = Hub::start(Mood::CutsOnce);
    let (is_ok, said) = Shell::new(&hub).eval("team/model", &[]);
    assert!(is_ok, "{said}");
    let log = hub.log.lock().expect("log");
    let tries =
        log.iter().filter(|line| line.starts_with("GET") && line.ends_with("model.safetensors"));
    // The one that is cut, one that learns which version the server has now, one for the rest of the same version.
    assert_eq!(tries.count(), 3, "{log:?}");
}

#[test]
fn no_server_at_all_is_one_clear_line() {
    let hub = Hub::start(Mood::Good);
    let mut shell = Shell::new(&hub);
    shell.endpoint = "http://127.0.0.1:9".into();
    let (is_ok, said) = shell.eval("team/model", &[]);
    assert!(
        !is_ok && said.contains("the network failed") && said.contains("127.0.0.1:9"),
        "{said}"
    );
}
