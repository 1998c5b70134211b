//! Token ids to sampled completions. Knows models, not rewards or text.
//!
//! [`Sampler`] is the seam: [`LocalSampler`] samples from a decoder in this process. To add an engine, add a file with
//! another implementation.

mod candle;
mod device_tokens;
mod local;
mod logits;
mod rng;
mod sampling;
mod stream;
mod strides;

use anyhow::Result;
use serde::{Deserialize, Serialize};

pub use candle::{CandleModel, CandleSampler, names as candle_families, quantized_names};
pub use local::LocalSampler;
pub use rng::RngKey;
pub use sampling::SamplingParams;
pub use stream::stream;
pub use strides::PREFILL_TOKENS;
pub use tealight_core::Filters;

/// Completions of one prompt that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleRequest {
    /// Token ids, at least one.
    pub prompt: Vec<u32>,
    /// The number of the first completion: those before it are there already.
    pub first: usize,
    /// How many completions.
    pub count: usize,
    /// Keys the randomness; two requests with different keys are independent.
    pub key: u64,
}

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finish {
    /// An end-of-sequence token.
    Stop,
    /// The limit on new tokens: truncated.
    Length,
}

/// One sampled completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The tokens, the end-of-sequence token included.
    pub tokens: Vec<u32>,
    /// Log-probability of each token under the distribution it was drawn from: at the sampling
    /// temperature, after the filters. At temperature 0 (greedy) under the model itself.
    #[serde(with = "bits")]
    pub logp: Vec<f32>,
    /// What ended it: a stop token or the limit on tokens.
    pub finish: Finish,
}

/// Numbers as the whole numbers of their bits: exact, and there is one for each that is not finite too.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(numbers: &[f32], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(numbers.iter().map(|number| number.to_bits()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
        let bits = Vec::<u32>::deserialize(from)?;
        Ok(bits.into_iter().map(f32::from_bits).collect())
    }
}

/// Receives the completions of a request, by its index, as soon as all of them have ended.
pub type CompletionSink<'a> = dyn FnMut(usize, Vec<Completion>) -> Result<()> + 'a;

/// An engine that has gone for good, with the reason: nothing can be sampled until it is back.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineLost(pub String);

/// An engine outside this process that samples for a training run.
pub trait Engine: Sampler + Sync {
    /// Hands over the weights as they are before a step.
    ///
    /// # Errors
    /// [`EngineLost`] where it is gone; weights that cannot be written.
    fn publish(&self, step: usize) -> Result<()>;
}

/// Samples completions.
pub trait Sampler {
    /// Samples every request and hands each one's completions, in order of sample, to `sink`;
    /// requests may end in any order.
    fn generate(
        &self,
        requests: &[SampleRequest],
        params: &SamplingParams,
        rng_key: RngKey,
        sink: &mut CompletionSink<'_>,
    ) -> Result<()>;
}
