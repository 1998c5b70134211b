//! A server as the sampler of pre-samples: it draws the texts, the base here says their tokens and
//! log-probabilities.
//!
//! The server's own tokens are not asked for, since servers do not agree on how to give them: texts are
//! tokenized again, which for a text sampled with the same tokenizer is nearly always the same tokens.

use anyhow::{Result, bail};
use tealight_eval::{Keyed, Solver};

use super::Remote;
use crate::generate::{Completion, Finish, Noise, Request, Sampler, SamplingParams, Sink};
use crate::model::Decoder;
use crate::policy::{Sequence, token_logp};
use crate::rollout::Encoded;
use crate::tokenizer::Tokenizer;

/// Completions in one forward pass.
const ROWS: usize = 64;

/// Samples problems, whose places are the keys of requests, from a server.
pub struct RemoteSampler<'a> {
    /// The server.
    pub remote: &'a Remote,
    /// The problems.
    pub problems: &'a [Encoded<'a>],
    /// The base here.
    pub decoder: &'a Decoder,
    /// Its tokenizer.
    pub tokenizer: &'a dyn Tokenizer,
}

impl Sampler for RemoteSampler<'_> {
    fn generate(
        &self,
        requests: &[Request],
        params: &SamplingParams,
        _noise: Noise,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let Some(first) = requests.first() else { return Ok(()) };
        if requests.iter().any(|request| request.count != first.count) {
            bail!("a server is asked for the same number of completions of every prompt");
        }
        let keyed: Vec<Keyed<'_>> = requests
            .iter()
            .map(|request| Keyed {
                problem: self.problems[request.key as usize].problem,
                key: request.key,
            })
            .collect();
        self.remote.with(params).solve(&keyed, first.count, &mut |index, answers| {
            let mut completions = Vec::with_capacity(answers.len());
            for answer in answers {
                let mut tokens = self.tokenizer.encode_completion(&answer.text)?;
                let mut finish = Finish::Length;
                if answer.is_finished && tokens.len() < params.max_new_tokens {
                    tokens.push(self.tokenizer.eos()[0]);
                    finish = Finish::Stop;
                }
                tokens.truncate(params.max_new_tokens);
                completions.push(Completion { tokens, logp: vec![], finish });
            }
            self.score(&requests[index].prompt, params.temperature, &mut completions)?;
            sink(index, completions)
        })
    }
}

impl RemoteSampler<'_> {
    /// Fills in the log-probabilities under the base.
    fn score(
        &self,
        prompt: &[u32],
        temperature: f64,
        completions: &mut [Completion],
    ) -> Result<()> {
        for part in completions.chunks_mut(ROWS) {
            // An empty completion that was cut off has no token to score.
            let mut scored: Vec<&mut Completion> =
                part.iter_mut().filter(|completion| !completion.tokens.is_empty()).collect();
            if scored.is_empty() {
                continue;
            }
            let rows: Vec<Sequence> = scored
                .iter()
                .map(|completion| Sequence {
                    prompt: prompt.to_vec(),
                    completion: completion.tokens.clone(),
                })
                .collect();
            let logp = token_logp(self.decoder, &rows, temperature)?.logp.to_vec2::<f32>()?;
            for (completion, logp) in scored.iter_mut().zip(logp) {
                completion.logp = logp[..completion.tokens.len()].to_vec();
            }
        }
        Ok(())
    }
}
