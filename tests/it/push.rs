//! `tealight push` against a local server that speaks the Hub's API for writing.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use crate::support::binary::{Folder, has, refused};
use crate::support::runs::{json, trained};
use assert_cmd::Command;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The state of the server.
#[derive(Default)]
struct Shelf {
    repositories: Vec<String>,
    objects: HashMap<String, Vec<u8>>,
    /// Files by name, of the last commit.
    files: BTreeMap<String, Vec<u8>>,
    log: Vec<String>,
    /// How many uploads of objects are still to be cut off.
    cuts: usize,
}

struct Hub {
    endpoint: String,
    shelf: Arc<Mutex<Shelf>>,
}

impl Hub {
    fn start(cuts: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let shelf = Arc::new(Mutex::new(Shelf { cuts, ..Shelf::default() }));
        let (known, own) = (shelf.clone(), endpoint.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shelf, own) = (known.clone(), own.clone());
                std::thread::spawn(move || drop(serve(&stream, &own, &shelf)));
            }
        });
        Self { endpoint, shelf }
    }

    fn push(&self, token: &str, arguments: &[&str]) -> Output {
        let mut command = Command::cargo_bin("tealight").expect("the binary");
        command.env("HF_ENDPOINT", &self.endpoint).env("HF_TOKEN", token);
        command.env("RUST_BACKTRACE", "0").arg("push").args(arguments).output().expect("runs")
    }

    fn uploads(&self) -> usize {
        let shelf = self.shelf.lock().expect("shelf");
        shelf.log.iter().filter(|line| line.starts_with("PUT")).count()
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: &TcpStream, endpoint: &str, shelf: &Mutex<Shelf>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut length, mut is_known) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a number");
        }
        is_known |= line == "authorization: bearer secret" || line == "x-upload: granted";
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut shelf = shelf.lock().expect("shelf");
    shelf.log.push(format!("{method} {target}"));
    if method == "PUT" && shelf.cuts > 0 {
        shelf.cuts -= 1;
        let mut part = vec![0; length / 2];
        reader.read_exact(&mut part)?;
        return Ok(());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = match is_known {
        true => shelf.answer(endpoint, target, &body),
        false => (401, json!({"error": "who are you?"})),
    };
    let text = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

impl Shelf {
    fn answer(&mut self, endpoint: &str, target: &str, body: &[u8]) -> (u16, Value) {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_there = |shelf: &Self| shelf.repositories.iter().any(|name| name == "me/run");
        match target {
            "/api/repos/create" => {
                if is_there(self) {
                    return (409, json!({"error": "there already"}));
                }
                // `me` is an account, not an organisation.
                if request["organization"] == "me" {
                    return (403, json!({"error": "no such organisation"}));
                }
                self.repositories.push(format!("me/{}", request["name"].as_str().expect("a name")));
                (200, json!({"url": "there"}))
            }
            _ if !is_there(self) => (404, json!({"error": "no such repository"})),
            "/api/models/me/run/preupload/main" => {
                let files = request["files"].as_array().expect("files").iter().map(|file| {
                    let is_large = file["path"].as_str().expect("a path").ends_with("safetensors");
                    json!({"path": file["path"], "uploadMode": if is_large { "lfs" } else { "regular" }})
                });
                (200, json!({"files": files.collect::<Vec<_>>()}))
            }
            "/me/run.git/info/lfs/objects/batch" => {
                let objects = request["objects"].as_array().expect("objects").iter().map(|object| {
                    let oid = object["oid"].as_str().expect("an id");
                    let mut answer = object.clone();
                    if !self.objects.contains_key(oid) {
                        answer["actions"]["upload"] =
                            json!({"href": format!("{endpoint}/objects/{oid}"), "header": {"X-Upload": "granted"}});
                    }
                    answer
                });
                (200, json!({"transfer": "basic", "objects": objects.collect::<Vec<_>>()}))
            }
            "/api/models/me/run/commit/main" => {
                let lines = std::str::from_utf8(body).expect("text").lines();
                for line in lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
                    let value = &line["value"];
                    let name = || value["path"].as_str().expect("a path").to_owned();
                    let text = |key: &str| value[key].as_str().expect("text");
                    match line["key"].as_str() {
                        Some("file") => {
                            let bytes = STANDARD.decode(text("content")).expect("base64");
                            self.files.insert(name(), bytes);
                        }
                        Some("lfsFile") => {
                            let Some(bytes) = self.objects.get(text("oid")) else {
                                return (400, json!({"error": "an object is missing"}));
                            };
                            self.files.insert(name(), bytes.clone());
                        }
                        _ => {}
                    }
                }
                (200, json!({"commitUrl": format!("{endpoint}/me/run/commit/1")}))
            }
            _ => match target.strip_prefix("/objects/") {
                Some(oid) => {
                    self.objects.insert(oid.to_owned(), body.to_vec());
                    (200, json!({}))
                }
                None => (404, json!({"error": target})),
            },
        }
    }
}

#[test]
fn a_run_is_pushed_with_its_card_through_a_network_that_breaks() {
    let folder = Folder::new();
    let run = folder.path("study/run");
    std::fs::create_dir_all(folder.0.path().join("study")).expect("made");
    trained(&run, &["--use-peft", "--max-samples", "8", "--max-steps", "1"]);
    folder.write("study/results.md", "| countdown/train | pass@1 |\n|---|--:|\n| base | 0.222 |\n");
    // Tables beside a run are those of its study, or nobody's that should be published.
    folder.write(
        "study/config.toml",
        "# tealight 0.1.0\nmodel = \"countdown\"\nobjectives = [\"grpo\"]\n",
    );
    folder.write("study/results.json", "{}");

    // As often as one push tries: the first command fails, the second goes on.
    let hub = Hub::start(4);
    let arguments = [run.as_str(), "--repo", "me/run", "--private"];
    let failed = hub.push("secret", &arguments);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the same command goes on from there"), "{stderr}");
    assert!(hub.shelf.lock().expect("shelf").files.is_empty(), "no commit without its files");
    let pushed = hub.push("secret", &arguments);
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    assert!(String::from_utf8_lossy(&pushed.stdout).contains("/me/run/commit/1"));
    let uploads = hub.uploads();
    let again = hub.push("secret", &arguments);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is there already"));
    assert_eq!(hub.uploads(), uploads, "what arrived is not sent twice");

    let shelf = hub.shelf.lock().expect("shelf");
    let local = Path::new(&run).join("final");
    let entries = std::fs::read_dir(&local).expect("a directory").flatten();
    for entry in entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')) {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert_eq!(shelf.files[&name], std::fs::read(entry.path()).expect("read"), "{name}");
    }
    let card = String::from_utf8(shelf.files["README.md"].clone()).expect("text");
    has(
        &card,
        &[
            "library_name: peft",
            "- grpo",
            "| base | 0.222 |",
            "| reward |",
            "learning_rate = 0.0003",
        ],
    );
    assert_eq!(json(local.join("adapter_config.json"))["base_model_name_or_path"], "countdown");
}

#[test]
fn unpushable_runs_are_refused_with_the_fix() {
    let hub = Hub::start(0);
    let folder = Folder::new();
    let refused = |token: &str, arguments: &[&str]| {
        let output = hub.push(token, arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let model = folder.path("model");
    std::fs::create_dir_all(&model).expect("made");
    assert!(
        refused("secret", &[&model, "--repo", "me/run"]).contains("no model and no adapter here")
    );
    folder.write("model/config.json", "{}");
    assert!(refused("secret", &[&model]).contains("--repo OWNER/NAME is needed"));
    assert!(refused("secret", &[&model, "--repo", "run"]).contains("named owner/name"));
    assert!(
        refused("wrong", &[&model, "--repo", "me/run"])
            .contains("set HF_TOKEN to one that may write")
    );
}
