//! The cached past of some rows in a layer: in slots of each row, and in a beginning that several rows share.

use std::ops::Range;

use super::super::DeltaSizes;
use super::key_layout::KeyLayout;

/// The past of some rows in a layer.
pub(crate) struct Slots<'a> {
    /// Keys and values; or states, and what the convolution before them still reads.
    pub(crate) parts: [&'a mut [f32]; 2],
    /// How each row holds them.
    pub(crate) layout: RowLayout,
    /// The beginning of the rows' keys and values that another cache holds; none where no row has one.
    pub(crate) beginnings: Vec<Option<Beginning<'a>>>,
}

/// The first keys and values of a row, which other rows read too.
#[derive(Clone, Copy)]
pub(crate) struct Beginning<'a> {
    /// Keys and values of a whole row.
    pub(crate) parts: [&'a [f32]; 2],
    /// Values that a key-value head has there.
    pub(crate) head: usize,
    /// How many tokens, whole blocks of keys.
    pub(crate) tokens: usize,
}

/// The beginning of a row that another cache holds.
pub(super) fn beginning<'a>(
    beginnings: &'a [Option<Beginning<'a>>],
    row: usize,
) -> Option<&'a Beginning<'a>> {
    beginnings.get(row).and_then(Option::as_ref)
}

/// Keys and values of rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) parts: [&'a [f32]; 2],
    pub(super) layout: KeyLayout,
    pub(super) beginnings: &'a [Option<Beginning<'a>>],
}

impl<'a> Rows<'a> {
    pub(super) fn of_head(&self, row: usize, head: usize) -> [KeyValueSlots<'a>; 2] {
        let (layout, beginning) = (self.layout, beginning(self.beginnings, row));
        let first = beginning.map_or(0, |beginning| beginning.tokens);
        let lent = |which: usize| {
            beginning.map_or(&[][..], |beginning| {
                &beginning.parts[which][head * beginning.head..][..beginning.head]
            })
        };
        let values = |which: usize| {
            &self.parts[which][row * layout.row() + head * layout.head()..][..layout.head()]
        };
        let part = |keys, values, slots| KeyValueSlots { keys, values, slots };
        [part(lent(0), lent(1), 0..first), part(values(0), values(1), first..first + layout.slots)]
    }
}

/// Keys and values of one key-value head in some slots of a row, whole blocks.
pub(super) struct KeyValueSlots<'a> {
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
    pub(super) slots: Range<usize>,
}

impl KeyValueSlots<'_> {
    /// Those of some slots that are here, and where among the words of keys or values they stand, two to a word where
    /// `HALF`.
    #[inline(always)]
    pub(super) fn overlap<const HALF: bool>(
        &self,
        slots: &Range<usize>,
        dim: usize,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let range = slots.start.max(self.slots.start)..slots.end.min(self.slots.end);
        let per_word = 1 + usize::from(HALF);
        let (start, end) = (range.start - self.slots.start, range.end - self.slots.start);
        let words = start / per_word * dim..end.div_ceil(per_word) * dim;
        (!range.is_empty()).then_some((range, words))
    }
}

/// How a row of a cache holds what a layer knows of the past.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowLayout {
    /// As keys and values.
    Keys(KeyLayout),
    /// As the state of a delta rule.
    State(DeltaSizes),
}

impl RowLayout {
    /// Values of a row in each of its two parts.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        match self {
            Self::Keys(layout) => [layout.row(); 2],
            Self::State(sizes) => sizes.state(),
        }
    }

    /// Whether a row may read its beginning elsewhere: where it lets go of nothing.
    pub(crate) fn lends(&self) -> bool {
        matches!(self, Self::Keys(layout) if layout.holds_all())
    }
}
