//! Keys and values of past tokens, or states in their place, preallocated and written in place. The first rows are in
//! use.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Result, Tensor, bail};
use tealight_gpu::workspace::Workspace;

use crate::backend::cpu::Cpu;
use crate::backend::cpu::key_layout::KeyLayout;
use crate::backend::cpu::slots::{Beginning, RowLayout, Slots};
use crate::backend::gpu::Gpu;
use crate::backend::{AnyBackend, Backend, DeltaSizes, Heads};

/// Tokens of a completion that a cache for decoding on a GPU has room for at first.
const FIRST_TOKENS: usize = 64;

/// The cache of one batch of sequences.
#[derive(Debug)]
pub struct KvCache {
    storage: Storage,
    /// Tokens a row has room for now.
    slots: usize,
    /// Tokens a row may grow to.
    most: usize,
    /// The part of another cache that each row reads; empty where no row may.
    lent: Vec<Option<Lent>>,
    /// On a GPU, where tokens are added to rows one by one: the memory that those steps compute in.
    workspace: Option<Arc<Workspace>>,
}

/// The beginning of a row of another cache.
#[derive(Debug, Clone)]
struct Lent {
    cache: Arc<KvCache>,
    row: usize,
    /// Whole blocks of keys.
    tokens: usize,
}

/// The room of a cache.
pub(super) struct CacheCapacity {
    pub(super) rows: usize,
    /// Tokens a row.
    pub(super) slots: usize,
    /// Tokens that are added to a row one after the other to what it [continues](KvCache::continue_from), where it
    /// only does that: on the CPU it needs room for little more than those.
    pub(super) added: Option<usize>,
}

#[derive(Debug)]
enum Storage {
    /// The past of every layer, each row laid out as the layer reads it.
    Cpu(Vec<(RowLayout, [Vec<f32>; 2])>),
    /// Keys and values as `[rows, slots, K * D]`, states as `[rows, values]`.
    Gpu(Vec<[Tensor; 2]>),
}

/// The part of the past that a layer needs.
pub(super) enum Past {
    /// Keys and values of all tokens.
    All,
    /// Of the last so many; on a GPU all are kept.
    Window(usize),
    State(DeltaSizes),
}

/// A backend whose keys and values a cache can hold.
pub(super) trait Cached: Backend {
    /// The first `rows` rows of every layer.
    fn layers(cache: &mut KvCache, rows: usize) -> Result<Vec<Self::Cache<'_>>>;
}

impl Cached for Cpu {
    fn layers(cache: &mut KvCache, rows: usize) -> Result<Vec<Self::Cache<'_>>> {
        let Storage::Cpu(layers) = &mut cache.storage else {
            bail!("the cache is that of a decoder on a GPU");
        };
        let lent = &cache.lent;
        let layers = layers.iter_mut().enumerate().map(|(layer, (layout, [first, second]))| {
            let [one, other] = layout.sizes().map(|size| rows * size);
            let parts = [&mut first[..one], &mut second[..other]];
            let beginnings = match layout.lends() {
                true => lent.iter().take(rows).map(|lent| lent.as_ref()?.of_layer(layer)).collect(),
                false => Vec::new(),
            };
            Slots { parts, layout: *layout, beginnings }
        });
        Ok(layers.collect())
    }
}

impl Lent {
    /// The part that a layer reads.
    fn of_layer(&self, layer: usize) -> Option<Beginning<'_>> {
        let Storage::Cpu(layers) = &self.cache.storage else { return None };
        let (RowLayout::Keys(layout), parts) = &layers[layer] else { return None };
        let range = self.row * layout.row()..(self.row + 1) * layout.row();
        let parts = parts.each_ref().map(|part| &part[range.clone()]);
        Some(Beginning { parts, head: layout.head(), tokens: self.tokens })
    }
}

impl Cached for Gpu {
    fn layers(cache: &mut KvCache, _: usize) -> Result<Vec<Self::Cache<'_>>> {
        match &cache.storage {
            Storage::Gpu(layers) => Ok(layers.iter().collect()),
            Storage::Cpu(..) => bail!("the cache is that of a decoder on the CPU"),
        }
    }
}

impl KvCache {
    /// Room for sequences, with values like those of `like`.
    pub(super) fn new(
        backend: &AnyBackend,
        layers: impl Iterator<Item = Past>,
        heads: Heads,
        CacheCapacity { rows, slots, added }: CacheCapacity,
        like: &Tensor,
    ) -> Result<Self> {
        let (mut lent, mut workspace) = (Vec::new(), None);
        let (most, mut allocated) = (slots, slots);
        let storage = match backend {
            AnyBackend::Cpu(cpu) => {
                let is_half = cpu.rounds_keys;
                if added.is_some() {
                    lent = vec![None; rows];
                }
                let capacity =
                    added.map_or(slots, |added| KeyLayout::after_others(added).min(slots));
                let layer = |past: Past| {
                    let layout = match past {
                        Past::All => RowLayout::Keys(KeyLayout::new(heads, capacity, is_half)),
                        Past::Window(window) => {
                            RowLayout::Keys(KeyLayout::sliding(heads, slots, window, is_half))
                        }
                        Past::State(sizes) => RowLayout::State(sizes),
                    };
                    (layout, layout.sizes().map(|size| vec![0f32; rows * size]))
                };
                Storage::Cpu(layers.map(layer).collect())
            }
            AnyBackend::Gpu(_) => {
                // Where tokens are added one by one there is room for the first of them: most completions end early.
                allocated = added.map_or(slots, |added| slots - added + added.min(FIRST_TOKENS));
                let (device, slots) = (like.device(), allocated);
                workspace = added.and_then(|_| Workspace::new(device, rows));
                let layer = |past: Past| match past {
                    Past::State(sizes) => {
                        let [state, past] = sizes.state();
                        // States sum over all tokens, in f32.
                        let state = Tensor::zeros((rows, state), DType::F32, device)?;
                        Ok([state, Tensor::zeros((rows, past), like.dtype(), device)?])
                    }
                    Past::All | Past::Window(_) => {
                        let shape = (rows, slots, heads.keys * heads.dim);
                        let empty = || Tensor::zeros(shape, like.dtype(), device);
                        Ok([empty()?, empty()?])
                    }
                };
                Storage::Gpu(layers.map(layer).collect::<Result<_>>()?)
            }
        };
        Ok(Self { storage, slots: allocated, most, lent, workspace })
    }

    /// The memory for a step that adds a token to each of so many rows; none where another pass, or the CPU, needs
    /// none.
    pub(crate) fn workspace(&self, rows: usize) -> Option<&Arc<Workspace>> {
        let workspace = self.workspace.as_ref()?;
        workspace.begin(rows);
        Some(workspace)
    }

    /// Tokens a row has room for now; on a GPU a cache for decoding grows as rows do.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Makes room for rows of so many tokens, up to what the cache was made for, by half as much again at least: what
    /// rows hold is copied, a layer at a time, so that beside the cache one layer is there twice.
    pub(super) fn grow(&mut self, tokens: usize) -> Result<()> {
        let Storage::Gpu(layers) = &mut self.storage else { return Ok(()) };
        if tokens <= self.slots || self.slots == self.most {
            return Ok(());
        }
        // Geometric growth: the copies of all growths are at most twice the last cache.
        let slots = tokens.max(self.slots + self.slots / 2).min(self.most);
        for tensor in layers.iter_mut().flatten().filter(|tensor| tensor.rank() == 3) {
            let (rows, _, width) = tensor.dims3()?;
            let grown = Tensor::zeros((rows, slots, width), tensor.dtype(), tensor.device())?;
            grown.slice_set(tensor, 1, 0)?;
            *tensor = grown;
        }
        self.slots = slots;
        Ok(())
    }

    /// Makes row `to` continue the `tokens` tokens that `row` of another cache was given, without windows.
    ///
    /// On the CPU a cache for decoding reads whole blocks of keys where they are, for all rows that continue the same;
    /// the rest is copied.
    pub fn continue_from(
        &mut self,
        other: &Arc<KvCache>,
        row: usize,
        tokens: usize,
        to: usize,
    ) -> Result<()> {
        self.grow(tokens)?;
        let shared = if self.lent.is_empty() { 0 } else { KeyLayout::whole(tokens) };
        if let Some(lent) = self.lent.get_mut(to) {
            *lent = (shared > 0).then(|| Lent { cache: other.clone(), row, tokens: shared });
        }
        match (&mut self.storage, &other.storage) {
            (Storage::Cpu(layers), Storage::Cpu(others)) => {
                for ((mine, layer), (theirs, other)) in layers.iter_mut().zip(others) {
                    match (&*mine, theirs) {
                        (RowLayout::Keys(mine), RowLayout::Keys(theirs)) => {
                            let first = mine.first_own(tokens, shared);
                            copy((other, theirs, row), (layer, mine, to), first..tokens);
                        }
                        (mine, _) => {
                            for ((state, other), size) in
                                layer.iter_mut().zip(other).zip(mine.sizes())
                            {
                                state[to * size..][..size]
                                    .copy_from_slice(&other[row * size..][..size]);
                            }
                        }
                    }
                }
                Ok(())
            }
            (Storage::Gpu(layers), Storage::Gpu(others)) => {
                for (mine, theirs) in layers.iter().flatten().zip(others.iter().flatten()) {
                    let past = first(theirs, row, tokens)?.contiguous()?;
                    mine.narrow(0, to, 1)?.slice_set(&past, 1, 0)?;
                }
                Ok(())
            }
            _ => bail!("the caches are on different devices"),
        }
    }

    /// Moves row `from`, which was given so many `tokens`, to row `to`.
    pub fn move_row(&mut self, from: usize, to: usize, tokens: usize) -> Result<()> {
        let mut shared = 0;
        if !self.lent.is_empty() {
            self.lent[to] = self.lent[from].take();
            shared = self.lent[to].as_ref().map_or(0, |lent| lent.tokens);
        }
        match &mut self.storage {
            Storage::Cpu(layers) => {
                for (row, values) in layers {
                    match *row {
                        RowLayout::Keys(layout) => {
                            let first = layout.first_own(tokens, shared);
                            let Some(count) = tokens.checked_sub(first) else {
                                bail!("of {tokens} tokens {first} are not in the row");
                            };
                            move_keys(values, &layout, [from, to], count);
                        }
                        RowLayout::State(_) => {
                            for (values, size) in values.iter_mut().zip(row.sizes()) {
                                values.copy_within(from * size..(from + 1) * size, to * size);
                            }
                        }
                    }
                }
            }
            Storage::Gpu(layers) => {
                for tensor in layers.iter().flatten() {
                    let past = first(tensor, from, tokens)?.force_contiguous()?;
                    tensor.narrow(0, to, 1)?.slice_set(&past, 1, 0)?;
                }
            }
        }
        Ok(())
    }
}

/// The first `tokens` slots of a row on a GPU; of a state all there is.
fn first(values: &Tensor, row: usize, tokens: usize) -> Result<Tensor> {
    let values = values.narrow(0, row, 1)?;
    if values.rank() == 3 { values.narrow(1, 0, tokens) } else { Ok(values) }
}

/// Moves the blocks of the first `count` slots of a row to another: what is written to for the first time takes memory.
fn move_keys(parts: &mut [Vec<f32>; 2], layout: &KeyLayout, rows: [usize; 2], count: usize) {
    let words = layout.blocks(0..count).len();
    for part in parts {
        for head in 0..layout.keys {
            let [from, to] = rows.map(|row| row * layout.row() + head * layout.head());
            part.copy_within(from..from + words, to);
        }
    }
}

/// Copies `slots` of a row of one cache to the beginning of a row of another, which may have other room.
fn copy(
    (theirs_parts, theirs, from): (&[Vec<f32>; 2], &KeyLayout, usize),
    (my_parts, mine, to): (&mut [Vec<f32>; 2], &KeyLayout, usize),
    slots: Range<usize>,
) {
    debug_assert_eq!(theirs.is_half, mine.is_half, "caches of one decoder");
    // Whole blocks are copied: what is held begins with one.
    let words = theirs.blocks(slots);
    for (others, heads) in theirs_parts.iter().zip(my_parts) {
        let others = others[from * theirs.row()..][..theirs.row()].chunks_exact(theirs.head());
        let heads = heads[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.head());
        for (heads, other) in heads.zip(others) {
            heads[..words.len()].copy_from_slice(&other[words.clone()]);
        }
    }
}
