//! The fields that make a server sample what was asked for, and nothing else.
//!
//! A field that a client leaves out is filled in by the server: vLLM takes `top_p`, `top_k` and penalties from the
//! model's `generation_config.json`, llama-server cuts with `top_k` 40, `top_p` .95 and `min_p` .05. Pass@k would then
//! be that of another distribution, so every filter is always sent, in the words of the server at hand.

use std::fmt;

use clap::ValueEnum;
use serde_json::{Value, json};

use tealight_nn::generate::SamplingParams;

/// The kinds of servers whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// vLLM's OpenAI-compatible server.
    Vllm,
    /// SGLang's OpenAI-compatible server.
    Sglang,
    /// llama.cpp's llama-server.
    #[value(name = "llama.cpp", alias = "llamacpp", alias = "llama-cpp")]
    LlamaCpp,
    /// Any other server with OpenAI's API, which takes `temperature` and `top_p` and no other filter.
    Openai,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Vllm => "vLLM",
            Dialect::Sglang => "SGLang",
            Dialect::LlamaCpp => "llama.cpp",
            Dialect::Openai => "a server with OpenAI's API",
        })
    }
}

impl Dialect {
    /// The kind that the answer of `GET /v1/models` shows.
    pub(super) fn of_models(models: &Value) -> Option<Self> {
        let owners =
            models["data"].as_array()?.iter().filter_map(|model| model["owned_by"].as_str());
        owners.into_iter().find_map(|owner| match owner.to_lowercase().as_str() {
            "vllm" => Some(Dialect::Vllm),
            "sglang" => Some(Dialect::Sglang),
            "llamacpp" | "llama.cpp" => Some(Dialect::LlamaCpp),
            _ => None,
        })
    }

    /// Writes how tokens are drawn into a request.
    pub(super) fn write(self, body: &mut Value, params: &SamplingParams, seed: u64) {
        let filters = params.filters;
        body["temperature"] = json!(params.temperature);
        body["max_tokens"] = json!(params.max_new_tokens);
        body["top_p"] = json!(filters.top_p);
        body["presence_penalty"] = json!(0);
        body["frequency_penalty"] = json!(0);
        match self {
            Dialect::Vllm | Dialect::Sglang => {
                // Both refuse a top_k of 0.
                body["top_k"] = if filters.top_k == 0 { json!(-1) } else { json!(filters.top_k) };
                body["min_p"] = json!(filters.min_p);
                body["repetition_penalty"] = json!(1);
                // Tags such as <answer> may be special tokens; both leave the token out at which they stop.
                body["skip_special_tokens"] = json!(false);
            }
            Dialect::LlamaCpp => {
                body["top_k"] = json!(filters.top_k);
                body["min_p"] = json!(filters.min_p);
                body["repeat_penalty"] = json!(1);
                body["typical_p"] = json!(1);
                body["top_n_sigma"] = json!(-1);
                body["xtc_probability"] = json!(0);
                body["dry_multiplier"] = json!(0);
                body["dynatemp_range"] = json!(0);
                body["mirostat"] = json!(0);
            }
            Dialect::Openai => {
                if filters.top_k > 0 {
                    body["top_k"] = json!(filters.top_k);
                }
                if filters.min_p > 0.0 {
                    body["min_p"] = json!(filters.min_p);
                }
            }
        }
        match self {
            // A seed of a request's own ends vLLM's engine on the CPU, and makes its batches slow elsewhere.
            Dialect::Vllm => body["return_token_ids"] = json!(true),
            _ => body["seed"] = json!(seed),
        }
    }

    /// A request for `n` completions of tokens in SGLang's own API, which gives tokens with their log-probabilities.
    pub(super) fn natively(
        self,
        prompt: &[u32],
        n: usize,
        adapter: Option<&str>,
        params: &SamplingParams,
    ) -> Value {
        let mut sampling =
            json!({"n": n, "max_new_tokens": params.max_new_tokens, "stop_token_ids": params.eos});
        self.write(&mut sampling, params, 0);
        if let Some(fields) = sampling.as_object_mut() {
            // It refuses names that it does not know.
            fields.retain(|name, _| !["max_tokens", "seed"].contains(&name.as_str()));
        }
        let mut body =
            json!({"input_ids": prompt, "sampling_params": sampling, "return_logprob": true});
        if let Some(adapter) = adapter {
            body["lora_path"] = json!(adapter);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_nn::generate::Filters;

    fn body(dialect: Dialect, filters: Filters) -> Value {
        let params = SamplingParams { temperature: 1.0, filters, max_new_tokens: 4, eos: vec![0] };
        let mut body = json!({});
        dialect.write(&mut body, &params, 7);
        body
    }

    #[test]
    fn neutral_filters_are_sent_in_the_servers_words() {
        let none = Filters::default();
        let vllm = body(Dialect::Vllm, none);
        assert_eq!(
            (&vllm["top_p"], &vllm["top_k"], &vllm["min_p"]),
            (&json!(1.0), &json!(-1), &json!(0.0))
        );
        assert_eq!((&vllm["repetition_penalty"], vllm.get("seed")), (&json!(1), None));
        let llama = body(Dialect::LlamaCpp, none);
        assert_eq!(
            (&llama["top_p"], &llama["top_k"], &llama["min_p"]),
            (&json!(1.0), &json!(0), &json!(0.0))
        );
        assert_eq!((&llama["repeat_penalty"], &llama["seed"]), (&json!(1), &json!(7)));
        assert_eq!(body(Dialect::Sglang, none)["top_k"], json!(-1));
        let openai = body(Dialect::Openai, none);
        assert_eq!((openai.get("top_k"), &openai["top_p"]), (None, &json!(1.0)));
        let cut = Filters { top_k: 5, top_p: 0.9, min_p: 0.1 };
        for dialect in [Dialect::Vllm, Dialect::Sglang, Dialect::LlamaCpp, Dialect::Openai] {
            let body = body(dialect, cut);
            assert_eq!(
                (&body["top_k"], &body["top_p"], &body["min_p"]),
                (&json!(5), &json!(0.9), &json!(0.1))
            );
        }
    }

    #[test]
    fn dialect_is_read_from_the_models_owner() {
        let owned = |owner: &str| Dialect::of_models(&json!({"data": [{"owned_by": owner}]}));
        assert_eq!(owned("vllm"), Some(Dialect::Vllm));
        assert_eq!(owned("llamacpp"), Some(Dialect::LlamaCpp));
        assert_eq!(owned("organization-owner"), None);
        assert_eq!(Dialect::of_models(&json!(3)), None);
    }
}
