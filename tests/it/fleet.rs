//! Training with servers that sample: against a stand-in for vLLM that refuses what the real one refuses.
//! `scripts/vllm-round-trip` does the same with a real one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use candle_core::Device;
use serde_json::{Value, json};
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::Precision;
use tealight::nn::generate::{
    Filters, Finish, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight::nn::model::Decoder;

use crate::support::binary::{Folder, ok, refusal, said, tealight, words};
use crate::support::metrics::rows;
use crate::support::server::{Answer, ReceivedRequest, serve};

/// A stand-in for vLLM that serves the embedded model.
pub(crate) struct Vllm {
    base: Pretrained,
    whole: Mutex<Decoder>,
    /// By name, with the folder that each came from.
    adapters: Mutex<HashMap<String, (String, Decoder)>>,
    /// Every name that was ever loaded.
    names: Mutex<Vec<String>>,
    drawn: AtomicUsize,
    /// Whether it answers at all.
    is_up: AtomicBool,
    /// Requests for completions after which it goes down.
    pub(crate) lasts: AtomicUsize,
    /// Whether it comes back when it is asked how it is.
    returns: AtomicBool,
    /// Whether it gives log-probabilities before the temperature, as vLLM does unless told otherwise.
    is_raw: bool,
}

const RANK: usize = 8;

impl Vllm {
    pub(crate) fn start(is_raw: bool) -> (Arc<Self>, String) {
        let base =
            Pretrained::load("countdown", Precision::default(), &Device::Cpu).expect("a model");
        let own = Arc::new(Self {
            whole: Mutex::new(base.decoder().expect("a decoder")),
            base,
            adapters: Mutex::default(),
            names: Mutex::default(),
            drawn: AtomicUsize::new(0),
            is_up: AtomicBool::new(true),
            lasts: AtomicUsize::new(usize::MAX),
            returns: AtomicBool::new(false),
            is_raw,
        });
        let shared = own.clone();
        (own, serve(move |asked| shared.answer(asked)))
    }

    pub(crate) fn answer(&self, asked: &ReceivedRequest) -> Answer {
        if asked.path == "/health" && self.returns.load(Ordering::SeqCst) {
            self.lasts.store(usize::MAX, Ordering::SeqCst);
            self.is_up.store(true, Ordering::SeqCst);
        }
        if !self.is_up.load(Ordering::SeqCst) {
            return (503, String::new(), b"{}".to_vec());
        }
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let (status, said) = match asked.path.as_str() {
            "/health" | "/pause" | "/resume" | "/reset_prefix_cache" => (200, json!({})),
            "/v1/models" => (200, self.models()),
            "/v1/load_lora_adapter" => self.load(&body),
            "/v1/unload_lora_adapter" => {
                let name = body["lora_name"].as_str().expect("a name");
                match self.adapters.lock().expect("whole").remove(name) {
                    Some(_) => (200, json!({})),
                    None => (404, error("no such adapter")),
                }
            }
            "/collective_rpc" => {
                let folder = body["kwargs"]["weights_path"].as_str().expect("a folder");
                let tuned = self.base.tuned(Path::new(folder), &Device::Cpu).expect("weights");
                *self.whole.lock().expect("whole") = tuned;
                (200, json!({"results": [null]}))
            }
            "/v1/completions" => self.complete(&body),
            other => panic!("vLLM has no {other}"),
        };
        (status, String::new(), said.to_string().into_bytes())
    }

    fn models(&self) -> Value {
        let base = json!({"id": "served", "owned_by": "vllm", "root": "served", "parent": null});
        let adapters = self.adapters.lock().expect("whole");
        let listed = |(name, (root, _)): (&String, &(String, Decoder))| json!({"id": name, "owned_by": "vllm", "root": root, "parent": "served"});
        let all: Vec<Value> = [base].into_iter().chain(adapters.iter().map(listed)).collect();
        json!({"data": all})
    }

    fn load(&self, body: &Value) -> (u16, Value) {
        let (name, folder) = (&body["lora_name"], &body["lora_path"]);
        let (name, folder) = (name.as_str().expect("a name"), folder.as_str().expect("a path"));
        let folder = Path::new(folder);
        let mut names = self.names.lock().expect("whole");
        if names.iter().any(|known| known == name) {
            return (400, error("the name is known"));
        }
        if !folder.join("adapter_config.json").exists() {
            return (404, error("no such adapter"));
        }
        let config = std::fs::read(folder.join("adapter_config.json")).expect("a config");
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        if config["r"].as_u64().expect("a rank") as usize > RANK {
            return (400, error("LoRA rank is greater than max_lora_rank"));
        }
        let decoder = self.base.tuned(folder, &Device::Cpu).expect("an adapter");
        self.adapters
            .lock()
            .expect("whole")
            .insert(name.to_owned(), (folder.display().to_string(), decoder));
        names.push(name.to_owned());
        (200, json!({}))
    }

    fn complete(&self, body: &Value) -> (u16, Value) {
        let drawn = self.drawn.fetch_add(1, Ordering::SeqCst);
        if drawn >= self.lasts.load(Ordering::SeqCst) {
            self.is_up.store(false, Ordering::SeqCst);
            return (500, error("the engine is dead"));
        }
        for (key, value) in [("top_p", json!(1.0)), ("top_k", json!(-1)), ("min_p", json!(0.0))] {
            assert_eq!(body[key], value, "{key} is sent, or the server fills it in");
        }
        assert_eq!(body["return_token_ids"], json!(true));
        assert!(body.get("seed").is_none(), "a seed of its own ends vLLM's CPU engine");
        let decoder = match body["model"].as_str().expect("a model") {
            "served" => self.whole.lock().expect("whole").clone(),
            name => match self.adapters.lock().expect("whole").get(name) {
                Some((_, decoder)) => decoder.clone(),
                None => return (404, error("the model does not exist")),
            },
        };
        let numbers =
            |key: &str| -> Vec<u32> { serde_json::from_value(body[key].clone()).expect(key) };
        let size = |key: &str| body[key].as_u64().expect(key) as usize;
        let temperature = body["temperature"].as_f64().expect("a temperature");
        let params = SamplingParams {
            temperature,
            filters: Filters::default(),
            max_new_tokens: size("max_tokens"),
            eos: numbers("stop_token_ids"),
        };
        let request =
            SampleRequest { prompt: numbers("prompt"), first: 0, count: size("n"), key: 0 };
        let mut choices = Vec::new();
        let rng_key = RngKey { seed: 7, step: drawn as u64 };
        let sampler = LocalSampler { decoder: &decoder, max_rows: 64 };
        sampler
            .generate(&[request], &params, rng_key, &mut |_, completions| {
                for one in completions {
                    let raw = if self.is_raw { temperature as f32 } else { 1.0 };
                    let logp: Vec<f32> = one.logp.iter().map(|x| x * raw).collect();
                    let finish = if one.finish == Finish::Stop { "stop" } else { "length" };
                    choices
                        .push(json!({"text": "", "finish_reason": finish, "token_ids": one.tokens,
                        "logprobs": {"token_logprobs": logp}}));
                }
                Ok(())
            })
            .expect("completions");
        (200, json!({"choices": choices}))
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.adapters.lock().expect("whole").is_empty()
    }
}

fn error(text: &str) -> Value {
    json!({"error": {"message": text}})
}

/// A short run on that server.
pub(crate) fn arguments<'a>(engine: &'a str, output: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let common = words(
        "train --objective grpo --max-steps 3 --prompts-per-step 4 --num-generations 4 \
         --max-samples 24 --learning-rate 1e-3 --max-completion-length 16 --retries 0 \
         --log-completions 0 --report-to none",
    );
    [&common[..], &["--engine", engine, "--output", output], more].concat()
}

const ADAPTER: [&str; 3] = ["--use-peft", "--lora-r", "8"];

pub(crate) fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key}"))
}

#[test]
fn servers_sample_from_the_adapter_of_every_step_and_nothing_is_left_behind() {
    let folder = Folder::new();
    let ((one, first), (other, second)) = (Vllm::start(false), Vllm::start(false));
    let (engines, output) = (format!("{first}, {second}"), folder.path("run"));
    let more = [&ADAPTER[..], &["--temperature", "0.8"]].concat();
    ok(&arguments(&engines, &output, &more));
    for row in rows(Path::new(&output)) {
        // The adapter of the step, at the temperature: another would differ by far more.
        assert!(number(&row, "sampling/engine_logp_difference/max") < 1e-4, "{row}");
        assert!((number(&row, "sampling/effective_sample_size") - 1.0).abs() < 1e-6);
        assert_eq!(number(&row, "sampling/masked_ratio"), 0.0);
    }
    for server in [&one, &other] {
        assert!(server.is_clean(), "an adapter is left on a server");
        assert_eq!(server.names.lock().expect("whole").len(), 3, "one a step");
        assert!(server.drawn.load(Ordering::SeqCst) >= 3, "both sample");
    }
    assert!(!Path::new(&output).join("engine").exists(), "an adapter is left on the disk");
    let config = std::fs::read_to_string(Path::new(&output).join("config.toml")).expect("settings");
    assert!(config.contains("engine = "));
}

#[test]
fn all_weights_are_read_again_before_every_step() {
    let folder = Folder::new();
    let (server, engine) = Vllm::start(false);
    let output = folder.path("run");
    ok(&arguments(&engine, &output, &["--importance-correction", "token-truncate:2"]));
    let found = rows(Path::new(&output));
    assert_eq!(found.len(), 3);
    for row in &found {
        assert!(number(row, "sampling/engine_logp_difference/max") < 1e-4, "{row}");
    }
    assert!(!Path::new(&output).join("engine").exists());
    // A base that stays what it is falls behind, which shows and is corrected.
    *server.whole.lock().expect("whole") = server.base.decoder().expect("a decoder");
    let stale = folder.path("stale");
    let said = ok(&arguments(&engine, &stale, &["--engine-weights", "none"]));
    let last = rows(Path::new(&stale)).pop().expect("rows");
    assert!(number(&last, "sampling/sampling_logp_difference/mean") > 0.01, "{last}");
    assert!(number(&last, "sampling/effective_sample_size") < 0.999, "{last}");
    assert!(said.contains("has not taken all weights"), "{said}");
}

#[test]
fn the_next_step_is_sampled_while_this_one_trains() {
    let folder = Folder::new();
    let ((one, first), (other, second)) = (Vllm::start(false), Vllm::start(false));
    let (engines, output) = (format!("{first},{second}"), folder.path("run"));
    ok(&arguments(&engines, &output, &[&ADAPTER[..], &["--max-staleness", "1"]].concat()));
    let found = rows(Path::new(&output));
    let staleness: Vec<f64> = found.iter().map(|row| number(row, "sampling/staleness")).collect();
    // The first waits for its weights; each later one was begun with those before it, or with its own.
    assert_eq!((staleness.len(), staleness[0]), (3, 0.0));
    assert!(staleness.iter().all(|steps| *steps <= 1.0), "{staleness:?}");
    assert!(number(&found[0], "sampling/engine_logp_difference/max") < 1e-4);
    assert!(one.is_clean() && other.is_clean());
    // As many completions as in lock-step, whatever was drawn ahead.
    assert_eq!(number(&found[2], "num_completions"), 48.0);
    // A death while it samples ahead ends the run whole as well.
    let output = folder.path("dies");
    let (alone, engine) = Vllm::start(false);
    alone.lasts.store(6, Ordering::SeqCst);
    let more = [&ADAPTER[..], &["--max-staleness", "2"]].concat();
    let done = tealight(&arguments(&engine, &output, &more));
    assert!(said(&done).contains("no server is left"), "{}", said(&done));
    let (_, engine) = Vllm::start(false);
    ok(&arguments(&engine, &output, &[&more[..], &["--resume"]].concat()));
    let found = rows(Path::new(&output));
    assert_eq!((found.len(), number(&found[2], "num_completions")), (3, 48.0));
}

#[test]
fn a_server_that_dies_is_left_out_and_one_that_is_left_alone_ends_the_run_whole() {
    let folder = Folder::new();
    let ((one, first), (other, second)) = (Vllm::start(false), Vllm::start(false));
    one.lasts.store(3, Ordering::SeqCst);
    let (engines, output) = (format!("{first},{second}"), folder.path("run"));
    let said_of = ok(&arguments(&engines, &output, &ADAPTER));
    assert!(said_of.contains("is left out"), "{said_of}");
    assert_eq!(rows(Path::new(&output)).len(), 3);
    assert!(other.is_clean());

    // One that comes back is given the weights of the step before it samples again, and loses what it still had.
    let ((back, first), (steady, second)) = (Vllm::start(false), Vllm::start(false));
    back.lasts.store(1, Ordering::SeqCst);
    back.returns.store(true, Ordering::SeqCst);
    let (engines, output) = (format!("{first},{second}"), folder.path("back"));
    let said_of = ok(&arguments(&engines, &output, &ADAPTER));
    assert!(said_of.contains("is left out") && said_of.contains("answers again"), "{said_of}");
    for row in rows(Path::new(&output)) {
        assert!(number(&row, "sampling/engine_logp_difference/max") < 1e-4, "{row}");
    }
    assert!(back.names.lock().expect("whole").len() >= 2 && back.is_clean() && steady.is_clean());

    // The only one dies in the second step; another takes the run up, as if nothing had been.
    let output = folder.path("alone");
    let (alone, engine) = Vllm::start(false);
    alone.lasts.store(6, Ordering::SeqCst);
    let done = tealight(&arguments(&engine, &output, &ADAPTER));
    assert!(!done.status.success());
    let why = said(&done);
    assert!(why.contains("no server is left") && why.contains("--resume"), "{why}");
    assert!(!Path::new(&output).join("engine").exists());
    let before = rows(Path::new(&output)).len();
    assert!(before < 3);
    let (fresh, engine) = Vllm::start(false);
    ok(&arguments(&engine, &output, &[&ADAPTER[..], &["--resume"]].concat()));
    let found = rows(Path::new(&output));
    assert_eq!(found.len(), 3);
    let steps: Vec<f64> = found.iter().map(|row| number(row, "step")).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0]);
    assert_eq!(number(&found[2], "num_completions"), 48.0, "as many as without a death");
    assert!(fresh.is_clean());
}

#[test]
fn a_server_with_another_distribution_is_seen_at_once() {
    let folder = Folder::new();
    let (_, engine) = Vllm::start(true);
    let output = folder.path("run");
    let done =
        tealight(&arguments(&engine, &output, &[&ADAPTER[..], &["--temperature", "0.3"]].concat()));
    let why = said(&done);
    assert!(!done.status.success() && why.contains("processed_logprobs"), "{why}");
    assert!(!Path::new(&output).join("engine").exists());
    // A rank that it was not started with: its words.
    let output = folder.path("rank");
    let why = said(&tealight(&arguments(&engine, &output, &["--use-peft", "--lora-r", "16"])));
    assert!(why.contains("max_lora_rank") && why.contains("no server is left"), "{why}");
}

#[test]
fn what_makes_no_sense_with_servers_is_refused() {
    let folder = Folder::new();
    let output = folder.path("run");
    let refused = |engine: &str, more: &[&str]| refusal(&arguments(engine, &output, more));
    let nowhere = "http://127.0.0.1:9";
    assert!(refused(nowhere, &[]).contains("no server answers there"));
    let said = refused(nowhere, &["--engine-weights", "adapter"]);
    assert!(said.contains("no adapter is trained"), "{said}");
    let said = refused(nowhere, &["--use-peft", "--engine-weights", "full"]);
    assert!(said.contains("take `adapter`"), "{said}");
    let said = refused("nonsense", &[]);
    assert!(said.contains("is no address"), "{said}");
    let llama = serve(|asked| match asked.path.as_str() {
        "/v1/models" => {
            (200, String::new(), br#"{"data":[{"id":"x","owned_by":"llamacpp"}]}"#.to_vec())
        }
        _ => (200, String::new(), b"{}".to_vec()),
    });
    assert!(refused(&llama, &[]).contains("training samples from vLLM and SGLang"));
    let supervised = ["train", "--objective", "rft", "--engine", nowhere, "--output", &output];
    assert!(refusal(&supervised).contains("--engine has no effect"));
}
