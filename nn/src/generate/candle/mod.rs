//! Sampling from models that are evaluated and not trained: architectures of candle-transformers, and GGUF weights as
//! they are, not dequantised.
//!
//! Its decoders keep their cache inside and take all rows of a batch at one position. So a batch is samples of one
//! prompt, which is computed once for each of its rows; rows that have ended stay until the last one ends. Logits are
//! rounded as candle rounds them, which depends on the size of the batch: a sample may differ from that of another
//! batch where two tokens are almost as likely.

mod families;
mod quantized;
mod required;
mod tensor_names;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use serde_json::Value;

use super::logits::Logits;
use super::rng::RandomStream;
use super::{Completion, CompletionSink, Finish, RngKey, SampleRequest, Sampler, SamplingParams};
use crate::model::weights::Weights;
use tealight_core::guard::caught;
use tealight_system::telemetry::count_tokens;

pub use families::names;
pub use quantized::names as quantized_names;

/// A decoder with a cache inside.
trait Network: Send {
    /// Logits of the last tokens, `[B, V]` or `[B, 1, V]`, of ids `[B, L]` that follow `offset` others.
    fn forward(&mut self, ids: &Tensor, offset: usize) -> candle_core::Result<Tensor>;
    /// Forgets what it has seen.
    fn reset(&mut self) -> candle_core::Result<()>;
}

/// Networks that forget when they are told to.
macro_rules! clearing {
    ($($model:ty),*) => {$(
        impl Network for $model {
            fn forward(&mut self, ids: &Tensor, offset: usize) -> candle_core::Result<Tensor> {
                <$model>::forward(self, ids, offset)
            }

            fn reset(&mut self) -> candle_core::Result<()> {
                self.clear_kv_cache();
                Ok(())
            }
        }
    )*};
}
use clearing;

/// A model of candle-transformers.
pub struct CandleModel {
    family: String,
    max_positions: usize,
    /// Ids that have a token: those beyond are padding.
    ids: usize,
    network: Mutex<Box<dyn Network>>,
    device: Device,
}

impl CandleModel {
    /// A model in Hub layout, of its configuration and all its weights.
    ///
    /// # Errors
    /// A family or configuration that candle-transformers does not know, weights that are missing or do not fit.
    pub fn new(config: &Value, weights: Weights, device: &Device) -> Result<Self> {
        let family = config["model_type"].as_str().context("config.json names no `model_type`")?;
        let config = &families::completed(config)?;
        let max_positions = sizes(config)?;
        let built = guarded(|| families::build(family, config, weights, device))?;
        let network = Mutex::new(built);
        let family = family.to_owned();
        Ok(Self { family, max_positions, ids: usize::MAX, network, device: device.clone() })
    }

    /// A GGUF file that was checked before; its weights stay quantised. `config` is what its header comes to.
    ///
    /// # Errors
    /// An architecture that candle-transformers has no quantised decoder for, a file that it cannot read.
    pub fn quantized(path: &std::path::Path, config: &Value, device: &Device) -> Result<Self> {
        let max_positions = sizes(config)?;
        let (family, built) = guarded(|| quantized::open(path, device))?;
        let network = Mutex::new(built);
        Ok(Self { family, max_positions, ids: usize::MAX, network, device: device.clone() })
    }

    /// The family's name in candle-transformers.
    pub fn family(&self) -> &str {
        &self.family
    }

    /// Samples ids below `ids` alone, which have a token.
    pub fn limit(&mut self, ids: usize) {
        self.ids = ids;
    }

    /// Most tokens of a sequence.
    pub fn max_positions(&self) -> usize {
        self.max_positions
    }

    /// Logits `[B, V]` of the tokens after `rows`, all of one length, in f32.
    ///
    /// # Errors
    /// Rows of several lengths or without tokens.
    pub fn logits(&self, rows: &[&[u32]]) -> Result<Tensor> {
        let mut network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        network.reset()?;
        self.step(&mut **network, rows, 0)
    }

    fn step(&self, network: &mut dyn Network, rows: &[&[u32]], offset: usize) -> Result<Tensor> {
        let length = rows.first().map_or(0, |row| row.len());
        if length == 0 || rows.iter().any(|row| row.len() != length) {
            bail!("a batch must be rows of one length, of at least one token");
        }
        let ids = Tensor::from_vec(rows.concat(), (rows.len(), length), &self.device)?;
        let logits = guarded(|| Ok(network.forward(&ids, offset)?))?;
        let logits = match logits.rank() {
            3 => logits.narrow(1, logits.dim(1)? - 1, 1)?.squeeze(1)?,
            _ => logits,
        };
        let logits = match logits.dim(1)? {
            all if all > self.ids => logits.narrow(1, 0, self.ids)?,
            _ => logits,
        };
        Ok(logits.to_dtype(DType::F32)?.to_device(&Device::Cpu)?.contiguous()?)
    }

    /// Draws completions of one prompt, a token of each at a time; `each` hears of the first one's.
    fn complete(
        &self,
        prompt: &[u32],
        streams: &mut [RandomStream],
        params: &SamplingParams,
        each: &mut dyn FnMut(u32, f32) -> Result<()>,
    ) -> Result<Vec<Completion>> {
        params.check_context(prompt.len(), self.max_positions)?;
        let mut network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        network.reset()?;
        let empty = Completion { tokens: Vec::new(), logp: Vec::new(), finish: Finish::Length };
        let mut completions = vec![empty; streams.len()];
        let mut last: Vec<Vec<u32>> = vec![prompt.to_vec(); streams.len()];
        for offset in (prompt.len()..).take(params.max_new_tokens) {
            let rows: Vec<&[u32]> = last.iter().map(Vec::as_slice).collect();
            let logits = self.step(&mut **network, &rows, offset - rows[0].len())?;
            let open = |completion: &Completion| completion.finish == Finish::Length;
            let mut picks: Vec<(usize, &mut RandomStream)> = streams
                .iter_mut()
                .enumerate()
                .filter(|(row, _)| open(&completions[*row]))
                .collect();
            let rows: Vec<usize> = picks.iter().map(|(row, _)| *row).collect();
            let sampled = copied(&logits)?.draw(&mut picks, params)?;
            count_tokens(sampled.len());
            for (row, (token, logp)) in rows.into_iter().zip(sampled) {
                let completion = &mut completions[row];
                completion.tokens.push(token);
                completion.logp.push(logp);
                if params.eos.contains(&token) {
                    completion.finish = Finish::Stop;
                }
                if row == 0 {
                    each(token, logp)?;
                }
                last[row] = vec![token];
            }
            if !completions.iter().any(open) {
                break;
            }
            // A row that has ended repeats its last token, and nobody reads what follows.
        }
        Ok(completions)
    }

    /// Draws a completion of `prompt` and hands every token with its log-probability to `sink`, the end included.
    ///
    /// # Errors
    /// A prompt that is empty or does not fit, an error of `sink`.
    pub fn stream(
        &self,
        prompt: &[u32],
        params: &SamplingParams,
        rng_key: RngKey,
        sink: &mut dyn FnMut(u32, f32) -> Result<()>,
    ) -> Result<Finish> {
        params.check()?;
        let mut streams = [rng_key.stream(0, 0)];
        Ok(self.complete(prompt, &mut streams, params, sink)?[0].finish)
    }
}

/// A copy of logits `[B, V]` on the CPU.
fn copied(logits: &Tensor) -> Result<Logits> {
    let values = Arc::new(logits.flatten_all()?.to_vec1()?.into());
    Ok(Logits::Cpu { values, vocabulary: logits.dim(1)? })
}

/// Samples from a model of candle-transformers.
pub struct CandleSampler<'a> {
    /// The model of candle-transformers, which computes one prompt at a time.
    pub model: &'a CandleModel,
    /// Maximum number of sequences in one decoding batch.
    pub max_rows: usize,
}

impl Sampler for CandleSampler<'_> {
    fn generate(
        &self,
        requests: &[SampleRequest],
        params: &SamplingParams,
        rng_key: RngKey,
        sink: &mut CompletionSink<'_>,
    ) -> Result<()> {
        params.check()?;
        for (index, request) in requests.iter().enumerate() {
            let numbers = request.first..request.first + request.count;
            let mut streams: Vec<RandomStream> =
                numbers.map(|sample| rng_key.stream(request.key, sample as u64)).collect();
            let mut completions = Vec::with_capacity(request.count);
            for streams in streams.chunks_mut(self.max_rows.max(1)) {
                let sampled =
                    self.model.complete(&request.prompt, streams, params, &mut |_, _| Ok(()));
                completions.extend(sampled?);
            }
            sink(index, completions)?;
        }
        Ok(())
    }
}

/// Largest size that a configuration may name, and longest context: an untrusted number is memory here.
const MAX_SIZE: u64 = 1 << 24;
const MAX_POSITIONS: u64 = 1 << 21;

/// Refuses sizes that make no sense; returns the longest sequence.
fn sizes(config: &Value) -> Result<usize> {
    let settings = config.as_object().context("config.json is no object")?;
    for (key, value) in settings.iter().filter(|(key, _)| !key.ends_with("_id")) {
        let Some(size) = value.as_u64() else { continue };
        let is_divisor = key.contains("hidden_size") || key.contains("heads");
        if size > MAX_SIZE || (is_divisor && size == 0) {
            bail!("config.json: `{key}` is {size}");
        }
    }
    let known = ["max_position_embeddings", "n_positions"];
    let length = known.iter().find_map(|key| settings.get(*key)?.as_u64()).unwrap_or(2048);
    if length > MAX_POSITIONS {
        bail!("config.json: a context of {length} tokens; {MAX_POSITIONS} are the most");
    }
    // Most of its decoders see beyond a window once they decode a token at a time: so far, windows change nothing.
    let has_window = settings.get("use_sliding_window") != Some(&Value::Bool(false))
        && config["model_type"] != "gemma3_text";
    let window = settings.get("sliding_window").and_then(Value::as_u64).filter(|_| has_window);
    if window == Some(0) {
        bail!("config.json: `sliding_window` is 0");
    }
    Ok(window.map_or(length, |window| window.min(length)) as usize)
}

/// Calls into a library that panics where a model is not as it expects.
fn guarded<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    caught(work).unwrap_or_else(|panic| bail!("candle-transformers gave up on this model: {panic}"))
}
