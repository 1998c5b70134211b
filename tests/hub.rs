//! The Hub client against a local server that speaks the Hub's API.
//!
//! Every test runs the real binary with its own cache and endpoint, as a user's shell would set them.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use assert_cmd::Command;
use tiny_http::{Header, Method, Request, Response, Server, StatusCode};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A Hub with one repository, `team/model`, which holds the embedded model.
struct Hub {
    endpoint: String,
    requests: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<String>>>,
    server: Arc<Server>,
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
        let server = Arc::new(Server::http("127.0.0.1:0").expect("a free port"));
        let endpoint = format!("http://{}", server.server_addr());
        let requests = Arc::new(AtomicUsize::new(0));
        let log = Arc::new(Mutex::new(Vec::new()));
        let cuts = Arc::new(AtomicUsize::new(usize::from(mood == Mood::CutsOnce)));
        for _ in 0..4 {
            let (server, requests, log) = (server.clone(), requests.clone(), log.clone());
            let cuts = cuts.clone();
            std::thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    requests.fetch_add(1, Ordering::SeqCst);
                    log.lock().expect("log").push(format!(
                        "{} {}",
                        request.method(),
                        request.url()
                    ));
                    answer(request, mood, &cuts);
                }
            });
        }
        Self { endpoint, requests, log, server }
    }

    fn seen(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.server.unblock();
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

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("ASCII")
}

fn refuse(request: Request, status: u16, code: &str) {
    let response = Response::from_string("{}").with_status_code(StatusCode(status));
    // The client may have gone; that is its right.
    let _ = request.respond(response.with_header(header("X-Error-Code", code)));
}

fn answer(request: Request, mood: Mood, cuts: &AtomicUsize) {
    let token = request.headers().iter().find(|h| h.field.equiv("Authorization"));
    if mood == Mood::Gated && token.is_none_or(|h| h.value.as_str() != "Bearer secret") {
        return refuse(request, 401, "GatedRepo");
    }
    let url = request.url().split('?').next().unwrap_or_default().to_owned();
    let files = files();
    if let Some(rest) = url.strip_prefix("/api/models/") {
        return match rest {
            "team/model" | "team/model/revision/main" | "team/model/revision/v1" => {
                let siblings: Vec<_> =
                    files.keys().map(|name| serde_json::json!({"rfilename": name})).collect();
                let info =
                    serde_json::json!({"id": "team/model", "sha": COMMIT, "siblings": siblings});
                let _ = request.respond(Response::from_string(info.to_string()));
            }
            _ if rest.starts_with("team/model") => refuse(request, 404, "RevisionNotFound"),
            _ => refuse(request, 404, "RepoNotFound"),
        };
    }
    let known = ["/team/model/resolve/main/", "/team/model/resolve/v1/"];
    let name = known.iter().find_map(|prefix| url.strip_prefix(prefix));
    let Some(body) = name.and_then(|name| files.get(name)) else {
        return refuse(request, 404, "EntryNotFound");
    };
    let etag = format!("\"etag-{}-{}\"", name.unwrap_or_default(), body.len());
    let is_weights = name == Some("model.safetensors");
    if is_weights && *request.method() == Method::Get && cuts.swap(0, Ordering::SeqCst) > 0 {
        let mut writer = request.into_writer();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: {etag}\r\nX-Repo-Commit: {COMMIT}\r\n\r\n",
            body.len()
        );
        let _ = writer.write_all(head.as_bytes());
        let _ = writer.write_all(&body[..body.len() / 2]);
        return;
    }
    let response = Response::from_data(body.clone())
        .with_header(header("ETag", &etag))
        .with_header(header("X-Repo-Commit", COMMIT));
    let _ = request.respond(response);
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
        let output = self.home.path().join("out");
        let _ = std::fs::remove_dir_all(&output);
        let mut command = Command::cargo_bin("tealight").expect("the binary");
        for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command.env("HF_HOME", self.home.path()).env("HF_ENDPOINT", &self.endpoint);
        command.args(["eval", "--model", model, "--max-samples", "2", "-n", "2", "-k", "1"]);
        command.args(["--max-completion-length", "20", "--device", "cpu", "--output"]).arg(&output);
        command.envs(set.iter().copied());
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
    assert_eq!(tries.count(), 2, "{log:?}");
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
