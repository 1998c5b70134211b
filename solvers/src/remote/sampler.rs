//! A server as the sampler of pre-samples: it draws the texts, the base here says their tokens and
//! log-probabilities.
//!
//! vLLM and llama.cpp say the tokens that they drew. Of other servers the texts are tokenized again, which for a text
//! sampled with the same tokenizer is nearly always the same tokens.

use anyhow::{Result, bail};
use tealight_eval::ProblemRequest;

use super::Remote;
use super::answers::ServerSample;
use tealight_learn::rollout::Encoded;
use tealight_nn::generate::{
    Completion, CompletionSink, Finish, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight_nn::model::Decoder;
use tealight_nn::policy::{Sequence, by_row, token_logp};
use tealight_nn::tokenizer::Tokenizer;

/// Completions in one forward pass.
const ROWS: usize = 64;

/// Samples problems, whose places are the keys of requests, from a server.
pub struct RemoteSampler<'a> {
    /// The server.
    pub remote: &'a Remote,
    /// The problems, each at the index that is the key of its requests.
    pub problems: &'a [Encoded<'a>],
    /// The base here.
    pub decoder: &'a Decoder,
    /// The tokenizer of the base, for answers that come without token ids.
    pub tokenizer: &'a dyn Tokenizer,
}

impl Sampler for RemoteSampler<'_> {
    fn generate(
        &self,
        requests: &[SampleRequest],
        params: &SamplingParams,
        _noise: RngKey,
        sink: &mut CompletionSink<'_>,
    ) -> Result<()> {
        let Some(first) = requests.first() else { return Ok(()) };
        if requests.iter().any(|request| request.count != first.count) {
            bail!("all prompts must request the same number of completions from a server");
        }
        let keyed: Vec<ProblemRequest<'_>> = requests
            .iter()
            .map(|request| ProblemRequest {
                problem: self.problems[request.key as usize].problem,
                key: request.key,
                known: 0,
            })
            .collect();
        self.remote.with(params).draw(&keyed, first.count, &mut |index, samples| {
            let mut completions = Vec::with_capacity(samples.len());
            for one in samples {
                // Samples of a base are counted to estimate its validity: one that is missing would bias it.
                if let (true, Some(why)) = (one.answer.is_missing, &one.answer.failure) {
                    let id = &self.problems[requests[index].key as usize].problem.id;
                    bail!(
                        "problem `{id}`: the server returned no sample: {why}; remove the problem from the dataset, \
                         then run the same command to continue"
                    );
                }
                completions.push(self.completion(one, params)?);
            }
            self.score(&requests[index].prompt, params.temperature, &mut completions)?;
            sink(index, completions)
        })
    }
}

impl RemoteSampler<'_> {
    /// The tokens of what was drawn: the server's own, or its text tokenized.
    fn completion(&self, sample: ServerSample, params: &SamplingParams) -> Result<Completion> {
        if sample.answer.failure.is_some() {
            // A refusal, a filter, a tool call: a sample of the base that is incorrect.
            return Ok(Completion { tokens: Vec::new(), logp: Vec::new(), finish: Finish::Length });
        }
        let mut tokens = match sample.token_ids {
            Some(ids) => ids,
            None => self.tokenizer.encode_completion(&sample.answer.text)?,
        };
        let vocabulary = self.decoder.architecture().output_size;
        if let Some(id) = tokens.iter().find(|id| **id as usize >= vocabulary) {
            bail!(
                "the server sampled token {id}, but ids of the tokenizer here are below {vocabulary}: the server \
                 has another model, or the id is padding of its embedding"
            );
        }
        let eos = self.tokenizer.eos();
        let mut finish = Finish::Length;
        if sample.answer.is_finished {
            let has_end = tokens.last().is_some_and(|last| eos.contains(last));
            if !has_end && tokens.len() < params.max_new_tokens {
                tokens.push(self.tokenizer.turn_end());
            }
            if has_end || tokens.last().is_some_and(|last| eos.contains(last)) {
                finish = Finish::Stop;
            }
        }
        tokens.truncate(params.max_new_tokens);
        Ok(Completion { tokens, logp: vec![], finish })
    }

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
            let logp = by_row(&token_logp(self.decoder, &rows, temperature)?.logp, &rows)?;
            for (completion, logp) in scored.iter_mut().zip(logp) {
                completion.logp = logp;
            }
        }
        Ok(())
    }
}
