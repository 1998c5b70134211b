//! One of the servers that sample for a training run: which weights it has, and how it is given others.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tealight_core::display::shortened;

use super::answers::ServerSample;
use super::client::Client;
use super::kwargs::EngineKwargs;
use super::probe::{self, Probe, Served};
use super::server_info::{CHECKER, SET_VERSION, ServerInfo};
use super::{Dialect, EngineWeights};

/// A server.
pub(super) struct Replica {
    pub(super) client: Client,
    /// The server's name for the model that it was started with.
    pub(super) model: String,
    is_up: AtomicBool,
    server_info: ServerInfo,
    /// The weights that it has of us. Who asks for completions holds it, who changes weights waits for them.
    loaded: RwLock<LoadedWeights>,
    /// How far its log-probabilities of a probe were from the policy's when it first read all weights, or what was
    /// wrong with them.
    first_reload: OnceLock<Result<f64, String>>,
}

/// The weights that a server has of a run.
#[derive(Default)]
pub(super) struct LoadedWeights {
    adapter: Option<String>,
    /// The version of all weights, where it marks completions with it.
    version: Option<String>,
}

/// The weights that a server has while this is held.
pub(super) struct ModelGuard<'a> {
    model: &'a str,
    loaded: RwLockReadGuard<'a, LoadedWeights>,
}

impl ModelGuard<'_> {
    /// The name that it knows the model by.
    pub(super) fn model(&self) -> &str {
        self.model
    }

    /// That of the adapter which makes it the policy.
    pub(super) fn adapter(&self) -> Option<&str> {
        self.loaded.adapter.as_deref()
    }

    /// Whether completions are marked with the version of the weights.
    pub(super) fn is_marked(&self) -> bool {
        self.loaded.version.is_some()
    }

    /// Refuses completions of other weights: of a server that was started anew, or that another program writes to.
    pub(super) fn check(&self, samples: &[ServerSample]) -> Result<()> {
        let Some(expected) = &self.loaded.version else { return Ok(()) };
        let mut versions = samples.iter().flat_map(|sample| &sample.versions);
        match versions.find(|version| *version != expected) {
            None => Ok(()),
            Some(other) => bail!(
                "it sampled from weights of version `{other}` in place of `{expected}`: it was started anew, or another \
                 program gave it weights"
            ),
        }
    }
}

impl Replica {
    /// Asks a server what it is.
    pub(super) fn new(engine: &str, kwargs: &EngineKwargs, weights: EngineWeights) -> Result<Self> {
        let client = Client::new(engine, kwargs)?;
        let models = client.ask("/v1/models").unwrap_or(Value::Null);
        let first = models["data"][0]["id"].as_str();
        if first.is_none() && !client.is_up() {
            bail!("--engine {engine}: no server answers there");
        }
        if !matches!(client.dialect(), Dialect::Vllm | Dialect::Sglang) {
            bail!(
                "--engine {engine}: training needs vLLM or SGLang, and this is {}; other servers do not both return \
                 log-probabilities of tokens and load new weights (eval can use them)",
                client.dialect()
            );
        }
        let model = kwargs.model.as_deref().or(first).unwrap_or_default().to_owned();
        let server_info = match client.dialect() {
            Dialect::Vllm => ServerInfo::fetch(&client),
            _ => ServerInfo::default(),
        };
        server_info.check(weights).with_context(|| format!("--engine {engine}"))?;
        let is_up = AtomicBool::new(true);
        let (loaded, first_reload) = (RwLock::default(), OnceLock::new());
        Ok(Self { client, model, is_up, server_info, loaded, first_reload })
    }

    /// Whether it takes part.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Leaves it out until it answers again.
    pub(super) fn give_up(&self, why: &anyhow::Error) {
        if self.is_up.swap(false, Ordering::Relaxed) {
            tracing::warn!("{} is not used: {why:#}", self.client.address());
        }
    }

    /// Gives it weights by `change`, and takes it in again where it was left out and answers: never before it has them,
    /// so that nobody samples from others.
    pub(super) fn update(
        &self,
        folder: &Path,
        change: impl Fn(&Self, &mut LoadedWeights) -> Result<()>,
    ) -> Result<()> {
        let was_up = self.is_up();
        // One that does not read weights when it is told to will not the next time.
        if let Some(Err(why)) = self.first_reload.get() {
            return Err(anyhow!("{}: {why}", self.client.address()));
        }
        if !was_up && !self.client.is_up() {
            return Ok(());
        }
        let mut loaded = self.lock_loaded();
        if !was_up {
            // It may have been started anew, or still have what it was given.
            *loaded = LoadedWeights::default();
            self.unload_those_in(folder);
        }
        if let Err(error) = change(self, &mut loaded) {
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
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        self.is_up().then_some(ModelGuard { model: &self.model, loaded })
    }

    fn lock_loaded(&self) -> RwLockWriteGuard<'_, LoadedWeights> {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the adapter `name` from `folder` and lets go of the one before. Names are never used twice: a server may
    /// answer a known one from what it remembers of it.
    pub(super) fn load_adapter(
        &self,
        loaded: &mut LoadedWeights,
        name: &str,
        folder: &Path,
    ) -> Result<()> {
        // First, since there may be room for one alone.
        if let Some(old) = loaded.adapter.take() {
            self.unload(&old);
        }
        let request = json!({"lora_name": name, "lora_path": folder});
        self.client.tell(self.native_path("/v1/load_lora_adapter"), &request)?;
        loaded.adapter = Some(name.to_owned());
        Ok(())
    }

    /// Lets go of the adapter.
    pub(super) fn unload_adapter(&self) {
        if let Some(old) = self.lock_loaded().adapter.take() {
            self.unload(&old);
        }
    }

    fn unload(&self, name: &str) {
        let request = json!({"lora_name": name});
        if let Err(error) = self.client.tell(self.native_path("/v1/unload_lora_adapter"), &request)
        {
            tracing::warn!("an adapter could not be unloaded from a server: {error:#}");
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
    fn native_path(&self, path: &'static str) -> &'static str {
        match self.client.dialect() {
            Dialect::Sglang => path.trim_start_matches("/v1"),
            _ => path,
        }
    }

    /// Has it read all weights again from `folder`. vLLM must be in its development mode.
    fn read_again(&self, folder: &Path) -> Result<()> {
        if self.client.dialect() == Dialect::Sglang {
            let request = json!({"model_path": folder, "flush_cache": true});
            return self.client.tell("/update_weights_from_disk", &request);
        }
        let nothing = json!({});
        let paused = self
            .client
            .tell("/pause?mode=wait", &nothing)
            .context("all weights need a server with VLLM_SERVER_DEV_MODE=1");
        let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
        let done = paused
            .and_then(|()| self.client.tell("/collective_rpc", &reload))
            .and_then(|()| self.client.tell("/reset_prefix_cache", &nothing));
        // Whatever came of it, the server goes on answering, also after a pause that it did not confirm in time: with
        // `mode=wait` it confirms once the requests that run have ended.
        let resumed = self.client.tell("/resume", &nothing);
        done.and(resumed)
    }

    /// Whether it is still unknown if it reads weights when it is told to; SGLang is not asked.
    pub(super) fn is_unproven(&self) -> bool {
        self.client.dialect() == Dialect::Vllm && self.first_reload.get().is_none()
    }

    /// Finds out whether it reads all weights when it is told to, by the policy under other token ids (`exchanged`)
    /// and under its own.
    pub(super) fn prove(
        &self,
        exchanged: &Path,
        folder: &Path,
        (probe, policy): (&Probe, &[f64]),
    ) -> Result<()> {
        let read = |folder: &Path, ids: &[u32]| -> Result<_> {
            self.read_again(folder)?;
            Ok((self.client.prompt_logp(&self.model, ids)?, self.checksums()))
        };
        let (exchanged, before) = read(exchanged, &probe.exchanged())?;
        let (plain, after) = read(folder, probe.ids())?;
        let verdict = probe::verdict(&Served { exchanged, plain }, policy);
        let verdict = verdict.map_err(|why| format!("{why:#}{}", changed(&before, &after)));
        let verdict = self.first_reload.get_or_init(|| verdict);
        verdict.as_ref().map(drop).map_err(|why| anyhow!("{}: {why}", self.client.address()))
    }

    /// Has it read all weights again from `folder`, and makes sure that it did.
    pub(super) fn reload(
        &self,
        loaded: &mut LoadedWeights,
        (folder, version): (&Path, &str),
        (probe, policy): (&Probe, &[f64]),
    ) -> Result<()> {
        self.read_again(folder)?;
        if let Some(Ok(first)) = self.first_reload.get() {
            let served = self.client.prompt_logp(&self.model, probe.ids())?;
            probe::check(&served, policy, *first)
                .with_context(|| self.client.address().to_owned())?;
        }
        loaded.version = None;
        if self.server_info.has_versions() {
            self.client.tell(SET_VERSION, &json!({"new_version": version}))?;
            loaded.version = Some(version.to_owned());
        }
        Ok(())
    }

    /// The server's checksums of its tensors, where it has them.
    fn checksums(&self) -> Option<BTreeMap<String, String>> {
        if !self.server_info.has(CHECKER) {
            return None;
        }
        let answer = self.client.reply(CHECKER, &json!({"action": "checksum"}));
        let mut answer = answer.ok()?;
        serde_json::from_value(answer["checksums"].take()).ok()
    }
}

/// Which of a server's tensors changed between two reloads, by its own checksums; nothing where it gives none.
fn changed(
    before: &Option<BTreeMap<String, String>>,
    after: &Option<BTreeMap<String, String>>,
) -> String {
    let (Some(before), Some(after)) = (before, after) else { return String::new() };
    let changed = after.iter().filter(|(name, sum)| before.get(*name) != Some(*sum));
    let names: Vec<String> = changed.map(|(name, _)| shortened(name, 120)).take(3).collect();
    match names.is_empty() {
        true => "; by its checksums no tensor changed".into(),
        false => format!("; by its checksums only {} changed", names.join(", ")),
    }
}
