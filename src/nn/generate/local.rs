//! Batched sampling from a decoder in this process.
//!
//! Each prompt is computed once, and the rows of its group go on from its keys and values. A row that
//! ends leaves the batch at once: the last row takes its place in the cache, and when a quarter of
//! the rows is free the next prompts come in.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Result, bail};
use candle_core::Tensor;

use super::logits::Logits;
use super::rng::RandomStream;
use super::{Completion, CompletionSink, Finish, RngKey, SampleRequest, Sampler, SamplingParams};
use crate::nn::model::{Decoder, KvCache, PackedSequences};
use crate::system::telemetry::count_tokens;

/// Tokens of prompts that one pass computes: its activations are bounded by it, and the values of a product stay far
/// below the 2^31 that a kernel counts to. A longer prompt is computed in pieces.
pub(crate) const PREFILL_TOKENS: usize = 8192;

/// Samples from `decoder` with at most `max_rows` sequences at a time.
pub struct LocalSampler<'a> {
    /// The model; its results must not need a gradient.
    pub decoder: &'a Decoder,
    /// Maximum number of sequences in one decoding batch.
    pub max_rows: usize,
}

/// A sequence that is being decoded; its place in the list is its row in the cache.
struct ActiveSample {
    request: usize,
    sample: usize,
    stream: RandomStream,
    /// Tokens whose keys and values are in the cache.
    cached: usize,
    completion: Completion,
}

/// A prompt that has been computed and still has samples to start.
struct Prefilled {
    request: usize,
    next_sample: usize,
    cache: Arc<KvCache>,
    /// Its row in the cache and among the logits.
    row: usize,
    logits: Logits,
}

impl Sampler for LocalSampler<'_> {
    fn generate(
        &self,
        requests: &[SampleRequest],
        params: &SamplingParams,
        rng_key: RngKey,
        sink: &mut CompletionSink<'_>,
    ) -> Result<()> {
        self.generate_by(PREFILL_TOKENS, requests, (params, rng_key), sink)
    }
}

impl LocalSampler<'_> {
    /// Samples with so many tokens of prompts in a pass.
    fn generate_by(
        &self,
        prefill_tokens: usize,
        requests: &[SampleRequest],
        (params, rng_key): (&SamplingParams, RngKey),
        sink: &mut CompletionSink<'_>,
    ) -> Result<()> {
        params.check()?;
        // Weights do not change while this samples: every product shares one packed copy of them.
        let decoder = self.decoder.prepacked(None)?;
        let sampler = LocalSampler { decoder: &decoder, max_rows: self.max_rows };
        let total: usize = requests.iter().map(|request| request.count).sum();
        let longest = requests.iter().map(|request| request.prompt.len()).max().unwrap_or(0);
        params.check_room(longest, self.decoder.architecture().max_positions)?;
        let slots = longest + params.max_new_tokens;
        let in_pass = requests.iter().map(|request| request.prompt.len()).sum::<usize>();
        let in_pass = in_pass.min(prefill_tokens.max(longest));
        let rows = decoder.rows_that_fit(self.max_rows.min(total), slots, in_pass)?;
        let mut batch = Batch {
            sampler: &sampler,
            requests,
            params,
            rng_key,
            prefill_tokens,
            capacity: rows,
            cache: decoder.decoding_cache(rows, slots, params.max_new_tokens)?,
            rows: Vec::with_capacity(rows),
            prefilled: VecDeque::new(),
            next_request: 0,
            results: requests.iter().map(|request| vec![None; request.count]).collect(),
            ended: Vec::new(),
        };
        loop {
            batch.admit()?;
            for request in std::mem::take(&mut batch.ended) {
                let completions = std::mem::take(&mut batch.results[request]);
                sink(request, completions.into_iter().flatten().collect())?;
            }
            if batch.rows.is_empty() {
                return Ok(());
            }
            batch.step()?;
        }
    }
}

/// The state of one call of `generate`.
struct Batch<'a> {
    sampler: &'a LocalSampler<'a>,
    requests: &'a [SampleRequest],
    params: &'a SamplingParams,
    rng_key: RngKey,
    /// Most tokens of prompts in a pass.
    prefill_tokens: usize,
    capacity: usize,
    cache: KvCache,
    rows: Vec<ActiveSample>,
    prefilled: VecDeque<Prefilled>,
    next_request: usize,
    results: Vec<Vec<Option<Completion>>>,
    /// Requests all of whose samples have ended and which were not handed out yet.
    ended: Vec<usize>,
}

impl Batch<'_> {
    /// Starts samples while there is room; prompts are computed several at a time.
    fn admit(&mut self) -> Result<()> {
        let free = self.capacity - self.rows.len();
        if free == 0 || (free * 4 < self.capacity && !self.rows.is_empty()) {
            return Ok(());
        }
        while self.rows.len() < self.capacity {
            if self.prefilled.is_empty() && !self.prefill()? {
                return Ok(());
            }
            let free = self.capacity - self.rows.len();
            let (requests, rng_key) = (self.requests, self.rng_key);
            let Some(front) = self.prefilled.front_mut() else { continue };
            let request = &requests[front.request];
            let first = front.next_sample;
            let count = free.min(request.count - first);
            if count == 0 {
                self.prefilled.pop_front();
                continue;
            }
            front.next_sample += count;
            let (index, cache, from) = (front.request, front.cache.clone(), front.row);
            let row = |sample: usize| ActiveSample {
                request: index,
                sample,
                stream: rng_key.stream(request.key, (request.first + sample) as u64),
                cached: request.prompt.len(),
                completion: Completion { tokens: vec![], logp: vec![], finish: Finish::Length },
            };
            let mut fresh: Vec<ActiveSample> = (first..first + count).map(row).collect();
            let mut picks: Vec<_> = fresh.iter_mut().map(|row| (from, &mut row.stream)).collect();
            let drawn = front.logits.draw(&mut picks, self.params)?;
            for (mut row, drawn) in fresh.into_iter().zip(drawn) {
                if row.append(drawn, self.params) {
                    self.finish(row);
                } else {
                    self.cache.continue_from(&cache, from, row.cached, self.rows.len())?;
                    self.rows.push(row);
                }
            }
        }
        Ok(())
    }

    /// Computes the next prompts, enough to fill the free rows or a pass; false when there are none left.
    fn prefill(&mut self) -> Result<bool> {
        let free = self.capacity - self.rows.len();
        let next = end_of_pass(self.requests, self.next_request, free, self.prefill_tokens)?;
        let (chosen, empty): (Vec<usize>, Vec<usize>) =
            (self.next_request..next).partition(|index| self.requests[*index].count > 0);
        self.ended.extend(empty);
        self.next_request = next;
        if chosen.is_empty() {
            return Ok(false);
        }
        let prompts: Vec<&[u32]> =
            chosen.iter().map(|index| self.requests[*index].prompt.as_slice()).collect();
        let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
        let decoder = self.sampler.decoder;
        let mut cache = decoder.cache(prompts.len(), longest)?;
        let (hidden, last) = match prompts.as_slice() {
            [prompt] if prompt.len() > self.prefill_tokens => {
                let mut of_piece = None;
                for (index, piece) in prompt.chunks(self.prefill_tokens).enumerate() {
                    let packed = PackedSequences::piece(index * self.prefill_tokens, piece.len());
                    let hidden = decoder.hidden(piece, &packed, Some(&mut cache))?;
                    of_piece = Some((hidden, vec![piece.len() as u32 - 1]));
                }
                of_piece.expect("a prompt has tokens")
            }
            _ => {
                let packed = PackedSequences::from_start(prompts.iter().map(|prompt| prompt.len()));
                let last = |row: usize| packed.range(row).end as u32 - 1;
                let hidden = decoder.hidden(&prompts.concat(), &packed, Some(&mut cache))?;
                (hidden, (0..prompts.len()).map(last).collect())
            }
        };
        let cache = Arc::new(cache);
        let last = Tensor::from_vec(last, prompts.len(), decoder.device())?;
        let hidden = hidden.index_select(&last, 0)?;
        let logits = Logits::of(decoder, &hidden, self.params)?;
        for (row, request) in chosen.into_iter().enumerate() {
            let (cache, logits) = (cache.clone(), logits.clone());
            self.prefilled.push_back(Prefilled { request, next_sample: 0, cache, row, logits });
        }
        Ok(true)
    }

    /// Decodes one token of every row.
    fn step(&mut self) -> Result<()> {
        let last =
            |row: &ActiveSample| *row.completion.tokens.last().expect("a row has its first token");
        let ids: Vec<u32> = self.rows.iter().map(last).collect();
        let packed = PackedSequences::after(self.rows.iter().map(|row| row.cached));
        let hidden = self.sampler.decoder.hidden(&ids, &packed, Some(&mut self.cache))?;
        let logits = Logits::of(self.sampler.decoder, &hidden, self.params)?;
        let streams = self.rows.iter_mut().map(|row| &mut row.stream);
        let drawn = logits.draw(&mut streams.enumerate().collect::<Vec<_>>(), self.params)?;
        let append = |(row, drawn): (&mut ActiveSample, (u32, f32))| {
            row.cached += 1;
            row.append(drawn, self.params)
        };
        count_tokens(drawn.len());
        let is_done: Vec<bool> = self.rows.iter_mut().zip(drawn).map(append).collect();
        // From the last row down, so that the row that fills a gap is never one that has ended.
        for index in (0..is_done.len()).rev().filter(|index| is_done[*index]) {
            let row = self.rows.swap_remove(index);
            if let Some(moved) = self.rows.get(index) {
                self.cache.move_row(self.rows.len(), index, moved.cached)?;
            }
            self.finish(row);
        }
        Ok(())
    }

    fn finish(&mut self, row: ActiveSample) {
        let results = &mut self.results[row.request];
        results[row.sample] = Some(row.completion);
        if results.iter().all(Option::is_some) {
            self.ended.push(row.request);
        }
    }
}

/// One past the last of the requests from `from` on whose prompts one pass computes: those that fill so many free rows,
/// as far as its tokens go.
fn end_of_pass(
    requests: &[SampleRequest],
    from: usize,
    mut free: usize,
    most_tokens: usize,
) -> Result<usize> {
    let (mut next, mut tokens) = (from, 0);
    while free > 0 && next < requests.len() {
        let request = &requests[next];
        if request.prompt.is_empty() {
            bail!("a prompt must have at least one token");
        }
        tokens += request.prompt.len();
        if tokens > most_tokens && next > from {
            break;
        }
        free = free.saturating_sub(request.count);
        next += 1;
    }
    Ok(next)
}

impl ActiveSample {
    /// Takes the next token and its log-probability; true when the completion has ended.
    fn append(&mut self, (token, logp): (u32, f32), params: &SamplingParams) -> bool {
        self.completion.tokens.push(token);
        self.completion.logp.push(logp);
        if params.eos.contains(&token) {
            self.completion.finish = Finish::Stop;
            return true;
        }
        self.completion.tokens.len() == params.max_new_tokens
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::nn::backend::Parameter;
    use crate::nn::generate::Filters;
    use crate::nn::model::{Architecture, BackendKind, weights};

    fn requests(lengths: &[usize]) -> Vec<SampleRequest> {
        let prompt = |length: usize| (0..length).map(|at| (at * 7 % 19) as u32 + 1).collect();
        let request = |(key, length): (usize, &usize)| SampleRequest {
            prompt: prompt(*length),
            first: 0,
            count: 3,
            key: key as u64,
        };
        lengths.iter().enumerate().map(request).collect()
    }

    #[test]
    fn a_pass_has_no_more_tokens_of_prompts_than_it_may() {
        let requests = requests(&[100; 300]);
        let (mut from, mut largest) = (0, 0);
        while from < requests.len() {
            let next = end_of_pass(&requests, from, usize::MAX, 1000).expect("a pass");
            assert!(next > from);
            largest = largest.max(100 * (next - from));
            from = next;
        }
        assert_eq!(largest, 1000);
        assert_eq!(end_of_pass(&requests, 0, usize::MAX, 99).expect("a pass"), 1, "one at least");
        assert_eq!(end_of_pass(&requests, 290, 6, 1000).expect("a pass"), 292, "rows are filled");
    }

    #[test]
    fn prompts_in_pieces_give_the_same_completions() {
        let config = serde_json::json!({
            "model_type": "qwen2", "vocab_size": 20, "hidden_size": 32,
            "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": true,
            "initializer_range": 0.3,
        });
        let architecture = Architecture::from_config(&config).expect("a fitting config");
        let weights = weights::random(&architecture, 3, &Device::Cpu).expect("memory");
        let mut kinds = vec![BackendKind::Cpu];
        if cfg!(feature = "emulated-gpu") {
            kinds.push(BackendKind::Gpu);
        }
        for kind in kinds {
            let weight = |name: &str| Ok(Parameter::constant(name, weights[name].clone()));
            let decoder = Decoder::new(&architecture, kind, weight).expect("a decoder");
            let sampler = LocalSampler { decoder: &decoder, max_rows: 8 };
            let (filters, eos) = (Filters::default(), vec![0]);
            let params = SamplingParams { temperature: 1.0, filters, max_new_tokens: 12, eos };
            let requests = requests(&[1, 30, 7, 7, 40]);
            let by = |prefill_tokens: usize| {
                let mut all = vec![vec![]; requests.len()];
                let keys = (&params, RngKey { seed: 5, step: 1 });
                let mut sink = |index: usize, completions| {
                    all[index] = completions;
                    Ok(())
                };
                sampler.generate_by(prefill_tokens, &requests, keys, &mut sink).expect("samples");
                all.concat()
            };
            let whole = by(usize::MAX);
            assert_eq!(whole.len(), 15);
            for prefill_tokens in [1, 9, 16] {
                for (piece, whole) in by(prefill_tokens).iter().zip(&whole) {
                    assert_eq!(piece.tokens, whole.tokens);
                    let most = if kind == BackendKind::Cpu { 0.0 } else { 1e-4 };
                    let apart = piece.logp.iter().zip(&whole.logp).map(|(a, b)| (a - b).abs());
                    assert!(apart.fold(0.0, f32::max) <= most, "{kind:?}, {prefill_tokens}");
                }
            }
        }
    }
}
