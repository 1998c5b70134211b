//! A stand-in for vLLM, which refuses what the real one refuses.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use candle_core::Device;
use serde_json::{Value, json};
use tealight::formats::pretrained::Pretrained;
use tealight::nn::generate::{Finish, LocalSampler, RngKey, SampleRequest, Sampler};
use tealight::nn::model::weights::Weights;
use tealight::nn::model::{Architecture, Decoder};
use tealight::nn::policy::{Sequence, frozen_decoder, token_logp};

use super::server::{Answer, ReceivedRequest, serve};

/// A stand-in for vLLM that serves the embedded model.
pub(crate) struct Vllm {
    base: Pretrained,
    whole: Mutex<Decoder>,
    /// By name, with the folder that each came from.
    adapters: Mutex<HashMap<String, (String, Decoder)>>,
    /// Every name that was ever loaded.
    names: Mutex<Vec<String>>,
    pub(crate) num_requests: AtomicUsize,
    /// Whether it answers at all.
    is_up: AtomicBool,
    /// Requests for completions after which it goes down.
    pub(crate) lasts: AtomicUsize,
    /// Whether it comes back when it is asked how it is.
    pub(crate) returns: AtomicBool,
    /// What its weights are called.
    version: Mutex<String>,
    /// How often it was told to read all weights.
    pub(crate) reloads: AtomicUsize,
    /// Requests for completions after which it is started anew, without a word.
    pub(crate) restarts: AtomicUsize,
    quirks: Quirks,
}

/// How a server differs from one that does as it is told and says nothing of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quirks {
    /// Gives log-probabilities before the temperature, as vLLM does unless told otherwise.
    pub(crate) is_raw: bool,
    /// Keeps its first output layer, as vLLM's build for CPUs does where it is tied to the embedding.
    pub(crate) keeps_output_layer: bool,
    /// Reloads after which it reads nothing, and says that it did.
    pub(crate) reads: Option<usize>,
    /// The calls that it describes, if it describes any.
    pub(crate) announces: Option<Vec<&'static str>>,
}

const RANK: usize = 8;

impl Vllm {
    pub(crate) fn start(is_raw: bool) -> (Arc<Self>, String) {
        Self::start_with(Quirks { is_raw, ..Quirks::default() })
    }

    pub(crate) fn start_with(quirks: Quirks) -> (Arc<Self>, String) {
        let base = super::load("countdown");
        let own = Arc::new(Self {
            whole: Mutex::new(base.decoder().expect("a decoder")),
            base,
            adapters: Mutex::default(),
            names: Mutex::default(),
            num_requests: AtomicUsize::new(0),
            is_up: AtomicBool::new(true),
            lasts: AtomicUsize::new(usize::MAX),
            returns: AtomicBool::new(false),
            version: Mutex::new("default".into()),
            reloads: AtomicUsize::new(0),
            restarts: AtomicUsize::new(usize::MAX),
            quirks,
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
        let (status, reply) = match asked.path.as_str() {
            "/health" | "/pause" | "/resume" | "/reset_prefix_cache" => (200, json!({})),
            "/version" if self.quirks.announces.is_some() => (200, json!({"version": "0.33.0"})),
            "/openapi.json" if self.quirks.announces.is_some() => (200, self.description()),
            "/version" | "/openapi.json" => (404, error("Not Found")),
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
                self.read(Path::new(body["kwargs"]["weights_path"].as_str().expect("a folder")));
                (200, json!({"results": [null]}))
            }
            "/update_weight_version" => {
                let version = body["new_version"].as_str().expect("a version").to_owned();
                *self.version.lock().expect("whole") = version;
                (200, json!({"success": true}))
            }
            "/weight_checker" => {
                assert_eq!(body["action"], "checksum", "`reset` would end the weights");
                let embedding = format!("{:x}", self.reloads.load(Ordering::SeqCst));
                let sums = json!({"tp0.model.norm.weight": "0a", "tp0.model.embed_tokens.weight": embedding});
                (200, json!({"checksums": sums}))
            }
            "/v1/completions" if body["prompt_logprobs"].is_u64() => (200, self.score(&body)),
            "/v1/completions" => self.complete(&body),
            other => panic!("vLLM has no {other}"),
        };
        (status, String::new(), reply.to_string().into_bytes())
    }

    /// Started anew: the base, and nothing else of us.
    pub(crate) fn restart(&self) {
        *self.whole.lock().expect("whole") = self.base.decoder().expect("a decoder");
        *self.version.lock().expect("whole") = "default".into();
        self.adapters.lock().expect("whole").clear();
    }

    /// How many adapters were ever loaded.
    pub(crate) fn names(&self) -> usize {
        self.names.lock().expect("whole").len()
    }

    fn read(&self, folder: &Path) {
        let reloads = self.reloads.fetch_add(1, Ordering::SeqCst);
        if self.quirks.reads.is_some_and(|reads| reloads >= reads) {
            return;
        }
        let decoder = match self.quirks.keeps_output_layer {
            false => self.base.tuned(folder, &Device::Cpu).expect("weights"),
            true => {
                let file = folder.join("model.safetensors");
                let mut weights: Weights = candle_core::safetensors::load(file, &Device::Cpu)
                    .expect("weights")
                    .into_iter()
                    .collect();
                let own = self.base.policy(None).expect("a policy").tensors();
                weights.insert("lm_head.weight".into(), own["model.embed_tokens.weight"].clone());
                let architecture =
                    Architecture { tied_embeddings: false, ..self.base.architecture.clone() };
                frozen_decoder(&architecture, &weights).expect("a decoder")
            }
        };
        *self.whole.lock().expect("whole") = decoder;
    }

    fn description(&self) -> Value {
        let calls = self.quirks.announces.iter().flatten();
        let paths: serde_json::Map<_, _> =
            calls.clone().map(|call| ((*call).to_owned(), json!({}))).collect();
        let has_versions = calls.clone().any(|call| *call == "/update_weight_version");
        let properties =
            if has_versions { json!({"return_weight_versions": {}}) } else { json!({}) };
        json!({"paths": paths, "components": {"schemas": {"CompletionRequest": {"properties": properties}}}})
    }

    /// The log-probabilities of a prompt's own tokens.
    fn score(&self, body: &Value) -> Value {
        let ids: Vec<u32> = serde_json::from_value(body["prompt"].clone()).expect("tokens");
        let row = Sequence { prompt: ids[..1].to_vec(), completion: ids[1..].to_vec() };
        let decoder = self.whole.lock().expect("whole").clone();
        let scores = token_logp(&decoder, &[row], 1.0).expect("scores");
        let logp: Vec<f32> = scores.logp.to_vec1().expect("values");
        let one = |(id, logp): (&u32, f32)| json!({id.to_string(): {"logprob": logp, "rank": 1}});
        let scored = ids[1..].iter().zip(logp).map(one);
        let all: Vec<Value> = [Value::Null].into_iter().chain(scored).collect();
        json!({"choices": [{"text": "", "finish_reason": "length", "prompt_logprobs": all}]})
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
        let num_requests = self.num_requests.fetch_add(1, Ordering::SeqCst);
        if num_requests >= self.lasts.load(Ordering::SeqCst) {
            self.is_up.store(false, Ordering::SeqCst);
            return (500, error("the engine is dead"));
        }
        if num_requests >= self.restarts.load(Ordering::SeqCst) {
            self.restarts.store(usize::MAX, Ordering::SeqCst);
            self.restart();
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
        let params = super::sampling(temperature, size("max_tokens"), &numbers("stop_token_ids"));
        let request =
            SampleRequest { prompt: numbers("prompt"), first: 0, count: size("n"), key: 0 };
        let mut choices = Vec::new();
        let rng_key = RngKey { seed: 7, step: num_requests as u64 };
        let sampler = LocalSampler { decoder: &decoder, max_rows: 64 };
        sampler
            .generate(&[request], &params, rng_key, &mut |_, completions| {
                for one in completions {
                    let raw = if self.quirks.is_raw { temperature as f32 } else { 1.0 };
                    let logp: Vec<f32> = one.logp.iter().map(|x| x * raw).collect();
                    let finish = if one.finish == Finish::Stop { "stop" } else { "length" };
                    let mut choice = json!({"text": "", "finish_reason": finish, "token_ids": one.tokens,
                        "logprobs": {"token_logprobs": logp}});
                    if body["return_weight_versions"] == true {
                        let version = self.version.lock().expect("whole").clone();
                        let end = one.tokens.len();
                        choice["weight_versions"] = json!([{"version": version, "start": 0, "end": end}]);
                    }
                    choices.push(choice);
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
