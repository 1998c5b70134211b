//! One of the servers that sample for a training run: which weights it has, and how it is given others.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::client::Client;
use super::{Dialect, RemoteOptions};

/// A server.
pub(super) struct Replica {
    pub(super) client: Client,
    /// The server's name for the model that it was started with.
    pub(super) model: String,
    is_up: AtomicBool,
    /// The adapter that it has of us. Who asks for completions holds it, who changes weights waits for them.
    adapter: RwLock<Option<String>>,
}

/// The weights that a server has while this is held.
pub(super) struct ModelGuard<'a> {
    model: &'a str,
    adapter: RwLockReadGuard<'a, Option<String>>,
}

impl ModelGuard<'_> {
    /// The name that it knows the model by.
    pub(super) fn model(&self) -> &str {
        self.model
    }

    /// That of the adapter which makes it the policy.
    pub(super) fn adapter(&self) -> Option<&str> {
        self.adapter.as_deref()
    }
}

impl Replica {
    /// Asks a server what it is.
    ///
    /// # Errors
    /// No server there, one that is neither vLLM nor SGLang.
    pub(super) fn new(engine: &str, options: &RemoteOptions) -> Result<Self> {
        let client = Client::new(engine, options)?;
        let models = client.ask("/v1/models").unwrap_or(Value::Null);
        let first = models["data"][0]["id"].as_str();
        if first.is_none() && !client.is_up() {
            bail!("--engine {engine}: no server answers there");
        }
        if !matches!(client.dialect(), Dialect::Vllm | Dialect::Sglang) {
            bail!(
                "--engine {engine}: training samples from vLLM and SGLang, and this is {}; others do not give tokens with \
                 their log-probabilities and take new weights (eval, batch and presample speak to them)",
                client.dialect()
            );
        }
        let model = options.engine_model.as_deref().or(first).unwrap_or_default().to_owned();
        Ok(Self { client, model, is_up: AtomicBool::new(true), adapter: RwLock::default() })
    }

    /// Whether it takes part.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Leaves it out until it answers again.
    pub(super) fn give_up(&self, why: &anyhow::Error) {
        if self.is_up.swap(false, Ordering::Relaxed) {
            tracing::warn!("{} is left out: {why:#}", self.client.address());
        }
    }

    /// Gives it weights by `change`, and takes it in again where it was left out and answers: never before it has them,
    /// so that nobody samples from others.
    pub(super) fn update(
        &self,
        folder: &Path,
        change: impl Fn(&Self, &mut Option<String>) -> Result<()>,
    ) -> Result<()> {
        let was_up = self.is_up();
        if !was_up && !self.client.is_up() {
            return Ok(());
        }
        let mut adapter = self.adapter();
        if !was_up {
            // It may have been started anew, or still have what it was given.
            *adapter = None;
            self.unload_those_in(folder);
        }
        if let Err(error) = change(self, &mut adapter) {
            self.give_up(&error);
            return Err(error);
        }
        if !was_up {
            self.is_up.store(true, Ordering::Relaxed);
            tracing::warn!("{} answers again", self.client.address());
        }
        Ok(())
    }

    /// The weights that it has, which stay until they are let go of; none where it is left out.
    pub(super) fn policy(&self) -> Option<ModelGuard<'_>> {
        let adapter = self.adapter.read().unwrap_or_else(PoisonError::into_inner);
        self.is_up().then_some(ModelGuard { model: &self.model, adapter })
    }

    fn adapter(&self) -> RwLockWriteGuard<'_, Option<String>> {
        self.adapter.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the adapter `name` from `folder` and lets go of the one before. Names are never used twice: a server may
    /// answer a known one from what it remembers of it.
    pub(super) fn load_adapter(
        &self,
        adapter: &mut Option<String>,
        name: &str,
        folder: &Path,
    ) -> Result<()> {
        // First, since there may be room for one alone.
        if let Some(old) = adapter.take() {
            self.unload(&old);
        }
        let request = json!({"lora_name": name, "lora_path": folder});
        self.client.tell(self.own("/v1/load_lora_adapter"), &request)?;
        *adapter = Some(name.to_owned());
        Ok(())
    }

    /// Lets go of the adapter.
    pub(super) fn unload_adapter(&self) {
        if let Some(old) = self.adapter().take() {
            self.unload(&old);
        }
    }

    fn unload(&self, name: &str) {
        let request = json!({"lora_name": name});
        if let Err(error) = self.client.tell(self.own("/v1/unload_lora_adapter"), &request) {
            tracing::warn!("an adapter is left on a server: {error:#}");
        }
    }

    /// Lets go of adapters whose files are in `folder`: those of a run that was killed.
    pub(super) fn unload_those_in(&self, folder: &Path) {
        let models = self.client.ask("/v1/models").unwrap_or(Value::Null);
        for model in models["data"].as_array().into_iter().flatten() {
            let is_ours =
                model["root"].as_str().is_some_and(|root| Path::new(root).starts_with(folder));
            if let Some(name) = model["id"].as_str().filter(|_| is_ours) {
                self.unload(name);
            }
        }
    }

    /// A path of vLLM's as this server has it: SGLang's own calls stand at the root.
    fn own(&self, path: &'static str) -> &'static str {
        match self.client.dialect() {
            Dialect::Sglang => path.trim_start_matches("/v1"),
            _ => path,
        }
    }

    /// Has it read all weights again from `folder`. vLLM must be in its development mode.
    pub(super) fn reload(&self, folder: &Path) -> Result<()> {
        if self.client.dialect() == Dialect::Sglang {
            let request = json!({"model_path": folder, "flush_cache": true});
            return self.client.tell("/update_weights_from_disk", &request);
        }
        let nothing = json!({});
        self.client.tell("/pause?mode=wait", &nothing)?;
        let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
        let done = self
            .client
            .tell("/collective_rpc", &reload)
            .and_then(|()| self.client.tell("/reset_prefix_cache", &nothing));
        // Whatever came of it, it goes on answering.
        self.client.tell("/resume", &nothing)?;
        done
    }
}
