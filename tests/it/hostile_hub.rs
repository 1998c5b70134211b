//! Hubs that lie, stall, drip or never end: each is refused in time, in bounded memory, and nothing is kept.

use std::io::{Result, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::binary::{ended, evaluation, program, words};
use crate::support::embedded;
use crate::support::hub::{COMMIT, FakeHub, Repository, TOKEN, files};
use crate::support::server::{Answer, ReceivedRequest, serve, write_answer};

/// A command ends in this time whatever a server does, on a busy machine too.
pub(crate) const IN_TIME: Duration = Duration::from_secs(45);

/// Evaluates `evil/model`; whether that succeeds, and what is said.
pub(crate) fn eval(endpoint: &str, home: &Path, set: &[(&str, &str)]) -> (bool, String) {
    eval_with(endpoint, home, set, "")
}

/// The same with further options.
fn eval_with(endpoint: &str, home: &Path, set: &[(&str, &str)], options: &str) -> (bool, String) {
    let started = Instant::now();
    let model = if options.is_empty() { "evil/model" } else { "countdown" };
    let line = format!(
        "--model {model} {options} --max-samples 2 --output {}",
        home.join("out").display()
    );
    let mut command = evaluation(endpoint, &home.join("a/b/c/d"), &line);
    command.env("HF_TOKEN", TOKEN).env("HF_HUB_DOWNLOAD_TIMEOUT", "1").envs(set.iter().copied());
    let (is_ok, stderr) = ended(&mut command);
    assert!(started.elapsed() < IN_TIME, "{:?}: {stderr}", started.elapsed());
    assert!(!stderr.contains("panicked"), "{stderr}");
    (is_ok, stderr)
}

/// The names of all files below a folder.
fn below(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.flat_map(|entry| match entry.path().is_dir() {
        true => below(&entry.path()),
        false => vec![entry.path().display().to_string()],
    });
    names.collect()
}

/// How a server writes an answer.
pub(crate) type Writer =
    Box<dyn Fn(&ReceivedRequest, Answer, &TcpStream) -> Result<()> + Send + Sync>;

/// Changes the answers to requests whose line has `part`; others are good.
fn changed(
    part: &'static str,
    change: impl Fn(Answer) -> Answer + Send + Sync + 'static,
) -> Writer {
    Box::new(move |request, answer, stream| {
        let line = request.head.lines().next().unwrap_or_default();
        let answer = if line.contains(part) { change(answer) } else { answer };
        write_answer(request, &answer, stream)
    })
}

/// Writes the answers to requests whose line has `part` in another way; others are good.
fn written(
    part: &'static str,
    write: impl Fn(Answer, &TcpStream) -> Result<()> + Send + Sync + 'static,
) -> Writer {
    Box::new(move |request, answer, stream| {
        let line = request.head.lines().next().unwrap_or_default();
        if line.contains(part) {
            write(answer, stream)
        } else {
            write_answer(request, &answer, stream)
        }
    })
}

/// Another field in what the API says of a file.
fn described(key: &'static str, value: Value) -> Writer {
    changed("/paths-info/", move |(status, headers, body)| {
        let mut entries: Value = serde_json::from_slice(&body).expect("JSON");
        entries[0][key] = value.clone();
        (status, headers, entries.to_string().into_bytes())
    })
}

fn silence(part: &'static str) -> Writer {
    written(part, |_, _| {
        std::thread::sleep(2 * IN_TIME);
        Ok(())
    })
}

/// The head and the first bytes, then one byte after the other.
fn drip(part: &'static str, head: &'static str) -> Writer {
    written(part, move |(_, _, body), mut stream| {
        stream.write_all(head.as_bytes())?;
        for byte in body.iter().chain(std::iter::repeat(&b' ')) {
            stream.write_all(&[*byte])?;
            stream.flush()?;
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    })
}

/// The head, then the block for ever.
fn endless(part: &'static str, head: &'static str, block: &'static str) -> Writer {
    written(part, move |_, mut stream| {
        stream.write_all(head.as_bytes())?;
        let block = block.repeat(1024);
        let started = Instant::now();
        while started.elapsed() < 2 * IN_TIME {
            stream.write_all(block.as_bytes())?;
        }
        Ok(())
    })
}

fn redirect(part: &'static str, headers: &'static str) -> Writer {
    changed(part, move |_| (302, headers.into(), Vec::new()))
}

const CHUNKED: &str = "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n";
const LONG: &str = "HTTP/1.1 200 x\r\nContent-Length: 100000000\r\n\r\n";
/// A chunk of 16 bytes.
const CHUNK: &str = "10\r\naaaaaaaaaaaaaaaa\r\n";
/// The last request for a small file.
const SMALL: &str = "GET /api/resolve-cache/";
const LARGE: &str = "GET /repos/";
const INFO: &str = "/revision/main";
const PATHS: &str = "/paths-info/";
const NO_URL: &str = "a redirect to something that is not an http or https URL";

fn lies() -> Vec<(&'static str, Writer, &'static str)> {
    let info = |from: &'static str, to: &'static str| {
        changed(INFO, move |(status, headers, body)| {
            let text = String::from_utf8(body).expect("text").replace(from, to);
            (status, headers, text.into_bytes())
        })
    };
    vec![
        ("commit", info(COMMIT, "../../../../../../../escaped"), "invalid commit hash"),
        ("object id", described("oid", json!("../../../../../../../escaped")), "invalid object id"),
        ("other path", described("path", json!("../../../../../../escaped")), "no such file"),
        ("five bytes", described("size", json!(5)), "bytes where 5 are due"),
        ("four terabytes", described("size", json!(1u64 << 42)), "GB are free"),
        ("all bytes", described("size", json!(u64::MAX)), "too many for a file"),
        (
            "another byte",
            changed(SMALL, |(status, headers, mut body)| {
                body[0] ^= 1;
                (status, headers, body)
            }),
            "its git object is",
        ),
        (
            "another byte of a large file",
            changed(LARGE, |(status, headers, mut body)| {
                body[9] ^= 1;
                (status, headers, body)
            }),
            "its git object is",
        ),
        (
            "a byte less",
            changed(SMALL, |(status, headers, mut body)| {
                body.pop();
                (status, headers, body)
            }),
            "are due",
        ),
        (
            "a length of 2^63-1",
            changed(SMALL, |(status, headers, _)| {
                (status, headers + "Content-Length: 9223372036854775807\r\n", b"x".to_vec())
            }),
            "bytes where",
        ),
        (
            "redirects without end",
            redirect("/resolve/", "Location: /evil/model/resolve/x\r\n"),
            "redirects",
        ),
        ("redirect to a file", redirect("/resolve/", "Location: file:///etc/passwd\r\n"), NO_URL),
        ("redirect to nowhere", redirect("/resolve/", ""), NO_URL),
        ("nested JSON", endless_json(), "not the JSON"),
        (
            "an old answer",
            changed(INFO, |_| (200, String::new(), b"<html>".to_vec())),
            "not the JSON",
        ),
    ]
}

fn endless_json() -> Writer {
    changed(INFO, |_| {
        let nested = format!("{{\"id\":\"x\",\"cardData\":{}", "[".repeat(1_000_000));
        (200, String::new(), nested.into_bytes())
    })
}

fn stalls() -> Vec<(&'static str, Writer, &'static str)> {
    let in_time = "no answer in time";
    let header = "HTTP/1.1 200 x\r\nX-A: ";
    vec![
        ("silent description", silence(INFO), in_time),
        ("silent file description", silence(PATHS), in_time),
        ("silent headers", silence("GET /evil/model/resolve/"), in_time),
        ("silent file", silence(SMALL), in_time),
        (
            "silent body",
            written(SMALL, |(_, _, body), mut stream| {
                write!(stream, "HTTP/1.1 200 x\r\nContent-Length: {}\r\n\r\n", body.len())?;
                stream.write_all(&body[..4])?;
                std::thread::sleep(2 * IN_TIME);
                Ok(())
            }),
            in_time,
        ),
        (
            "dripping body",
            written(SMALL, |(_, _, body), mut stream| {
                write!(stream, "HTTP/1.1 200 x\r\nContent-Length: {}\r\n\r\n", body.len())?;
                for byte in body {
                    stream.write_all(&[byte])?;
                    std::thread::sleep(Duration::from_millis(300));
                }
                Ok(())
            }),
            "too slow",
        ),
        ("dripping JSON", drip(INFO, LONG), in_time),
        ("dripping header", drip(INFO, header), in_time),
        (
            "endless header",
            endless(INFO, "HTTP/1.1 200 x\r\n", "X-A: aaaaaaaaaaaaaaaa\r\n"),
            "too many headers",
        ),
        ("endless file", endless(SMALL, CHUNKED, CHUNK), "more than the"),
    ]
}

/// Answers that end at the limit of memory, before that of time.
fn floods() -> Vec<(&'static str, Writer, &'static str)> {
    let error = "HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![
        ("endless JSON", endless(INFO, CHUNKED, CHUNK), "the limit"),
        ("endless error", endless(INFO, error, CHUNK), "the server said 500"),
    ]
}

/// Meets every server at once, since most of the time is waiting; `silence` is what each may keep, in seconds.
fn meet(cases: Vec<(&'static str, Writer, &'static str)>, silence: &str) {
    std::thread::scope(|scope| {
        for (name, writer, expected) in cases {
            scope.spawn(move || {
                let model = Repository::new("models", "evil/model", embedded::files());
                let hub = FakeHub::with_writer(vec![model], writer);
                let home = tempfile::tempdir().expect("a folder");
                let set = [("HF_HUB_DOWNLOAD_TIMEOUT", silence)];
                let (is_ok, stderr) = eval(&hub.endpoint, home.path(), &set);
                let errors = stderr.lines().filter(|line| line.starts_with("error: ")).count();
                assert!(!is_ok && errors == 1 && stderr.contains(expected), "{name}: {stderr}");
                let left = below(home.path());
                assert!(!left.iter().any(|path| path.contains("escaped")), "{name}: {left:?}");
            });
        }
    });
}

#[test]
fn inconsistent_hub_metadata_is_refused() {
    meet(lies(), "20");
}

#[test]
fn silent_slow_and_endless_servers_time_out() {
    meet(stalls(), "1");
    meet(floods(), "20");
}

/// A server on another port that redirects to itself once, and what it was asked.
fn foreign() -> (String, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let address = serve(move |request| {
        log.lock().expect("seen").push(request.head.to_lowercase());
        match request.path.as_str() {
            "/elsewhere" => (307, "Location: /again\r\n".into(), Vec::new()),
            _ => (404, String::new(), b"{}".to_vec()),
        }
    });
    (address, seen)
}

/// A Hub with a model and a dataset that sends requests whose line has `part` to `foreign`.
fn sending_away(part: &'static str, foreign: &str) -> FakeHub {
    let to = format!("Location: {foreign}/elsewhere\r\nLink: <{foreign}/tree>; rel=\"next\"\r\n");
    let rows = [("train.jsonl", &b"{}"[..])];
    let repositories = vec![
        Repository::new("models", "evil/model", embedded::files()),
        Repository::new("datasets", "evil/data", files(&rows)),
    ];
    FakeHub::with_writer(repositories, changed(part, move |_| (307, to.clone(), Vec::new())))
}

#[test]
fn the_token_stays_with_the_hub_wherever_it_redirects() {
    let (address, seen) = foreign();
    for part in [INFO, PATHS, "/resolve/"] {
        for dataset in ["", "--dataset hub:evil/data:train.jsonl"] {
            let hub = sending_away(part, &address);
            let home = tempfile::tempdir().expect("a folder");
            let (is_ok, stderr) = eval_with(&hub.endpoint, home.path(), &[], dataset);
            assert!(!is_ok, "{stderr}");
            let log = hub.shelf.lock().expect("shelf").log.clone();
            let bearer = format!("Bearer {TOKEN}");
            let has_token = |request: &ReceivedRequest| {
                request.header("authorization") == Some(bearer.as_str())
            };
            assert!(!log.is_empty() && log.iter().all(has_token));
        }
    }
    let seen = seen.lock().expect("seen");
    assert_eq!(seen.len(), 12, "{seen:?}");
    let is_clean =
        |head: &String| !["authorization", "referer"].iter().any(|name| head.contains(name));
    assert!(seen.iter().all(is_clean), "{seen:?}");
}

#[test]
fn servers_that_sample_are_not_redirected_at_all() {
    let (address, seen) = foreign();
    let folder = tempfile::tempdir().expect("a folder");
    let to = address.clone();
    let engine = serve(move |_| (307, format!("Location: {to}/elsewhere\r\n"), Vec::new()));
    let output = folder.path().join("out").display().to_string();
    let line =
        format!("eval --engine {engine} --model m --max-samples 1 -n 1 -k 1 --output {output}");
    let mut sample = program();
    sample.env("OPENAI_API_KEY", TOKEN).args(words(&line));
    let done = sample.timeout(IN_TIME).output().expect("runs");
    assert!(!done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(seen.lock().expect("seen").len(), 0);
}
