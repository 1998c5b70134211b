//! Which rank holds the optimizer's state of which elements (ZeRO stage 1, Rajbhandari et al., arXiv 1910.02054), and
//! what ranks send each other for it.
//!
//! A shard is a range of all elements, weights in the order of their names. It begins at a block of [`BLOCK`] elements
//! of a weight, so that a block's squares are summed on one rank as they are where nothing is sharded: the norm of the
//! whole gradient has the same bits, and no rank needs the sums of another's part. Gradients are summed where they are
//! used and the new weights gathered, which together sends as much as gradients summed for all.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Result, ensure};
use candle_core::{Tensor, Var};
use tealight_gpu::counts::{download, upload};

use tealight_nn::backend::cpu::adamw::SQUARES;
use tealight_nn::policy::GradAccumulator;
use tealight_system::ranks::{CHUNK, Ranks};

/// Elements of a weight that belong to one rank.
const BLOCK: usize = SQUARES;
// On a GPU as many squares are summed at a time.
const _: () = assert!(BLOCK == tealight_gpu::kernels::SQUARES);

/// Some elements of one weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The weight's name.
    pub(super) name: String,
    /// Its elements.
    pub(super) range: Range<usize>,
}

impl Piece {
    /// Its elements of a tensor with as many as the weight, as a flat view.
    pub(super) fn of(&self, tensor: &Tensor) -> candle_core::Result<Tensor> {
        flat(tensor)?.narrow(0, self.range.start, self.range.len())
    }
}

/// The shards of all ranks.
#[derive(Clone)]
pub(super) struct Shards {
    ranks: Ranks,
    /// By rank, in the order of elements; of a weight at most one piece.
    pieces: Vec<Vec<Piece>>,
}

impl Shards {
    /// Of `weights`, as equal as whole blocks are.
    pub(super) fn new(weights: &BTreeMap<String, Var>, ranks: &Ranks) -> Self {
        let counts = weights.iter().map(|(name, weight)| (name.as_str(), weight.elem_count()));
        Self { ranks: ranks.clone(), pieces: split(&counts.collect::<Vec<_>>(), ranks.size()) }
    }

    /// Whether there are several.
    pub(super) fn are_several(&self) -> bool {
        self.ranks.size() > 1
    }

    /// This rank's.
    pub(super) fn own(&self) -> &[Piece] {
        &self.pieces[self.ranks.rank()]
    }

    /// Puts the sums over all ranks in place of the gradients of this rank's shard; those of other shards remain this
    /// rank's own, and nobody reads them. `given` are the weights that have a gradient on any rank.
    pub(super) fn reduce(&self, grads: &mut GradAccumulator, given: &[(&str, &Var)]) -> Result<()> {
        grads.insert_zeros(given)?;
        let pieces = self.pieces_of(|name| given.iter().any(|(given, _)| *given == name));
        for span in self.rounds(&pieces) {
            let mut all = vec![0.0; span.len() * pieces.len()];
            for (pieces, values) in pieces.iter().zip(all.chunks_mut(span.len())) {
                for (name, range, place) in within(pieces, &span) {
                    grads.read(name, range, &mut values[place])?;
                }
            }
            let mut sums = vec![0.0; span.len()];
            self.ranks.reduce_scatter(&all, &mut sums)?;
            for (name, range, place) in within(&pieces[self.ranks.rank()], &span) {
                grads.write(name, range.start, &sums[place])?;
            }
        }
        Ok(())
    }

    /// Everyone's numbers, one for each block of this rank's shard, in the order of blocks.
    pub(super) fn gather_blocks(&self, own: Vec<f64>) -> Result<Vec<f64>> {
        Ok(self.ranks.gather_numbers(own)?.concat())
    }

    /// Gives all ranks the weights of every shard, each from the rank that holds it, of weights that were `changed`.
    pub(super) fn gather(
        &self,
        weights: &BTreeMap<String, Var>,
        changed: impl Fn(&str) -> bool,
    ) -> Result<()> {
        if !self.are_several() {
            return Ok(());
        }
        let pieces = self.pieces_of(changed);
        let flat = |name: &str| flat(&weights[name].as_detached_tensor());
        for span in self.rounds(&pieces) {
            let mut own = vec![0.0; span.len()];
            for (name, range, place) in within(&pieces[self.ranks.rank()], &span) {
                let part = flat(name)?.narrow(0, range.start, range.len())?;
                own[place].copy_from_slice(&download::<f32>(&part)?);
            }
            let mut all = vec![0.0; span.len() * pieces.len()];
            self.ranks.concatenate(&own, &mut all)?;
            for (rank, values) in all.chunks(span.len()).enumerate() {
                if rank == self.ranks.rank() {
                    continue;
                }
                for (name, range, place) in within(&pieces[rank], &span) {
                    let weight = flat(name)?;
                    let values = upload(values[place].to_vec(), range.len(), weight.device())?;
                    weight.slice_set(&values, 0, range.start)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes of `count` elements of a weight's moment, of which this rank has those of `own`: all of them on the
    /// first rank, none on the others.
    pub(super) fn gather_to_first(
        &self,
        count: usize,
        own: Option<(&Piece, &Tensor)>,
    ) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        if self.ranks.is_first() {
            all.reserve_exact(count * size_of::<f32>());
        }
        for start in (0..count).step_by(CHUNK) {
            let mut local = Vec::new();
            if let Some((piece, moment)) = own {
                let from = piece.range.start.max(start);
                let to = piece.range.end.min(start + CHUNK);
                if from < to {
                    let part = moment.narrow(0, from - piece.range.start, to - from)?;
                    local = download::<f32>(&part)?;
                }
            }
            for values in self.ranks.gather_to_first(local)? {
                all.extend_from_slice(bytemuck::cast_slice(&values));
            }
        }
        if self.ranks.is_first() {
            ensure!(all.len() == count * size_of::<f32>(), "a rank has another shard of the state");
        }
        Ok(all)
    }

    /// The pieces of weights that `of` holds for, by rank.
    fn pieces_of(&self, of: impl Fn(&str) -> bool) -> Vec<Vec<&Piece>> {
        let shards = self.pieces.iter();
        shards.map(|pieces| pieces.iter().filter(|piece| of(&piece.name)).collect()).collect()
    }

    /// Ranges of the elements of each rank's `pieces`, one after the other, that are exchanged at a time.
    fn rounds(&self, pieces: &[Vec<&Piece>]) -> Vec<Range<usize>> {
        let count = |pieces: &Vec<&Piece>| pieces.iter().map(|piece| piece.range.len()).sum();
        let most: usize = pieces.iter().map(count).max().unwrap_or(0);
        let part = (CHUNK / self.ranks.size()).max(1);
        (0..most).step_by(part).map(|start| start..most.min(start + part)).collect()
    }
}

/// A flat view of a tensor, over the same memory.
fn flat(tensor: &Tensor) -> candle_core::Result<Tensor> {
    if !tensor.is_contiguous() {
        candle_core::bail!("a weight of shape {:?} is not contiguous", tensor.shape());
    }
    tensor.flatten_all()
}

/// The pieces of each of so many ranks, of weights with these names and numbers of elements.
fn split(counts: &[(&str, usize)], ranks: usize) -> Vec<Vec<Piece>> {
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let begin =
        |rank: usize| block_at(counts, (total as u128 * rank as u128 / ranks as u128) as usize);
    let shard = |rank: usize| {
        let ((first, from), (last, to)) = (begin(rank), begin(rank + 1));
        let pieces = counts.iter().enumerate().map(|(index, (name, count))| {
            let start = if index < first {
                *count
            } else if index == first {
                from
            } else {
                0
            };
            let end = if index < last {
                *count
            } else if index == last {
                to
            } else {
                0
            };
            Piece { name: (*name).to_owned(), range: start..end.max(start) }
        });
        pieces.filter(|piece| !piece.range.is_empty()).collect()
    };
    (0..ranks).map(shard).collect()
}

/// The first block that begins at an element of all weights or after it: the index of its weight, and where it begins
/// there.
fn block_at(counts: &[(&str, usize)], mut element: usize) -> (usize, usize) {
    for (index, (_, count)) in counts.iter().enumerate() {
        if element < *count {
            let start = element.next_multiple_of(BLOCK);
            return if start < *count { (index, start) } else { (index + 1, 0) };
        }
        element -= count;
    }
    (counts.len(), 0)
}

/// The elements of `pieces`, one after the other, that are numbers `span` of them: the weight's name, its elements, and
/// where in the span they are.
fn within<'a>(
    pieces: &[&'a Piece],
    span: &Range<usize>,
) -> Vec<(&'a str, Range<usize>, Range<usize>)> {
    let mut first = 0;
    let mut found = Vec::new();
    for piece in pieces {
        let from = span.start.max(first);
        let to = span.end.min(first + piece.range.len());
        if from < to {
            let shift = piece.range.start;
            let range = shift + from - first..shift + to - first;
            found.push((piece.name.as_str(), range, from - span.start..to - span.start));
        }
        first += piece.range.len();
    }
    found
}

#[cfg(test)]
mod tests;
