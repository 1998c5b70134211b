//! Batched sampling from a decoder in this process.
//!
//! Each prompt is computed once, and the rows of its group go on from its keys and values. A row that
//! ends leaves the batch at once: the last row takes its place in the cache, and when a quarter of
//! the rows is free the next prompts come in.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Result;
use candle_core::Tensor;
use tealight_gpu::workspace::Destination;

use super::device_tokens::DeviceTokens;
use super::logits::Logits;
use super::rng::RandomStream;
use super::strides::{Strides, end_of_pass};
use super::{Completion, CompletionSink, Finish, RngKey, SampleRequest, Sampler, SamplingParams};
use crate::model::{Decoder, KvCache, LastTokens, PackedSequences};
use tealight_system::telemetry::count_tokens;

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
        let strides = Strides::for_length(params.max_new_tokens);
        self.generate_by(strides, requests, (params, rng_key), sink)
    }
}

impl LocalSampler<'_> {
    /// Samples with so much computed at a time.
    fn generate_by(
        &self,
        strides: Strides,
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
        params.check_context(longest, self.decoder.architecture().max_positions)?;
        let slots = longest + params.max_new_tokens;
        let in_pass = requests.iter().map(|request| request.prompt.len()).sum::<usize>();
        let in_pass = in_pass.min(strides.prefill_tokens.max(longest));
        let rows = decoder.rows_that_fit(self.max_rows.min(total), slots, in_pass)?;
        let mut batch = Batch {
            sampler: &sampler,
            requests,
            params,
            rng_key,
            strides,
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
    strides: Strides,
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
            let sampled = front.logits.draw(&mut picks, self.params)?;
            for (mut row, sampled) in fresh.into_iter().zip(sampled) {
                if row.append(sampled, self.params) {
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
        let most = self.strides.prefill_tokens;
        let next = end_of_pass(self.requests, self.next_request, free, most)?;
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
            [prompt] if prompt.len() > most => {
                // A prompt longer than a pass goes through it piece by piece, each on the cache of those before;
                // sampling reads the last piece's last token.
                let mut of_piece = None;
                for (index, piece) in prompt.chunks(most).enumerate() {
                    let packed = PackedSequences::piece(index * most, piece.len());
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
        let logits = Logits::from_hidden(decoder, &hidden)?;
        for (row, request) in chosen.into_iter().enumerate() {
            let (cache, logits) = (cache.clone(), logits.clone());
            self.prefilled.push_back(Prefilled { request, next_sample: 0, cache, row, logits });
        }
        Ok(true)
    }

    /// Decodes one token of every row, on a GPU several; takes out the rows that have ended.
    fn step(&mut self) -> Result<()> {
        let (params, mut sampled) = (self.params, self.decode()?.into_iter());
        let mut count = 0;
        let mut is_done = vec![false; self.rows.len()];
        while sampled.len() > 0 {
            for (row, is_done) in self.rows.iter_mut().zip(&mut is_done) {
                let token = sampled.next().expect("a token for every row");
                // Tokens decoded after a row's end belong to nobody.
                if !*is_done {
                    row.cached += 1;
                    count += 1;
                    *is_done = row.append(token, params);
                }
            }
        }
        count_tokens(count);
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

    /// The next token of every row, and on a GPU then of every row the one after that, and so on, with
    /// log-probabilities.
    fn decode(&mut self) -> Result<Vec<(u32, f32)>> {
        let decoder = self.sampler.decoder;
        let last =
            |row: &ActiveSample| *row.completion.tokens.last().expect("a row has its first token");
        let ids: Vec<u32> = self.rows.iter().map(last).collect();
        if decoder.is_on_gpu() {
            return self.decode_ahead(&ids);
        }
        let packed = PackedSequences::after(self.rows.iter().map(|row| row.cached));
        let hidden = decoder.hidden(&ids, &packed, Some(&mut self.cache))?;
        let streams = self.rows.iter_mut().map(|row| &mut row.stream);
        Logits::from_hidden(decoder, &hidden)?
            .draw(&mut streams.enumerate().collect::<Vec<_>>(), self.params)
    }

    /// Several tokens of every row, between which the host does not wait for the device.
    fn decode_ahead(&mut self, ids: &[u32]) -> Result<Vec<(u32, f32)>> {
        let (decoder, count) = (self.sampler.decoder, self.rows.len());
        // No row may pass the end of its room.
        let left = |row: &ActiveSample| self.params.max_new_tokens - row.completion.tokens.len();
        let left = self.rows.iter().map(left).min().unwrap_or(1);
        let steps = self.strides.ahead.min(left);
        let rows = self.rows.iter_mut();
        let of_row = |row: &mut ActiveSample| (0..steps).map(|_| row.stream.uniform()).collect();
        let of_rows: Vec<Vec<f64>> = rows.map(of_row).collect();
        let by_step = (0..steps).flat_map(|step| of_rows.iter().map(move |row| row[step]));
        let (device, workspace) = (decoder.device(), self.cache.workspace(count));
        let device_tokens =
            DeviceTokens::new(by_step.collect(), Destination { device, workspace })?;
        let mut tokens = None;
        for step in 0..steps {
            let packed = PackedSequences::after(self.rows.iter().map(|row| row.cached + step));
            let last = tokens.as_ref().map_or(LastTokens::Known(ids), LastTokens::Sampled);
            let remaining = steps - 1 - step;
            // The logits of a step are freed before those of the next, which need as much memory.
            let logits = decoder.next_logits((last, remaining), &packed, &mut self.cache)?;
            let range = step * count..(step + 1) * count;
            tokens = Some(device_tokens.draw(&logits, None, range, self.params)?);
        }
        device_tokens.read()
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

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::backend::Parameter;
    use crate::generate::Filters;
    use crate::model::{Architecture, BackendKind, weights};

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
    fn prompts_in_pieces_and_tokens_ahead_give_the_same_completions() {
        let config = serde_json::json!({
            "model_type": "qwen2", "vocab_size": 20, "hidden_size": 32,
            "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": true,
            "initializer_range": 0.3,
        });
        let architecture = Architecture::from_config(&config).expect("a fitting config");
        let weights = weights::random(&architecture, 3, &Device::Cpu).expect("memory");
        let kinds = [BackendKind::Cpu, BackendKind::Gpu];
        let all = Filters::default();
        let by_mass = Filters { top_p: 0.8, min_p: 0.1, ..all };
        let greedy = (0.0, all);
        for (temperature, filters) in
            [(1.0, all), (1.0, Filters { top_k: 4, ..all }), (1.5, by_mass), greedy]
        {
            let mut on_cpu: Option<Vec<Completion>> = None;
            for kind in &kinds {
                let weight = |name: &str| Ok(Parameter::constant(name, weights[name].clone()));
                let decoder = Decoder::new(&architecture, *kind, weight).expect("a decoder");
                let sampler = LocalSampler { decoder: &decoder, max_rows: 8 };
                let params =
                    SamplingParams { temperature, filters, max_new_tokens: 12, eos: vec![0] };
                let requests = requests(&[1, 30, 7, 7, 40]);
                let by = |prefill_tokens, ahead| {
                    let mut all = vec![vec![]; requests.len()];
                    let keys = (&params, RngKey { seed: 5, step: 1 });
                    let mut sink = |index: usize, completions| {
                        all[index] = completions;
                        Ok(())
                    };
                    let strides = Strides { prefill_tokens, ahead };
                    sampler.generate_by(strides, &requests, keys, &mut sink).expect("samples");
                    all.concat()
                };
                let most = if *kind == BackendKind::Cpu { 0.0 } else { 1e-4 };
                let check = |these: &[Completion], those: &[Completion], most: f32| {
                    assert_eq!(these.len(), 15);
                    for (one, other) in these.iter().zip(those) {
                        assert_eq!(
                            one.tokens, other.tokens,
                            "{kind:?}, {temperature}, {filters:?}"
                        );
                        let apart = one.logp.iter().zip(&other.logp).map(|(a, b)| (a - b).abs());
                        assert!(apart.fold(0.0, f32::max) <= most, "{kind:?}, {filters:?}");
                    }
                };
                let whole = by(usize::MAX, 1);
                // The same seed draws the same tokens on every backend.
                check(&whole, on_cpu.get_or_insert_with(|| whole.clone()), 1e-4);
                // Rows end at different tokens, in the middle of what is decoded at a time too.
                let ends = |one: &Completion| one.tokens.len() < 12;
                assert!(temperature == 0.0 || whole.iter().any(ends));
                for (prefill_tokens, ahead) in [(1, 1), (9, 1), (16, 1), (usize::MAX, 5), (9, 12)] {
                    check(&by(prefill_tokens, ahead), &whole, most);
                }
            }
        }
    }
}
