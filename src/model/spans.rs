//! Which keys each query sees, for batches whose rows have different lengths.

/// The part of its key slots that each row of a batch uses.
///
/// Query `t` of row `b` stands at slot `first_query[b] + t` and sees the slots from `first_key[b]`
/// up to its own; its position is its slot minus `first_key[b]`. That covers padding on the right
/// (nothing to do: later slots are never seen), padding on the left (`first_key` behind it) and
/// decoding with a cache (`first_query` is the length so far).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// First visible slot, per row.
    pub first_key: Vec<u32>,
    /// Slot of the first query, per row.
    pub first_query: Vec<u32>,
}

impl Spans {
    /// `rows` sequences that begin at slot 0: full forward passes and prefills, padded on the right.
    pub fn from_start(rows: usize) -> Self {
        Self { first_key: vec![0; rows], first_query: vec![0; rows] }
    }

    /// Sequences of which `lengths` tokens are in the cache already.
    pub fn after(lengths: Vec<u32>) -> Self {
        Self { first_key: vec![0; lengths.len()], first_query: lengths }
    }

    /// Sequences padded on the left by `pads` tokens.
    pub fn padded_left(pads: Vec<u32>) -> Self {
        let rows = pads.len();
        Self { first_key: pads, first_query: vec![0; rows] }
    }

    /// Positions `[B * T]` of `queries` tokens a row; those in left padding count as 0.
    pub fn positions(&self, queries: usize) -> Vec<u32> {
        let rows = self.first_key.iter().zip(&self.first_query);
        rows.flat_map(|(key, query)| {
            (0..queries as u32).map(move |t| (query + t).saturating_sub(*key))
        })
        .collect()
    }
}
