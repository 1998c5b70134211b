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
use super::rng::Stream;
use super::{Completion, CompletionSink, Finish, RngKey, SampleRequest, Sampler, SamplingParams};
use crate::model::{Decoder, KvCache, PackedSequences};
use crate::telemetry::count_tokens;

/// Samples from `decoder` with at most `max_rows` sequences at a time.
pub struct LocalSampler<'a> {
    /// The model; its results must not need a gradient.
    pub decoder: &'a Decoder,
    /// Most sequences in one decoding batch.
    pub max_rows: usize,
}

/// A sequence that is being decoded; its place in the list is its row in the cache.
struct ActiveSample {
    request: usize,
    sample: usize,
    stream: Stream,
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
        params.check()?;
        // Weights do not change while this samples: every product shares one packed copy of them.
        let decoder = self.decoder.prepacked(None)?;
        let sampler = LocalSampler { decoder: &decoder, max_rows: self.max_rows };
        let total: usize = requests.iter().map(|request| request.count).sum();
        let longest = requests.iter().map(|request| request.prompt.len()).max().unwrap_or(0);
        params.check_room(longest, self.decoder.architecture().max_positions)?;
        let slots = longest + params.max_new_tokens;
        let rows = self.max_rows.min(total);
        let mut batch = Batch {
            sampler: &sampler,
            requests,
            params,
            rng_key,
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

    /// Computes the next prompts, enough to fill the free rows; false when there are none left.
    fn prefill(&mut self) -> Result<bool> {
        let mut wanted = self.capacity - self.rows.len();
        let mut chosen = Vec::new();
        while wanted > 0 && self.next_request < self.requests.len() {
            let request = &self.requests[self.next_request];
            if request.prompt.is_empty() {
                bail!("a prompt must have at least one token");
            }
            if request.count == 0 {
                self.ended.push(self.next_request);
            } else {
                chosen.push(self.next_request);
            }
            wanted = wanted.saturating_sub(request.count);
            self.next_request += 1;
        }
        if chosen.is_empty() {
            return Ok(false);
        }
        let prompts: Vec<&[u32]> =
            chosen.iter().map(|index| self.requests[*index].prompt.as_slice()).collect();
        let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
        let device = self.sampler.decoder.device();
        let packed = PackedSequences::from_start(prompts.iter().map(|prompt| prompt.len()));
        let mut cache = self.sampler.decoder.cache(prompts.len(), longest)?;
        let hidden = self.sampler.decoder.hidden(&prompts.concat(), &packed, Some(&mut cache))?;
        let cache = Arc::new(cache);
        let last: Vec<u32> =
            (0..prompts.len()).map(|row| packed.range(row).end as u32 - 1).collect();
        let last = Tensor::from_vec(last, prompts.len(), device)?;
        let hidden = hidden.index_select(&last, 0)?;
        let logits = Logits::of(self.sampler.decoder, &hidden, self.params)?;
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
