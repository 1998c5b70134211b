//! What a vLLM server says of itself: its version, and which calls it has.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde_json::Value;

use super::EngineWeights;
use super::client::Client;

/// Marks weights with a version, which completions then carry.
pub(super) const SET_VERSION: &str = "/update_weight_version";
/// Checksums of the server's tensors.
pub(super) const CHECKER: &str = "/weight_checker";

/// The calls of a server.
#[derive(Default)]
pub(super) struct ServerInfo {
    version: Option<String>,
    /// None where it does not say, as servers without FastAPI's documentation do not.
    paths: Option<BTreeSet<String>>,
    returns_versions: bool,
}

impl ServerInfo {
    /// Asks a server.
    pub(super) fn fetch(client: &Client) -> Self {
        let version = client.ask("/version").unwrap_or(Value::Null);
        let version = version["version"].as_str().map(|text| text.chars().take(40).collect());
        let description = client.ask("/openapi.json").unwrap_or(Value::Null);
        Self { version, ..Self::described(&description) }
    }

    fn described(description: &Value) -> Self {
        let paths = description["paths"].as_object().map(|paths| paths.keys().cloned().collect());
        let request = &description["components"]["schemas"]["CompletionRequest"]["properties"];
        Self {
            version: None,
            paths,
            returns_versions: request.get("return_weight_versions").is_some(),
        }
    }

    /// Whether it says that it has a call.
    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.as_ref().is_some_and(|paths| paths.contains(path))
    }

    /// Whether it marks weights with a version, and completions with that of each token.
    pub(super) fn has_versions(&self) -> bool {
        self.returns_versions && self.has(SET_VERSION)
    }

    /// Refuses a server that says that it cannot take such weights from files.
    pub(super) fn check(&self, weights: EngineWeights) -> Result<()> {
        if self.paths.is_none() {
            return Ok(());
        }
        let version = self.version.as_deref().unwrap_or("of unknown version");
        match weights {
            EngineWeights::Adapter if !self.has("/v1/load_lora_adapter") => bail!(
                "vLLM {version} does not offer /v1/load_lora_adapter: start it with --enable-lora and \
                 VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
            ),
            EngineWeights::Full if self.has("/collective_rpc") && self.has("/pause") => Ok(()),
            EngineWeights::Full if self.has("/update_weights") => bail!(
                "vLLM {version} takes all weights only over its weight transfer (/update_weights), which sends them between \
                 GPUs by NCCL or as PyTorch's memory handles; Tealight hands weights over in files: train an adapter \
                 (--use-peft), or use a server that offers /collective_rpc"
            ),
            EngineWeights::Full => bail!(
                "vLLM {version} does not offer /collective_rpc and /pause, with which it reads all weights again: start \
                 it with VLLM_SERVER_DEV_MODE=1, or train an adapter (--use-peft)"
            ),
            EngineWeights::Adapter => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn server_is_refused_only_for_reported_values() {
        let with_paths = |paths: &[&str]| {
            let paths: serde_json::Map<_, _> =
                paths.iter().map(|path| ((*path).to_owned(), json!({}))).collect();
            ServerInfo::described(&json!({"paths": paths}))
        };
        let error = |info: &ServerInfo, weights| info.check(weights).unwrap_err().to_string();
        let (adapter, full) = (EngineWeights::Adapter, EngineWeights::Full);
        // One that says nothing is tried.
        let silent = ServerInfo::described(&Value::Null);
        assert!(silent.check(full).is_ok() && silent.check(adapter).is_ok());
        assert!(!silent.has("/pause"));
        let plain = with_paths(&["/v1/completions"]);
        assert!(error(&plain, adapter).contains("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"));
        assert!(error(&plain, full).contains("VLLM_SERVER_DEV_MODE=1"));
        let transfer = with_paths(&["/pause", "/start_weight_update", "/update_weights"]);
        assert!(error(&transfer, full).contains("NCCL"));
        assert!(with_paths(&["/pause", "/collective_rpc", "/update_weights"]).check(full).is_ok());
        assert!(with_paths(&["/v1/load_lora_adapter"]).check(adapter).is_ok());
    }

    #[test]
    fn versions_need_both_calls() {
        let request = json!({"CompletionRequest": {"properties": {"return_weight_versions": {}}}});
        let with_schemas = |paths: Value, schemas: &Value| {
            ServerInfo::described(&json!({"paths": paths, "components": {"schemas": schemas}}))
        };
        assert!(with_schemas(json!({SET_VERSION: {}}), &request).has_versions());
        assert!(!with_schemas(json!({SET_VERSION: {}}), &json!({})).has_versions());
        assert!(!with_schemas(json!({}), &request).has_versions());
    }
}
