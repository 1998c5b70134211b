//! The tokens of one pass: runs of them, one after the other, and what each run continues.
//!
//! Nothing is padded. A run may go on from what a row of a cache holds, or from an earlier run of the same
//! pass: the completions of a group share their prompt that way, which is computed once.

use std::ops::Range;

/// Tokens that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// How many.
    pub tokens: usize,
    /// Tokens before the first of them.
    pub past: usize,
    /// The span of this pass that holds those; it continues none itself. Without one they are in the cache, in
    /// the row with this span's number.
    pub parent: Option<usize>,
}

/// All runs of a pass; token after token they are its batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    all: Vec<Span>,
    /// The place of each span's first token, and the number of all tokens.
    starts: Vec<usize>,
}

/// A row of keys: a span that no other continues, after what it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The tokens before its own, where they are in the same pass.
    pub(super) trunk: Range<usize>,
    /// Its own tokens.
    pub(super) own: Range<usize>,
    /// Where among the row's keys its own begin.
    pub(super) past: usize,
}

/// What a token sees: the first `count` keys of `row`, the last of them its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) row: usize,
    pub(super) count: usize,
}

impl Spans {
    /// Whole sequences of these lengths.
    pub fn from_start(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut spans = Self::default();
        lengths.into_iter().for_each(|tokens| spans.push(Span { tokens, past: 0, parent: None }));
        spans
    }

    /// One token each after as many as these in the cache.
    pub fn after(pasts: impl IntoIterator<Item = usize>) -> Self {
        let mut spans = Self::default();
        pasts.into_iter().for_each(|past| spans.push(Span { tokens: 1, past, parent: None }));
        spans
    }

    fn push(&mut self, span: Span) {
        let start = self.tokens();
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.starts.push(start + span.tokens);
        self.all.push(span);
    }

    /// Adds `tokens` tokens that begin a sequence; returns the number of the span.
    pub fn begin(&mut self, tokens: usize) -> usize {
        self.push(Span { tokens, past: 0, parent: None });
        self.all.len() - 1
    }

    /// Adds `tokens` tokens that go on from the whole of span `parent`, the last that began a sequence.
    pub fn branch(&mut self, parent: usize, tokens: usize) -> usize {
        let trunk = self.all[parent];
        let branches = &self.all[parent + 1..];
        assert!(trunk.parent.is_none() && trunk.past == 0, "branches grow from what begins");
        assert!(
            branches.last().is_none_or(|last| last.parent == Some(parent)),
            "one after another"
        );
        self.push(Span { tokens, past: trunk.tokens, parent: Some(parent) });
        self.all.len() - 1
    }

    /// Tokens of all spans.
    pub fn tokens(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The spans, in order.
    pub fn all(&self) -> &[Span] {
        &self.all
    }

    /// The places of span `index`'s tokens.
    pub fn range(&self, index: usize) -> Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }

    /// Most tokens that a row of keys comes to.
    pub(super) fn longest(&self) -> usize {
        self.all.iter().map(|span| span.past + span.tokens).max().unwrap_or(0)
    }

    /// The position of every token in its sequence.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().flat_map(|span| span.past..span.past + span.tokens)
    }

    /// The rows of keys, and what every token sees of them: a trunk's tokens look at the row of the first
    /// branch.
    pub(super) fn rows(&self) -> (Vec<Row>, Vec<Seen>) {
        let mut row_of = vec![None; self.all.len()];
        let mut rows = Vec::new();
        let mut trunks = vec![false; self.all.len()];
        self.all.iter().filter_map(|span| span.parent).for_each(|parent| trunks[parent] = true);
        for (index, span) in self.all.iter().enumerate().filter(|(index, _)| !trunks[*index]) {
            let trunk = match span.parent {
                Some(parent) => {
                    row_of[parent].get_or_insert(rows.len());
                    self.range(parent)
                }
                None => 0..0,
            };
            row_of[index] = Some(rows.len());
            rows.push(Row { trunk, own: self.range(index), past: span.past });
        }
        let seen = self.all.iter().zip(&row_of).flat_map(|(span, row)| {
            let row = row.expect("every span has a row of keys");
            (1..=span.tokens).map(move |token| Seen { row, count: span.past + token })
        });
        let seen = seen.collect();
        (rows, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_see_their_trunk_and_themselves() {
        let mut spans = Spans::default();
        let trunk = spans.begin(3);
        spans.branch(trunk, 2);
        spans.branch(trunk, 1);
        spans.begin(2);
        assert_eq!(spans.positions().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 3, 0, 1]);
        let (rows, seen) = spans.rows();
        let row = |trunk, own, past| Row { trunk, own, past };
        assert_eq!(rows, [row(0..3, 3..5, 3), row(0..3, 5..6, 3), row(0..0, 6..8, 0)]);
        let seen: Vec<_> = seen.iter().map(|seen| (seen.row, seen.count)).collect();
        assert_eq!(seen, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 4), (2, 1), (2, 2)]);
        assert_eq!((spans.tokens(), spans.longest()), (8, 5));
        assert_eq!(Spans::after([4, 0]).rows().1[0], Seen { row: 0, count: 5 });
    }
}
