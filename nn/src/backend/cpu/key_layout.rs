//! How the keys and values of a row stand in the cache: keys in blocks of `LANES` slots, `[slots / LANES, D, LANES]`
//! for each key-value head, values as they are, `[slots, D]`.

use std::ops::Range;

use super::super::Heads;

/// How a row of the cache holds keys and values.
#[derive(Debug, Clone, Copy)]
pub struct KeyLayout {
    /// Query heads.
    pub(crate) queries: usize,
    /// Key-value heads; divides the query heads.
    pub(crate) keys: usize,
    /// Values a head.
    pub(crate) dim: usize,
    /// Slots that a row of the cache has room for.
    pub(crate) slots: usize,
    /// Tokens that a row holds at most where it lets go of those before a window.
    retained: Option<usize>,
    /// The factor of products of queries and keys.
    pub(crate) scale: f32,
}

/// Keys that are looked at together.
pub(super) const LANES: usize = 16;

/// Tokens that a row lets go of together, whole blocks of keys: moving the others up is rare then.
const BLOCK: usize = 4 * LANES;

/// Tokens that a row holds of so many, where each sees the last `window`.
pub fn retained_tokens(window: usize, tokens: usize) -> usize {
    window.saturating_add(BLOCK).min(tokens)
}

/// Slots that a row needs for `tokens` tokens: whole blocks of keys.
pub(super) fn padded_slots(tokens: usize) -> usize {
    tokens.next_multiple_of(LANES)
}

impl KeyLayout {
    /// Room for up to `tokens` tokens.
    pub(crate) fn new(heads: Heads, tokens: usize) -> Self {
        let Heads { queries, keys, dim, scale, .. } = heads;
        Self { queries, keys, dim, slots: padded_slots(tokens), retained: None, scale }
    }

    /// The same where tokens see the last `window`: what is before them is let go of, some at a time.
    pub(crate) fn sliding(heads: Heads, tokens: usize, window: usize) -> Self {
        let retained = retained_tokens(window, tokens);
        Self { retained: (retained < tokens).then_some(retained), ..Self::new(heads, retained) }
    }

    /// Whether a row lets go of nothing.
    pub(crate) fn holds_all(&self) -> bool {
        self.retained.is_none()
    }

    /// Of so many tokens, those in whole blocks of keys.
    pub(crate) fn whole(tokens: usize) -> usize {
        tokens / LANES * LANES
    }

    /// Slots for `tokens` tokens after others that are elsewhere, up to a block of keys that is not whole.
    pub fn after_others(tokens: usize) -> usize {
        padded_slots(tokens + LANES - 1)
    }

    /// The first token that a row still holds once it was given so many; at least a window and one more follow.
    #[inline(always)]
    pub(crate) fn first(&self, count: usize) -> usize {
        match self.retained {
            Some(retained) if count > retained => (count - retained).next_multiple_of(BLOCK),
            _ => 0,
        }
    }

    /// The first of so many tokens that stands in the row itself, where the `shared` first are elsewhere if the row
    /// would hold all.
    pub(crate) fn first_own(&self, count: usize, shared: usize) -> usize {
        if self.holds_all() { shared } else { self.first(count) }
    }

    /// Evicts the tokens before the window from a row, so that the token after `count` others fits.
    #[inline(always)]
    pub(crate) fn evict(&self, count: usize, keys: &mut [f32], values: &mut [f32]) {
        let gone = self.first(count + 1) - self.first(count);
        if gone > 0 {
            // Whole blocks of keys.
            for head in [keys, values].into_iter().flat_map(|all| all.chunks_exact_mut(self.head()))
            {
                head.copy_within(gone * self.dim.., 0);
            }
        }
    }

    /// The slots of the blocks that hold these keys, the first of which begins with one.
    pub(crate) fn whole_blocks(slots: Range<usize>) -> Range<usize> {
        slots.start..slots.end.next_multiple_of(LANES)
    }

    /// Query heads that share a key-value head.
    pub(crate) fn group(&self) -> usize {
        self.queries / self.keys
    }

    /// Values that a key-value head has in a row, of its keys or of its values.
    pub(crate) fn head(&self) -> usize {
        self.dim * self.slots
    }

    /// Values that a row of the cache has for its keys, and as many for its values.
    pub(crate) fn row(&self) -> usize {
        self.keys * self.head()
    }

    /// Puts a token's keys and values `[keys, D]` into `slot` of a row's cache.
    #[inline(always)]
    pub(crate) fn store(
        &self,
        slot: usize,
        (k, v): (&[f32], &[f32]),
        (keys, values): (&mut [f32], &mut [f32]),
    ) {
        let heads = k.chunks_exact(self.dim).zip(keys.chunks_exact_mut(self.head()));
        for (k, keys) in heads {
            put_key(keys, slot, k);
        }
        for (head, v) in v.chunks_exact(self.dim).enumerate() {
            values[(head * self.slots + slot) * self.dim..][..self.dim].copy_from_slice(v);
        }
    }
}

/// Puts a key `[D]` into a slot of its head's keys.
#[inline(always)]
pub(super) fn put_key(keys: &mut [f32], slot: usize, key: &[f32]) {
    let dim = key.len();
    let start = slot / LANES * LANES * dim + slot % LANES;
    for (place, x) in keys[start..].iter_mut().step_by(LANES).zip(key) {
        *place = *x;
    }
}
