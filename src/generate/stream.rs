//! One completion, token by token as it is drawn. The tokens are those that the sampler draws as its first.

use std::sync::Arc;

use anyhow::{Result, bail};
use candle_core::Tensor;

use super::logits::Logits;
use super::{Finish, Noise, SamplingParams};
use crate::model::{Decoder, KvCache, Spans};

/// Draws a completion of `prompt` and hands every token with its log-probability to `sink`, the end included.
///
/// # Errors
/// A prompt that is empty or does not fit, whatever `sink` fails with.
pub fn stream(
    decoder: &Decoder,
    prompt: &[u32],
    params: &SamplingParams,
    noise: Noise,
    sink: &mut dyn FnMut(u32, f32) -> Result<()>,
) -> Result<Finish> {
    params.check()?;
    let context = decoder.architecture().max_positions;
    let slots = prompt.len() + params.max_new_tokens;
    if prompt.is_empty() || slots > context {
        bail!(
            "a prompt of {} tokens and {} new ones do not fit the model's context of {context}",
            prompt.len(),
            params.max_new_tokens
        );
    }
    let decoder = decoder.ready()?;
    let (dtype, device) = (decoder.embedding().dtype(), decoder.embedding().device());
    let cache = KvCache::new(decoder.architecture(), 1, slots, dtype, device)?;
    let mut random = noise.stream(0, 0);
    let mut spans = Spans::from_start([prompt.len()]);
    let mut ids = prompt.to_vec();
    for cached in prompt.len()..slots {
        let input = Tensor::from_slice(&ids, ids.len(), device)?;
        let hidden = decoder.hidden(&input, &Arc::new(spans), Some(&cache))?;
        let last = hidden.narrow(0, ids.len() - 1, 1)?.contiguous()?;
        let drawn = Logits::of(&decoder, &last, params)?.draw(&mut [(0, &mut random)], params)?;
        let (token, logp) = drawn[0];
        sink(token, logp)?;
        if params.eos.contains(&token) {
            return Ok(Finish::Stop);
        }
        ids = vec![token];
        spans = Spans::after([cached]);
    }
    Ok(Finish::Length)
}
