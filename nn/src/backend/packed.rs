//! The tokens of one pass: sequences packed one after the other, without padding.
//!
//! A segment may go on from what a row of a cache holds, or from an earlier segment of the same pass: the
//! completions of a group share their prompt that way, which is computed once.

use std::ops::Range;

/// Tokens that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Number of tokens.
    pub tokens: usize,
    /// Tokens before the first of them.
    pub past: usize,
    /// The segment of this pass that holds those; it continues none itself. Without one they are in the cache, in
    /// the row with this segment's number.
    pub prefix: Option<usize>,
}

/// All segments of a pass; token after token they are its batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedSequences {
    all: Vec<Segment>,
    /// The place of each segment's first token, and the number of all tokens.
    starts: Vec<usize>,
}

/// A row of keys: a segment that no other continues, after what it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRow {
    /// The tokens before its own, where they are in the same pass.
    pub(crate) prefix: Range<usize>,
    pub(crate) tokens: Range<usize>,
    /// Where among the row's keys its own begin.
    pub(crate) past: usize,
}

/// The keys that a token sees: the first `count` of `row`, the last of them its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VisibleKeys {
    pub(crate) row: usize,
    pub(crate) count: usize,
}

impl PackedSequences {
    /// Whole sequences of these lengths.
    pub fn from_start(lengths: impl IntoIterator<Item = usize>) -> Self {
        Self::of(lengths.into_iter().map(|tokens| Segment { tokens, past: 0, prefix: None }))
    }

    /// One token each after as many as these in the cache.
    pub fn after(pasts: impl IntoIterator<Item = usize>) -> Self {
        Self::of(pasts.into_iter().map(|past| Segment { tokens: 1, past, prefix: None }))
    }

    /// `tokens` tokens after `past` in the first row of the cache: a piece of one sequence.
    pub fn piece(past: usize, tokens: usize) -> Self {
        Self::of([Segment { tokens, past, prefix: None }])
    }

    fn of(segments: impl IntoIterator<Item = Segment>) -> Self {
        let mut packed = Self::default();
        segments.into_iter().for_each(|segment| packed.push(segment));
        packed
    }

    fn push(&mut self, segment: Segment) {
        let start = self.tokens();
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.starts.push(start + segment.tokens);
        self.all.push(segment);
    }

    /// Adds `tokens` tokens that begin a sequence; returns the segment's number.
    pub fn push_prefix(&mut self, tokens: usize) -> usize {
        self.push(Segment { tokens, past: 0, prefix: None });
        self.all.len() - 1
    }

    /// Adds `tokens` tokens that continue the whole of segment `prefix`, the last that began a sequence.
    ///
    /// # Panics
    /// Where another sequence has begun since.
    pub fn push_suffix(&mut self, prefix: usize, tokens: usize) -> usize {
        let first = self.all[prefix];
        let others = &self.all[prefix + 1..];
        assert!(first.prefix.is_none() && first.past == 0, "a suffix continues what begins");
        assert!(
            others.last().is_none_or(|last| last.prefix == Some(prefix)),
            "suffixes follow their prefix"
        );
        self.push(Segment { tokens, past: first.tokens, prefix: Some(prefix) });
        self.all.len() - 1
    }

    /// Tokens of all segments.
    pub fn tokens(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The segments, in order.
    pub fn all(&self) -> &[Segment] {
        &self.all
    }

    /// The positions of segment `index`'s tokens.
    pub fn range(&self, index: usize) -> Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }

    /// Most tokens that a row of keys comes to.
    pub(crate) fn longest(&self) -> usize {
        self.all.iter().map(|segment| segment.past + segment.tokens).max().unwrap_or(0)
    }

    /// The position of every token in its sequence.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().flat_map(|segment| segment.past..segment.past + segment.tokens)
    }

    /// The rows of keys, and what every token sees of them: a prefix's tokens look at the row of its first
    /// suffix.
    pub(crate) fn rows(&self) -> (Vec<KeyRow>, Vec<VisibleKeys>) {
        let mut row_of = vec![None; self.all.len()];
        let mut rows = Vec::new();
        let mut is_prefix = vec![false; self.all.len()];
        self.all
            .iter()
            .filter_map(|segment| segment.prefix)
            .for_each(|prefix| is_prefix[prefix] = true);
        for (index, segment) in self.all.iter().enumerate().filter(|(index, _)| !is_prefix[*index])
        {
            let prefix = match segment.prefix {
                Some(prefix) => {
                    row_of[prefix].get_or_insert(rows.len());
                    self.range(prefix)
                }
                None => 0..0,
            };
            row_of[index] = Some(rows.len());
            rows.push(KeyRow { prefix, tokens: self.range(index), past: segment.past });
        }
        let seen = self.all.iter().zip(&row_of).flat_map(|(segment, row)| {
            let row = row.expect("every segment has a row of keys");
            (1..=segment.tokens).map(move |token| VisibleKeys { row, count: segment.past + token })
        });
        let seen = seen.collect();
        (rows, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_attend_to_their_prefix_and_themselves() {
        let mut packed = PackedSequences::default();
        let prefix = packed.push_prefix(3);
        packed.push_suffix(prefix, 2);
        packed.push_suffix(prefix, 1);
        packed.push_prefix(2);
        assert_eq!(packed.positions().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 3, 0, 1]);
        let (rows, seen) = packed.rows();
        let row = |prefix, tokens, past| KeyRow { prefix, tokens, past };
        assert_eq!(rows, [row(0..3, 3..5, 3), row(0..3, 5..6, 3), row(0..0, 6..8, 0)]);
        let seen: Vec<_> = seen.iter().map(|seen| (seen.row, seen.count)).collect();
        assert_eq!(seen, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 4), (2, 1), (2, 2)]);
        assert_eq!((packed.tokens(), packed.longest()), (8, 5));
        assert_eq!(PackedSequences::after([4, 0]).rows().1[0], VisibleKeys { row: 0, count: 5 });
    }
}
