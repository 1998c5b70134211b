//! The decoder's layers on the CPU in f32, written out: no graph, no copies between operations, and what
//! is computed of a token is the same bits in every batch.
//!
//! Without a gradient a pass goes straight through ([`hidden`]). With one ([`with_grad`]) Candle's graph sees
//! the whole body as one operation on the embedding; its backward pass adds the gradient of every weight to
//! the decoder's [`Sums`] in place.

mod backward;
mod forward;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Result, Tensor, bail};

use super::pool::Pool;
use super::spans::{Row, Seen};
use super::{Architecture, Decoder, KvCache, Spans, check_tokens};
use crate::kernels::cpu::attention::{Heads, room};
use crate::kernels::cpu::with_values;
use crate::kernels::given::given;
use forward::{Kept, Work};

/// What passes of a decoder and its clones share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Gradients that backward passes left on the host.
    pub(super) sums: Mutex<Sums>,
    /// Those that are on a GPU.
    pub(super) on_device: Mutex<super::gpu::Sums>,
    /// Buffers for the next pass, for gradients and for packed weights.
    pub(super) pool: Arc<Pool>,
    /// The number of the next training pass, which keys what adapters drop in it.
    pub(super) passes: AtomicU64,
}

impl Shared {
    /// Nothing yet, with the buffers of `pool`.
    pub(super) fn within(pool: Arc<Pool>) -> Self {
        let sums = Mutex::new(Sums { all: BTreeMap::new(), pool: pool.clone() });
        Self { sums, on_device: Mutex::default(), pool, passes: AtomicU64::new(0) }
    }
}

/// Gradients by the names of weights, summed over backward passes.
#[derive(Debug, Default)]
pub(super) struct Sums {
    all: BTreeMap<String, Vec<f32>>,
    pool: Arc<Pool>,
}

impl Sums {
    /// The sums for two names at a time, which differ.
    pub(super) fn of_two(&mut self, names: [&str; 2], counts: [usize; 2]) -> [&mut [f32]; 2] {
        names.iter().zip(counts).for_each(|(name, count)| {
            self.of(name, count);
        });
        let [first, second] = names;
        let (mut one, mut other) = (None, None);
        for (name, sum) in &mut self.all {
            match name.as_str() {
                name if name == first => one = Some(sum),
                name if name == second => other = Some(sum),
                _ => {}
            }
        }
        [one, other].map(|sum| sum.expect("just put there").as_mut_slice())
    }

    /// The sum for `name`, of `count` values; zeros at first.
    pub(super) fn of(&mut self, name: &str, count: usize) -> &mut [f32] {
        if !self.all.contains_key(name) {
            let mut buffer = self.pool.take(count);
            buffer.fill(0.0);
            self.all.insert(name.to_owned(), buffer);
        }
        self.all.get_mut(name).expect("just put there")
    }

    /// Takes all sums out.
    pub(super) fn take(&mut self) -> BTreeMap<String, Vec<f32>> {
        std::mem::take(&mut self.all)
    }
}

/// The keys and values of some rows in one layer.
pub(super) type Slots<'a> = (&'a mut [f32], &'a mut [f32]);

/// The tokens of one pass.
#[derive(Clone, Copy)]
struct Pass<'a> {
    rows: &'a [Row],
    /// Of every token.
    seen: &'a [Seen],
    /// The first row and the first token, where this is a part of a pass.
    first: (usize, usize),
    /// `[tokens, D / 2]`.
    cos: &'a [f32],
    sin: &'a [f32],
    heads: Heads,
    parallel: bool,
    /// Keys what adapters drop, in training.
    dropout: Option<u64>,
}

impl<'a> Pass<'a> {
    fn tokens(&self) -> usize {
        self.seen.len()
    }

    /// The row of keys that token `index` of the pass looks at, and how many of them it sees.
    #[inline(always)]
    fn seen(&self, index: usize) -> (usize, usize) {
        let Seen { row, count } = self.seen[index];
        (row - self.first.0, count)
    }

    /// The angles of token `index`.
    #[inline(always)]
    fn angles(&self, index: usize) -> (&'a [f32], &'a [f32]) {
        let half = self.heads.dim / 2;
        (&self.cos[index * half..][..half], &self.sin[index * half..][..half])
    }

    /// The tokens of some of its rows, none of which shares any with another.
    fn tokens_of(&self, rows: Range<usize>) -> Range<usize> {
        self.rows[rows.start].own.start..self.rows[rows.end - 1].own.end
    }

    /// Some of its rows, on one thread.
    fn part(&self, rows: Range<usize>) -> Self {
        let tokens = self.tokens_of(rows.clone());
        let half = self.heads.dim / 2;
        let angles = |all: &'a [f32]| &all[tokens.start * half..tokens.end * half];
        Self {
            rows: &self.rows[rows.clone()],
            seen: &self.seen[tokens.clone()],
            first: (rows.start, tokens.start),
            cos: angles(self.cos),
            sin: angles(self.sin),
            parallel: false,
            ..*self
        }
    }
}

/// Whether this path runs decoders of such weights.
pub(super) fn runs(dtype: DType, device: &Device) -> bool {
    // Where the CPU stands in for a GPU, that is what is tested.
    device.is_cpu() && dtype == DType::F32 && !tealight_gpu::runs_on(device)
}

/// The sizes of attention over up to `tokens` tokens.
pub(super) fn heads(architecture: &Architecture, tokens: usize) -> Heads {
    Heads {
        queries: architecture.num_heads,
        keys: architecture.num_kv_heads,
        dim: architecture.head_dim,
        slots: room(tokens),
    }
}

/// Hidden states `[N, D]`, after the last norm, without a gradient.
pub(super) fn hidden(
    decoder: &Decoder,
    ids: &Tensor,
    spans: &Spans,
    cache: Option<&KvCache>,
) -> Result<Tensor> {
    let shape = (ids.dims1()?, decoder.architecture.hidden_size);
    let mut x = embedded(decoder, &ids.to_vec1()?)?;
    with_pass(decoder, spans, cache.map(KvCache::slots), |pass| {
        let mut own = [Vec::new(), Vec::new()];
        let mut held;
        let count = pass.rows.len() * pass.heads.row();
        let layers: Vec<Slots<'_>> = match cache {
            Some(cache) => {
                held = cache.lock()?;
                held.iter_mut().map(|layer| layer.rows(count)).collect()
            }
            // One layer's keys and values at a time are enough.
            None => {
                own = [0, 1].map(|_| decoder.shared.pool.take(count));
                let [keys, values] = &mut own;
                vec![(keys.as_mut_slice(), values.as_mut_slice())]
            }
        };
        run(decoder, pass, &mut x, layers)?;
        decoder.shared.pool.give(own);
        Ok(())
    })?;
    let normed = final_norm(decoder, &x)?;
    Tensor::from_vec(normed, shape, &Device::Cpu)
}

/// Small models are sampled from with every thread on rows of its own, without ever waiting for another;
/// otherwise all threads share every product, so that weights are read once.
fn run(decoder: &Decoder, pass: Pass<'_>, x: &mut [f32], mut layers: Vec<Slots<'_>>) -> Result<()> {
    /// Packed weights that fit the caches of a processor's cores, in bytes.
    const SMALL: usize = 32 << 20;
    let threads = rayon::current_num_threads().min(pass.rows.len());
    let is_small = decoder.ready_bytes().is_some_and(|bytes| bytes <= SMALL);
    if !is_small || threads < 2 || layers.len() < decoder.layers.len() {
        return rayon::scope(|_| forward::layers(decoder, pass, x, &mut layers));
    }
    let share = pass.rows.len().div_ceil(threads);
    let width = x.len() / pass.tokens();
    let mut parts: Vec<Vec<Slots<'_>>> = (0..threads).map(|_| Vec::new()).collect();
    for (keys, values) in layers {
        let chunks = keys.chunks_mut(share * pass.heads.row());
        let chunks = chunks.zip(values.chunks_mut(share * pass.heads.row()));
        parts.iter_mut().zip(chunks).for_each(|(part, chunk)| part.push(chunk));
    }
    let failure = Mutex::new(Ok(()));
    rayon::scope(|scope| {
        let mut rest = x;
        for (index, mut part) in parts.into_iter().enumerate() {
            let rows = index * share..((index + 1) * share).min(pass.rows.len());
            if rows.is_empty() {
                return;
            }
            let tokens = pass.tokens_of(rows.clone()).len();
            let (x, others) = std::mem::take(&mut rest).split_at_mut(tokens * width);
            rest = others;
            let failure = &failure;
            scope.spawn(move |_| {
                let done = forward::layers(decoder, pass.part(rows), x, &mut part);
                if done.is_err() {
                    *failure.lock().expect("no panic while the lock is held") = done;
                }
            });
        }
    });
    failure.into_inner().expect("no panic while the lock is held")
}

/// The same as [`hidden`], without a cache, as an operation whose backward pass adds to the decoder's sums.
pub(super) fn with_grad(decoder: &Decoder, ids: &Tensor, spans: &Spans) -> Result<Tensor> {
    let ids: Vec<u32> = ids.to_vec1()?;
    let mut x = embedded(decoder, &ids)?;
    let mut kept = Vec::new();
    let key = decoder.shared.passes.fetch_add(1, Ordering::Relaxed);
    with_pass(decoder, spans, None, |pass| {
        let pass = Pass { dropout: Some(key), ..pass };
        let pool = &decoder.shared.pool;
        let count = pass.rows.len() * pass.heads.row();
        let [mut keys, mut values] = [0, 1].map(|_| pool.take(count));
        let mut slots = (keys.as_mut_slice(), values.as_mut_slice());
        let mut work = Work::default();
        rayon::scope(|_| -> Result<()> {
            for layer in &decoder.layers {
                let mut own = Kept { input: pool.take(x.len()), ..Kept::default() };
                own.input.copy_from_slice(&x);
                layer.forward(decoder, pass, &mut x, &mut slots, &mut work, &mut own)?;
                if decoder.recomputes {
                    own.forget(pool);
                }
                kept.push(own);
            }
            Ok(())
        })?;
        work.give(pool);
        pool.give([keys, values]);
        Ok(())
    })?;
    let normed = final_norm(decoder, &x)?;
    let shape = (ids.len(), decoder.architecture.hidden_size);
    let hidden = Tensor::from_vec(normed, shape, &Device::Cpu)?;
    // What the operation is said to depend on only has to be something that is trained.
    let trained = decoder.trained().unwrap_or(&decoder.embedding).clone();
    let (decoder, spans) = (decoder.clone(), spans.clone());
    let kept = Mutex::new(Some((kept, x)));
    given(hidden, [&trained, &trained], move |grad| {
        let kept = kept.lock().expect("no panic while the lock is held").take();
        let Some(kept) = kept else { bail!("a second backward pass through one forward pass") };
        with_pass(&decoder, &spans, None, |pass| {
            let pass = Pass { dropout: Some(key), ..pass };
            with_values(grad, |grad| {
                let mut sums = decoder.shared.sums.lock().expect("no panic while the lock is held");
                let sums = &mut *sums;
                rayon::scope(|_| backward::body(&decoder, pass, &ids, kept, grad, sums))
            })
        })?;
        Ok([None, None])
    })
}

/// The rows of the embedding for `ids`.
fn embedded(decoder: &Decoder, ids: &[u32]) -> Result<Vec<f32>> {
    let width = decoder.architecture.hidden_size;
    with_values(&decoder.embedding, |table| {
        check_tokens(ids, table.len() / width)?;
        let mut x = Vec::with_capacity(ids.len() * width);
        ids.iter().for_each(|id| x.extend_from_slice(&table[*id as usize * width..][..width]));
        Ok(x)
    })
}

fn final_norm(decoder: &Decoder, x: &[f32]) -> Result<Vec<f32>> {
    let mut normed = vec![0f32; x.len()];
    let eps = decoder.architecture.rms_norm_eps as f32;
    with_values(&decoder.norm, |weight| {
        let parallel = x.len() > 1 << 16;
        crate::kernels::cpu::rms_norm::rms_norm(x, weight, eps, &mut normed, parallel);
        Ok(())
    })?;
    Ok(normed)
}

/// Calls `work` with the pass over `spans`, whose cache has `slots` a row.
fn with_pass<R>(
    decoder: &Decoder,
    spans: &Spans,
    slots: Option<usize>,
    work: impl FnOnce(Pass<'_>) -> Result<R>,
) -> Result<R> {
    let (cos, sin) = decoder.rope.values(spans);
    let longest = spans.longest();
    let slots = slots.unwrap_or(longest);
    if longest > slots {
        bail!("{longest} tokens do not fit a cache of {slots} slots");
    }
    let (rows, seen) = spans.rows();
    work(Pass {
        rows: &rows,
        seen: &seen,
        first: (0, 0),
        cos: &cos,
        sin: &sin,
        heads: heads(&decoder.architecture, slots),
        parallel: true,
        dropout: None,
    })
}
