//! The tokens of a pass on a GPU, and what attention sees of them.

use std::sync::OnceLock;

use candle_core::{Result, bail};
use tealight_gpu::kernels::{self, DeltaRun, Run, Runs, Taps};
use tealight_gpu::workspace::{Array, Destination};

use super::super::{Angles, Heads, PackedSequences, Segment};

/// Where the tokens of a pass are, on the device.
pub(crate) struct Pass {
    pub(super) runs: Runs,
    /// Cosines and sines of every rotary embedding, `[N, rotary_dim / 2]`.
    pub(super) angles: Vec<[Array; 2]>,
    pub(super) heads: kernels::Heads,
    /// The rows of the cache that the tokens' keys and values go to.
    pub(super) slots: Option<Array>,
    packed: PackedSequences,
    has_cache: bool,
    /// The runs of a delta rule and the sources of its convolution, once a layer has asked.
    delta_runs: OnceLock<Vec<DeltaRun>>,
    taps: OnceLock<Taps>,
}

impl Pass {
    pub(super) fn new(
        packed: &PackedSequences,
        heads: Heads,
        angles: Vec<Angles>,
        slots: Option<usize>,
        to: Destination<'_>,
    ) -> Result<Self> {
        let shape = (packed.tokens(), heads.rotary_dim / 2);
        let here = |values| to.upload::<f32>(values, shape);
        let angles = angles.into_iter().map(|Angles { cos, sin }| Ok([here(cos)?, here(sin)?]));
        let angles = angles.collect::<Result<_>>()?;
        let (runs, slots) = match slots {
            None => (runs_of(packed), None),
            Some(slots) => {
                if packed.longest() > slots {
                    bail!("{} tokens do not fit a cache of {slots} slots", packed.longest());
                }
                let rows = packed.all().iter().enumerate();
                let slot_of = |(row, segment): (usize, &Segment)| {
                    let slots_of_row = segment.past..segment.past + segment.tokens;
                    slots_of_row.map(move |slot| (row * slots + slot) as u32)
                };
                let indices: Vec<u32> = rows.flat_map(slot_of).collect();
                let count = indices.len();
                (runs_in_cache(packed, slots), Some(to.upload(indices, count)?))
            }
        };
        let Heads { queries, keys, dim, scale, rotary_dim: _ } = heads;
        let heads = kernels::Heads { queries, keys, dim };
        let scale = f64::from(scale);
        // Tokens that are added to a cache have no gradient.
        let runs = match slots {
            None => Runs::new(&runs, heads, scale)?,
            Some(_) => Runs::forward_only(&runs, heads, scale)?,
        };
        let (has_cache, packed) = (slots.is_some(), packed.clone());
        let (delta_runs, taps) = (OnceLock::new(), OnceLock::new());
        Ok(Pass { runs, angles, heads, slots, delta_runs, packed, has_cache, taps })
    }

    /// The runs of the delta rule.
    pub(super) fn delta_runs(&self) -> &[DeltaRun] {
        self.delta_runs.get_or_init(|| delta_runs(&self.packed, self.has_cache))
    }

    /// The sources of a convolution of so many taps; all of a model have as many.
    pub(super) fn taps(&self, count: usize, to: Destination<'_>) -> Result<&Taps> {
        if let Some(taps) = self.taps.get() {
            return Ok(taps);
        }
        let taps = Taps::new(self.delta_runs(), self.packed.tokens(), count, self.has_cache, to)?;
        Ok(self.taps.get_or_init(|| taps))
    }
}

/// The runs of a delta rule: segments, each after its prefix or what the cache holds of its row.
fn delta_runs(packed: &PackedSequences, has_cache: bool) -> Vec<DeltaRun> {
    let run = |(index, segment): (usize, &Segment)| DeltaRun {
        tokens: packed.range(index),
        after: segment.prefix,
        goes_on: has_cache && segment.past > 0,
    };
    packed.all().iter().enumerate().map(run).collect()
}

/// The runs of attention over whole sequences: a sequence sees itself and its prefix.
fn runs_of(packed: &PackedSequences) -> Vec<Run> {
    let run = |(index, segment): (usize, &Segment)| {
        let tokens = packed.range(index);
        let others = packed.all()[index + 1..].iter();
        let suffixes = others.take_while(|other| other.prefix == Some(index)).count();
        let prefix = segment.prefix.map_or(tokens.clone(), |prefix| packed.range(prefix));
        Run {
            first: tokens.start,
            tokens: segment.tokens,
            sees: segment.past + 1,
            start: prefix.start,
            split: prefix.len(),
            rest: tokens.start,
            until: packed.range(index + suffixes).end,
        }
    };
    packed.all().iter().enumerate().map(run).collect()
}

/// The runs of attention over a cache: a sequence sees its row.
fn runs_in_cache(packed: &PackedSequences, slots: usize) -> Vec<Run> {
    let run = |(row, segment): (usize, &Segment)| Run {
        first: packed.range(row).start,
        tokens: segment.tokens,
        sees: segment.past + 1,
        start: row * slots,
        split: slots,
        rest: 0,
        until: packed.range(row).end,
    };
    packed.all().iter().enumerate().map(run).collect()
}
