//! The tokens of a pass on the CPU, and attention over them.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::super::packed::{KeyRow, VisibleKeys};
use super::super::{Angles, Buffer, Heads, PackedSequences, Pool};
use super::by_rows;
use super::key_layout::KeyLayout;
use super::slots::{Beginning, Rows, beginning};

/// Where the tokens of a pass are, and what they see.
pub(crate) struct Pass {
    pub(crate) rows: Vec<KeyRow>,
    /// The keys that each token sees.
    seen: Vec<VisibleKeys>,
    /// Of every rotary embedding.
    angles: Vec<Angles>,
    /// Pairs of a head's values that turn.
    pairs: usize,
    pub(crate) layout: KeyLayout,
}

impl Pass {
    pub(super) fn new(
        packed: &PackedSequences,
        heads: Heads,
        angles: Vec<Angles>,
        slots: Option<usize>,
        rounds_keys: bool,
    ) -> Result<Self> {
        let longest = packed.longest();
        let slots = slots.unwrap_or(longest);
        if longest > slots {
            bail!("{longest} tokens do not fit a cache of {slots} slots");
        }
        let (rows, seen) = packed.rows();
        let (pairs, layout) = (heads.rotary_dim / 2, KeyLayout::new(heads, slots, rounds_keys));
        Ok(Self { rows, seen, angles, pairs, layout })
    }

    pub(crate) fn tokens(&self) -> usize {
        self.seen.len()
    }

    /// The `rope`th angles of token `index`.
    #[inline(always)]
    pub(super) fn angles(&self, rope: usize, index: usize) -> (&[f32], &[f32]) {
        let range = index * self.pairs..(index + 1) * self.pairs;
        let Angles { cos, sin } = &self.angles[rope];
        (&cos[range.clone()], &sin[range])
    }

    /// The tokens of some of its rows, none of which shares any with another.
    pub(crate) fn tokens_of(&self, rows: Range<usize>) -> Range<usize> {
        self.rows[rows.start].tokens.start..self.rows[rows.end - 1].tokens.end
    }

    /// Some of its rows as a pass of their own.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        let tokens = self.tokens_of(rows.clone());
        let pairs = self.pairs;
        let slice = |all: &[f32]| all[tokens.start * pairs..tokens.end * pairs].to_vec();
        let angles = |angles: &Angles| Angles { cos: slice(&angles.cos), sin: slice(&angles.sin) };
        let shifted = |row: &KeyRow| KeyRow {
            tokens: row.tokens.start - tokens.start..row.tokens.end - tokens.start,
            ..row.clone()
        };
        let seen = |seen: &VisibleKeys| VisibleKeys { row: seen.row - rows.start, ..*seen };
        Self {
            rows: self.rows[rows.clone()].iter().map(shifted).collect(),
            seen: self.seen[tokens.clone()].iter().map(seen).collect(),
            angles: self.angles.iter().map(angles).collect(),
            pairs,
            layout: self.layout,
        }
    }

    /// Puts keys and values `[N, K * D]` into the slots of their rows, after what these read elsewhere; those of a
    /// prefix into the rows of all its suffixes.
    ///
    /// Rows that let go of tokens take one at a time, since the first of several might see what the last makes go.
    pub(super) fn store(
        &self,
        [k, v]: [&[f32]; 2],
        [keys, values]: [&mut [f32]; 2],
        layout: KeyLayout,
        beginnings: &[Option<Beginning<'_>>],
        is_parallel: bool,
    ) -> Result<()> {
        let goes =
            |row: &KeyRow| row.tokens.len() > 1 && layout.first(row.past + row.tokens.len()) > 0;
        if self.rows.iter().any(goes) {
            bail!("a cache of windows takes one token at a time");
        }
        // Of tokens that are not in the row itself: let go of, or elsewhere.
        let before = |index: usize| {
            let row: &KeyRow = &self.rows[index];
            let shared = beginning(beginnings, index).map_or(0, |beginning| beginning.tokens);
            layout.first(row.past + row.tokens.len()) + shared
        };
        let fits = |(index, row): (usize, &KeyRow)| {
            let before = before(index);
            before <= row.past && row.past + row.tokens.len() <= before + layout.slots
        };
        if !self.rows.iter().enumerate().all(fits) {
            bail!("a row of the cache has no room for what is added to it");
        }
        let width = layout.keys * layout.dim;
        let fill = |index: usize, keys: &mut [f32], values: &mut [f32]| {
            let row = &self.rows[index];
            if row.tokens.len() == 1 {
                layout.evict(row.past, keys, values);
            }
            let mut put = |slot: usize, token: usize| {
                let range = token * width..(token + 1) * width;
                layout.store(slot, (&k[range.clone()], &v[range]), (&mut *keys, &mut *values));
            };
            row.prefix.clone().enumerate().for_each(|(slot, token)| put(slot, token));
            let slot = row.past - before(index);
            row.tokens.clone().enumerate().for_each(|(index, token)| put(slot + index, token));
        };
        let (size, rows) = (layout.row(), 0..self.rows.len());
        if is_parallel {
            let slots = keys.par_chunks_mut(size).zip(values.par_chunks_mut(size));
            let each = rows.into_par_iter().zip(slots).with_min_len(8);
            each.for_each(|(index, (keys, values))| fill(index, keys, values));
        } else {
            let slots = keys.chunks_mut(size).zip(values.chunks_mut(size));
            rows.zip(slots).for_each(|(index, (keys, values))| fill(index, keys, values));
        }
        Ok(())
    }

    /// Attends from every token's queries to what it sees of the slots, the last `window` or all.
    pub(super) fn attend(
        &self,
        window: Option<usize>,
        q: &[f32],
        rows: Rows<'_>,
        out: &mut [f32],
        is_parallel: bool,
    ) {
        let layout = rows.layout;
        let (width, wide) = (layout.queries * layout.dim, layout.group() * layout.dim);
        let window = window.unwrap_or(usize::MAX);
        // Tokens whose rows share a beginning follow each other, so that its keys and values stay in the caches.
        let order = self.order(rows);
        by_rows(is_parallel, out, width, |first, part| {
            let mut weights = Vec::new();
            // A head's keys stay in the nearest caches for all tokens that look at them.
            for head in 0..layout.keys {
                let columns = head * wide..(head + 1) * wide;
                for (index, out) in part.chunks_exact_mut(width).enumerate() {
                    let token = order.as_ref().map_or(first + index, |order| order[first + index]);
                    let VisibleKeys { row, count } = self.seen[token];
                    let q = &q[token * width..][..width][columns.clone()];
                    // In a row that evicts, slot 0 holds token `gone`.
                    let gone = layout.first(count);
                    let seen = count.saturating_sub(window) - gone..count - gone;
                    let parts = rows.of_head(row, head);
                    layout.attend(q, &parts, seen, &mut weights, &mut out[columns.clone()]);
                }
            }
        });
        if let Some(order) = order {
            let by_order = out.to_vec();
            for (by_order, token) in by_order.chunks_exact(width).zip(order) {
                out[token * width..][..width].copy_from_slice(by_order);
            }
        }
    }

    /// The tokens such that those of rows with the same beginning follow each other; `None` where they do.
    fn order(&self, rows: Rows<'_>) -> Option<Vec<usize>> {
        let beginning_of = |token: usize| {
            let beginning = beginning(rows.beginnings, self.seen[token].row);
            beginning.map(|beginning| beginning.parts[0].as_ptr())
        };
        let tokens = 0..self.tokens();
        if tokens.clone().is_sorted_by_key(beginning_of) {
            return None;
        }
        let mut order: Vec<usize> = tokens.collect();
        order.sort_by_key(|token| beginning_of(*token));
        Some(order)
    }

    /// The gradients of queries, keys and values from that of what attention gathered, where no cache was used. Where
    /// keys and values are rounded, gradients pass the rounding as they are.
    pub(super) fn attend_backward(
        &self,
        window: Option<usize>,
        [q, k, v]: [&[f32]; 3],
        grad: &[f32],
        pool: &Arc<Pool>,
    ) -> [Buffer; 3] {
        let layout = self.layout;
        let (queries, keys) = (layout.queries * layout.dim, layout.keys * layout.dim);
        let (dim, wide) = (layout.dim, layout.group() * layout.dim);
        let (runs, window) = (self.runs(), window.unwrap_or(usize::MAX));
        // One task per run and key-value head, on copies of their columns: suffixes of one prefix add to the same dk
        // and dv, and parallel sums into them would have no order.
        let parts: Vec<[Vec<f32>; 3]> = (0..runs.len() * layout.keys)
            .into_par_iter()
            .map(|index| {
                let (run, head) = (&runs[index / layout.keys], index % layout.keys);
                let of_suffix = |values, width, count| {
                    columns(values, width, run.tokens.clone(), head * count, count)
                };
                let seen = |values| {
                    let mut seen = columns(values, keys, run.prefix.clone(), head * dim, dim);
                    seen.extend(of_suffix(values, keys, dim));
                    layout.round(&mut seen);
                    seen
                };
                // A run's own queries, and all keys that they see: those of its prefix first.
                let (q, grad) = (of_suffix(q, queries, wide), of_suffix(grad, queries, wide));
                let (k, v) = (seen(k), seen(v));
                let mut gradients = [vec![0f32; q.len()], vec![0f32; k.len()], vec![0f32; v.len()]];
                layout.gradients(
                    run.prefix.len(),
                    window,
                    [&q, &k, &v, &grad],
                    gradients.each_mut().map(Vec::as_mut_slice),
                );
                gradients
            })
            .collect();
        // One task per head: the gradients that suffixes add to their prefix are summed in their order.
        let sums: Vec<[Vec<f32>; 2]> = (0..layout.keys)
            .into_par_iter()
            .map(|head| {
                let mut sums = [0, 1].map(|_| vec![0f32; self.tokens() * dim]);
                for (index, run) in runs.iter().enumerate() {
                    let [_, dk, dv] = &parts[index * layout.keys + head];
                    let tokens = run.prefix.clone().chain(run.tokens.clone());
                    for (sums, grads) in sums.iter_mut().zip([dk, dv]) {
                        for (token, grad) in tokens.clone().zip(grads.chunks_exact(dim)) {
                            let sums_of_token = &mut sums[token * dim..][..dim];
                            sums_of_token.iter_mut().zip(grad).for_each(|(sum, x)| *sum += x);
                        }
                    }
                }
                sums
            })
            .collect();
        let mut dq = pool.take(self.tokens() * queries);
        for (index, run) in runs.iter().enumerate() {
            for head in 0..layout.keys {
                let gradients = &parts[index * layout.keys + head][0];
                for (token, gradients) in run.tokens.clone().zip(gradients.chunks_exact(wide)) {
                    dq[token * queries + head * wide..][..wide].copy_from_slice(gradients);
                }
            }
        }
        let [dk, dv] = [0, 1].map(|which| {
            let mut out = pool.take(self.tokens() * keys);
            by_rows(true, &mut out, keys, |first, part| {
                for (index, row) in part.chunks_exact_mut(keys).enumerate() {
                    for (head, sums) in sums.iter().enumerate() {
                        let sums_of_head = &sums[which][(first + index) * dim..][..dim];
                        row[head * dim..][..dim].copy_from_slice(sums_of_head);
                    }
                }
            });
            out
        });
        [dq, dk, dv]
    }

    /// Tokens that follow each other and the prefix that they continue.
    pub(super) fn runs(&self) -> Vec<KeyRow> {
        let mut runs: Vec<KeyRow> = Vec::with_capacity(self.rows.len());
        let mut last = 0..0;
        for row in &self.rows {
            if !row.prefix.is_empty() && row.prefix != last {
                last = row.prefix.clone();
                runs.push(KeyRow { prefix: 0..0, tokens: row.prefix.clone(), past: 0 });
            }
            runs.push(row.clone());
        }
        runs
    }
}

/// The columns `at..at + count` of some rows of `width`.
fn columns(values: &[f32], width: usize, rows: Range<usize>, at: usize, count: usize) -> Vec<f32> {
    let rows = values[rows.start * width..rows.end * width].chunks_exact(width);
    rows.flat_map(|row| row[at..at + count].iter().copied()).collect()
}
