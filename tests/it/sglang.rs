//! Training with SGLang: against a stand-in with its own calls, which no real one was held against (it cannot be run
//! where we test). What they are called and what they answer is SGLang 0.5's.

use std::path::Path;

use serde_json::{Value, json};

use crate::fleet::{arguments, rows_sampled_from_policy};
use crate::support::binary::{Folder, ok, words};
use crate::support::server::{Answer, ReceivedRequest, serve};
use crate::support::vllm::Vllm;

/// SGLang's calls in front of the stand-in for vLLM.
fn answer(server: &Vllm, asked: &ReceivedRequest) -> Answer {
    let pass = |path: &str, body: &Value| {
        let asked = ReceivedRequest {
            method: "POST".into(),
            path: path.into(),
            head: String::new(),
            body: body.to_string().into_bytes(),
        };
        let (status, head, reply) = server.answer(&asked);
        (status, head, serde_json::from_slice::<Value>(&reply).expect("JSON"))
    };
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let (status, head, reply) = match asked.path.as_str() {
        "/health" => pass("/health", &body),
        "/v1/models" => {
            let (status, head, mut models) = pass("/v1/models", &body);
            let all = models["data"].as_array_mut().expect("models");
            all.iter_mut().for_each(|model| model["owned_by"] = json!("sglang"));
            (status, head, models)
        }
        "/load_lora_adapter" => pass("/v1/load_lora_adapter", &body),
        "/unload_lora_adapter" => pass("/v1/unload_lora_adapter", &body),
        "/update_weights_from_disk" => {
            assert_eq!(body["flush_cache"], true);
            let weights = json!({"kwargs": {"weights_path": body["model_path"]}});
            pass("/collective_rpc", &weights)
        }
        "/generate" => {
            let mut own = body["sampling_params"].clone();
            let known = words(
                "n max_new_tokens stop_token_ids temperature top_p top_k min_p presence_penalty frequency_penalty \
                 repetition_penalty skip_special_tokens",
            );
            for (name, _) in own.as_object().expect("parameters") {
                assert!(known.contains(&name.as_str()), "SGLang refuses `{name}`");
            }
            assert_eq!(body["return_logprob"], true);
            own["max_tokens"] = own["max_new_tokens"].clone();
            own["model"] = body.get("lora_path").cloned().unwrap_or(json!("served"));
            own["prompt"] = body["input_ids"].clone();
            own["return_token_ids"] = json!(true);
            let (status, head, completed) = pass("/v1/completions", &own);
            let choices = completed["choices"].as_array().cloned().unwrap_or_default();
            let all: Vec<Value> = choices.iter().map(native).collect();
            // Of one completion, no list.
            let reply = if all.len() == 1 { all[0].clone() } else { json!(all) };
            (status, head, reply)
        }
        other => panic!("SGLang has no {other}"),
    };
    (status, head, reply.to_string().into_bytes())
}

/// A completion in SGLang's form.
fn native(choice: &Value) -> Value {
    let ids = choice["token_ids"].as_array().expect("tokens");
    let logp = choice["logprobs"]["token_logprobs"].as_array().expect("log-probabilities");
    let tokens: Vec<Value> =
        ids.iter().zip(logp).map(|(id, logp)| json!([logp, id, null])).collect();
    json!({"text": "", "output_ids": ids, "meta_info": {
        "finish_reason": {"type": choice["finish_reason"]}, "output_token_logprobs": tokens}})
}

#[test]
fn sglang_is_given_adapters_or_all_weights_and_samples_from_them() {
    for more in ["--use-peft --lora-r 8", ""] {
        let folder = Folder::new();
        let server = Vllm::start(false).0;
        let shared = server.clone();
        let engine = serve(move |asked| answer(&shared, asked));
        let output = folder.path("run");
        ok(&arguments(&engine, &output, more));
        assert_eq!(rows_sampled_from_policy(&output).len(), 3);
        assert!(server.is_clean(), "an adapter is left on the server");
        assert!(!Path::new(&output).join("engine").exists());
    }
}
