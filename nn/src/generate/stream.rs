//! One completion, token by token as it is drawn. The tokens are those that the sampler draws as its first.

use anyhow::{Result, bail};

use super::logits::Logits;
use super::{Finish, RngKey, SamplingParams};
use crate::model::{Decoder, PackedSequences};

/// Draws a completion of `prompt` and hands every token with its log-probability to `sink`, the end included.
///
/// # Errors
/// A prompt that is empty or does not fit, an error of `sink`.
pub fn stream(
    decoder: &Decoder,
    prompt: &[u32],
    params: &SamplingParams,
    rng_key: RngKey,
    sink: &mut dyn FnMut(u32, f32) -> Result<()>,
) -> Result<Finish> {
    params.check()?;
    if prompt.is_empty() {
        bail!("a prompt must have at least one token");
    }
    params.check_context(prompt.len(), decoder.architecture().max_positions)?;
    let slots = prompt.len() + params.max_new_tokens;
    let decoder = decoder.prepacked(None)?;
    let mut cache = decoder.cache(1, slots)?;
    let mut random = rng_key.stream(0, 0);
    let mut packed = PackedSequences::from_start([prompt.len()]);
    let mut ids = prompt.to_vec();
    for cached in prompt.len()..slots {
        let hidden = decoder.hidden(&ids, &packed, Some(&mut cache))?;
        let last = hidden.narrow(0, ids.len() - 1, 1)?.contiguous()?;
        let sampled =
            Logits::from_hidden(&decoder, &last)?.draw(&mut [(0, &mut random)], params)?;
        let (token, logp) = sampled[0];
        sink(token, logp)?;
        if params.eos.contains(&token) {
            return Ok(Finish::Stop);
        }
        ids = vec![token];
        packed = PackedSequences::after([cached]);
    }
    Ok(Finish::Length)
}
