//! Sampling from a server, against one of our own that speaks the API and misbehaves on request.

use std::collections::HashSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::binary::{Folder, command, has, refused, stderr_of, tealight};
use crate::support::hub::json_answer;
use crate::support::runs::{json as json_at, samples};
use crate::support::server::{ReceivedRequest, serve_streams, write_answer};
use serde_json::{Value, json};

/// The server's treatment of a request.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Good,
    /// One completion, whatever was asked for.
    One,
    /// Every second choice has no text, or was filtered.
    Holey,
    /// No choice at all.
    Mute,
    /// The prompt is too long.
    TooLong,
    /// An error in a body of status 200, once.
    Overloaded,
    Busy,
    Broken,
    Hangs,
    Cuts,
    /// A good answer, a byte at a time at first: each comes in time, and the whole does not.
    Drips,
    Nonsense,
    Forbids,
}

pub(crate) struct Engine {
    pub(crate) address: String,
    /// The bodies it has seen.
    pub(crate) seen: Arc<Mutex<Vec<Value>>>,
}

impl Engine {
    /// A server whose requests get these moods in turn, then good ones.
    pub(crate) fn start(moods: &[Mood]) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let moods = Mutex::new(moods.iter().rev().copied().collect::<Vec<_>>());
        let log = seen.clone();
        let address = serve_streams(move |request, stream| {
            if request.method == "GET" {
                let own =
                    json!({"data": [{"id": "served", "owned_by": "llamacpp"}], "total_slots": 64});
                return write_answer(request, &json_answer(&own), stream);
            }
            let body: Value = serde_json::from_slice(&request.body).expect("a JSON body");
            log.lock().expect("log").push(body.clone());
            let mood = moods.lock().expect("moods").pop().unwrap_or(Mood::Good);
            respond(request, stream, mood, &body)
        });
        Self { address, seen }
    }
}

fn respond(
    request: &ReceivedRequest,
    mut stream: &TcpStream,
    mood: Mood,
    body: &Value,
) -> std::io::Result<()> {
    let reply = |status: u16, more: &str, text: &str| {
        write_answer(request, &(status, more.to_owned(), text.into()), stream)
    };
    let n = if mood == Mood::One { 1 } else { body["n"].as_u64().unwrap_or(1) };
    match mood {
        Mood::Busy => reply(429, "Retry-After: 0\r\n", "{\"error\":{\"message\":\"slow down\"}}"),
        Mood::Broken => reply(500, "", "oops"),
        Mood::Forbids => reply(401, "", "{\"error\":{\"message\":\"no key\"}}"),
        Mood::Nonsense => reply(200, "", "{\"choices\":[{\"text\":"),
        Mood::Mute => reply(200, "", "{\"choices\":[]}"),
        Mood::Overloaded => {
            reply(200, "", "{\"error\":{\"message\":\"model overloaded\",\"code\":503}}")
        }
        Mood::TooLong => {
            let error =
                json!({"message": "maximum context length is 10 tokens", "param": "messages"});
            reply(400, "", &json!({"error": error}).to_string())
        }
        Mood::Hangs => {
            std::thread::sleep(Duration::from_secs(20));
            Ok(())
        }
        Mood::Cuts => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{{\"choices\"")
        }
        Mood::Good | Mood::One | Mood::Holey | Mood::Drips => {
            assert!(request.path.starts_with("/v1/"), "{}", request.path);
            // An answer that says which seed drew it and which of its request it is.
            let choice = |index: u64| {
                json!({
                    "index": index,
                    "text": format!("{}+{index}", body["seed"]),
                    "finish_reason": "stop",
                    "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-0.5, -1.0]},
                })
            };
            let mut choices: Vec<Value> = (0..n).map(choice).collect();
            if mood == Mood::Holey {
                for (index, broken) in choices.iter_mut().enumerate().filter(|(i, _)| i % 2 == 1) {
                    match index % 4 {
                        1 => broken["text"] = Value::Null,
                        _ => broken["finish_reason"] = json!("content_filter"),
                    }
                }
            }
            let usage = json!({"completion_tokens": 2 * n});
            let text = json!({"model": "served", "choices": choices, "usage": usage}).to_string();
            if mood == Mood::Drips {
                const DRIPS: usize = 30;
                let length = DRIPS + text.len();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
                for _ in 0..DRIPS {
                    std::thread::sleep(Duration::from_millis(100));
                    write!(stream, " ")?;
                }
                return write!(stream, "{text}");
            }
            reply(200, "", &text)
        }
    }
}

pub(crate) fn eval(engine: &Engine, output: &str, more: &str) -> std::process::Output {
    let few = "--max-samples 6 -n 4 -k 1,4 --no-greedy --engine-kwargs timeout=1";
    let engine = &engine.address;
    tealight(command!("eval --engine {engine} --model served --output {output} {few} {more}"))
}

fn completions(output: &str) -> Vec<(String, String)> {
    let field = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    let row = |row: &Value| (field(row, "problem"), field(row, "completion"));
    samples(output).iter().map(row).collect()
}

#[test]
fn a_servers_samples_are_judged_here() {
    let folder = Folder::new();
    let engine = Engine::start(&[]);
    let output = folder.path("eval");
    let done = eval(&engine, &output, "--temperature 0.8 --top-p 0.9 --seed 3");
    assert!(done.status.success(), "{}", stderr_of(&done));
    let results = json_at(format!("{output}/results.json"));
    assert!(results["model"].as_str().expect("text").contains("served at http://127.0.0.1"));
    let summary = &results["sets"][0]["summary"];
    assert_eq!((&summary["problems"], &summary["n"]), (&json!(6), &json!(4)));
    assert_eq!(summary["sequence_entropy"]["value"], 1.5);
    let seen = engine.seen.lock().expect("log");
    assert_eq!(seen.len(), 6);
    assert_eq!((&seen[0]["temperature"], &seen[0]["top_p"]), (&json!(0.8), &json!(0.9)));
    assert_eq!((&seen[0]["model"], &seen[0]["n"]), (&json!("served"), &json!(4)));
    assert_eq!(seen[0]["repeat_penalty"], 1, "the server is known by its models' owner");
    let seeds: HashSet<String> = seen.iter().map(|body| body["seed"].to_string()).collect();
    assert_eq!(seeds.len(), 6, "each problem has its own seed");
}

#[test]
fn the_time_of_a_request_includes_its_answer() {
    let folder = Folder::new();
    let engine = Engine::start(&[Mood::Drips]);
    let done = eval(&engine, &folder.path("eval"), "");
    let stderr = stderr_of(&done);
    assert!(done.status.success() && stderr.contains("trying again"), "{stderr}");
}

#[test]
fn nothing_is_lost_or_counted_twice_when_the_server_fails() {
    let folder = Folder::new();
    use Mood::{Broken, Busy, Cuts, Hangs, Nonsense, One, Overloaded};
    let bad = [Busy, Broken, Hangs, Cuts, Nonsense, Overloaded, One];
    let (calm, rough) = (Engine::start(&[]), Engine::start(&bad.repeat(2)));
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    assert!(eval(&calm, &whole, "").status.success());
    let done = eval(&rough, &parts, "--engine-kwargs concurrency=3");
    let stderr = stderr_of(&done);
    assert!(done.status.success(), "{stderr}");
    has(
        &stderr,
        &["429", "500", "no answer in time", "malformed", "model overloaded", "trying again"],
    );
    let (a, b) = (completions(&whole), completions(&parts));
    assert_eq!(b.len(), 24);
    assert_eq!(b.iter().collect::<HashSet<_>>().len(), 24, "no answer twice");
    let problems = |rows: &[(String, String)]| rows.iter().map(|r| r.0.clone()).collect::<Vec<_>>();
    assert_eq!(problems(&a), problems(&b));
}

#[test]
fn chat_prompts_go_to_the_chat_endpoint() {
    let folder = Folder::new();
    let engine = Engine::start(&[]);
    let file = folder.write("q.jsonl", "{\"question\":\"1+1?\",\"answer\":\"2\"}\n");
    let output = folder.path("eval");
    let done = eval(&engine, &output, &format!("--dataset {file}"));
    assert!(done.status.success(), "{}", stderr_of(&done));
    let seen = engine.seen.lock().expect("log");
    assert!(seen[0]["messages"][0]["content"].as_str().expect("text").starts_with("1+1?"));
    assert_eq!(seen[0]["logprobs"], json!(true));
}

#[test]
fn permanent_server_errors_end_the_run_with_the_servers_message() {
    let folder = Folder::new();
    let engine = Engine::start(&[Mood::Forbids]);
    let output = folder.path("eval");
    refused!(
        "eval --engine {} --output {output} -n 1 -k 1 --engine-kwargs concurrency=1 --max-samples 3", engine.address
        => "401", "no key"
    );
    let engine = Engine::start(&[Mood::Broken; 3]);
    let output = folder.path("retries");
    let done = tealight(command!(
        "eval --engine {} --output {output} -n 1 -k 1 --engine-kwargs retries=2,concurrency=1",
        engine.address
    ));
    let stderr = stderr_of(&done);
    assert!(!done.status.success() && stderr.contains("gave up after 3 attempts"), "{stderr}");
}

#[test]
fn an_address_where_every_connection_is_closed_is_refused_before_anything_is_asked() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let output = folder.path("eval");
    refused!(
        "eval --engine {address} --model served --output {output}"
        => format!("--engine {address}: no server answers there")
    );
}

#[test]
fn a_server_reporting_another_model_is_warned_about_once() {
    let folder = Folder::new();
    let warnings = |model: &str| {
        let more = format!("--engine-kwargs model={model}");
        let done = eval(&Engine::start(&[]), &folder.path(model), &more);
        assert!(done.status.success());
        stderr_of(&done).matches("by its own account").count()
    };
    assert_eq!((warnings("served"), warnings("another")), (0, 1));
}
