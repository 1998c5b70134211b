//! How the keys and values of a row stand in the cache: keys in blocks of `LANES` slots, `[slots / LANES, D, LANES]`
//! for each key-value head, values as they are, `[slots, D]`.
//!
//! Or both are rounded to bfloat16, two to a word: of keys the values `2 i` and `2 i + 1` of a head, `[slots / LANES,
//! D / 2, LANES]`, and of values those of slots `2 i` and `2 i + 1`, `[slots / 2, D]`; the first in the lower bits.

use std::ops::Range;

use half::bf16;

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
    /// Whether keys and values are of bfloat16.
    pub(crate) is_half: bool,
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
    /// Room for up to `tokens` tokens, rounded to bfloat16 where `is_half`. A head has an even number of values, as
    /// rotary embeddings need.
    pub(crate) fn new(heads: Heads, tokens: usize, is_half: bool) -> Self {
        let Heads { queries, keys, dim, scale, rotary_dim: _ } = heads;
        debug_assert!(dim.is_multiple_of(2), "two values to a word");
        Self { queries, keys, dim, slots: padded_slots(tokens), retained: None, is_half, scale }
    }

    /// The same where tokens see the last `window`: what is before them is let go of, some at a time.
    pub(crate) fn sliding(heads: Heads, tokens: usize, window: usize, is_half: bool) -> Self {
        let retained = retained_tokens(window, tokens);
        let all = Self::new(heads, retained, is_half);
        Self { retained: (retained < tokens).then_some(retained), ..all }
    }

    /// Rounds keys or values as a row holds them.
    pub(super) fn round(&self, values: &mut [f32]) {
        if self.is_half {
            values.iter_mut().for_each(|x| *x = f32::from_bits(u32::from(bits(*x)) << 16));
        }
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
                head.copy_within(self.words(gone).., 0);
            }
        }
    }

    /// Where in a head the blocks of these slots stand, the first of which begins a block.
    pub(crate) fn blocks(&self, slots: Range<usize>) -> Range<usize> {
        self.words(slots.start)..self.words(slots.end.next_multiple_of(LANES))
    }

    /// Words that the keys, or the values, of so many slots of a head take: whole blocks.
    fn words(&self, slots: usize) -> usize {
        slots * self.dim / if self.is_half { 2 } else { 1 }
    }

    /// Query heads that share a key-value head.
    pub(crate) fn group(&self) -> usize {
        self.queries / self.keys
    }

    /// Words that a key-value head has in a row, of its keys or of its values.
    pub(crate) fn head(&self) -> usize {
        self.words(self.slots)
    }

    /// Words that a row of the cache has for its keys, and as many for its values.
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
        let heads = heads.zip(v.chunks_exact(self.dim).zip(values.chunks_exact_mut(self.head())));
        for ((k, keys), (v, values)) in heads {
            if self.is_half {
                put_half_key(keys, slot, k);
                put_half_value(values, slot, v);
            } else {
                put_key(keys, slot, k);
                values[slot * self.dim..][..self.dim].copy_from_slice(v);
            }
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

/// The bits of the nearest bfloat16.
#[inline(always)]
fn bits(x: f32) -> u16 {
    bf16::from_f32(x).to_bits()
}

/// Puts a key `[D]`, rounded, into a slot of its head's keys.
#[inline(always)]
fn put_half_key(keys: &mut [f32], slot: usize, key: &[f32]) {
    let start = slot / LANES * LANES * (key.len() / 2) + slot % LANES;
    for (word, pair) in keys[start..].iter_mut().step_by(LANES).zip(key.chunks_exact(2)) {
        *word = f32::from_bits(u32::from(bits(pair[0])) | u32::from(bits(pair[1])) << 16);
    }
}

/// Puts a value `[D]`, rounded, into a slot of its head's values.
#[inline(always)]
fn put_half_value(values: &mut [f32], slot: usize, value: &[f32]) {
    let (start, shift) = (slot / 2 * value.len(), slot % 2 * 16);
    for (word, x) in values[start..].iter_mut().zip(value) {
        let other = word.to_bits() & !(0xffff << shift);
        *word = f32::from_bits(other | u32::from(bits(*x)) << shift);
    }
}

/// The value of a word at an even place, the lower one, or at an odd one.
#[inline(always)]
pub(super) fn half_of(word: f32, place: usize) -> f32 {
    f32::from_bits(word.to_bits() >> (place % 2 * 16) << 16)
}

/// Lines of words widened, each to the line of their lower values and that of their upper ones.
pub(super) fn widened(words: &[f32], line: usize) -> Vec<f32> {
    let lines = words.chunks_exact(line).flat_map(|words| [(words, 0), (words, 1)]);
    lines.flat_map(|(words, place)| words.iter().map(move |word| half_of(*word, place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_keys_and_values_widen_to_their_rounded_values() {
        let heads = Heads { queries: 2, keys: 2, dim: 6, rotary_dim: 6, scale: 1.0 };
        let layout = KeyLayout::new(heads, 19, true);
        assert_eq!((layout.slots, layout.row()), (32, 2 * 32 * 6 / 2));
        let [mut keys, mut values] = [0, 1].map(|_| vec![f32::NAN; layout.row()]);
        let token = |slot: usize| -> Vec<f32> {
            (0..12).map(|i| ((slot * 12 + i) as f32 * 0.7).sin() * 1.0001).collect()
        };
        // In no order: each takes half of its words.
        for slot in (0..19).rev() {
            let (k, v) = (token(slot), token(slot + 100));
            layout.store(slot, (&k, &v), (&mut keys, &mut values));
        }
        for head in 0..2 {
            let range = head * layout.head()..(head + 1) * layout.head();
            for (words, line, offset) in [(&keys, LANES, 0), (&values, 6, 100)] {
                let wide = widened(&words[range.clone()], line);
                for slot in 0..19 {
                    let mut exact = token(slot + offset);
                    layout.round(&mut exact);
                    let at = |d: usize| match line {
                        LANES => slot / LANES * LANES * 6 + d * LANES + slot % LANES,
                        _ => slot * 6 + d,
                    };
                    let ours: Vec<f32> = (0..6).map(|d| wide[at(d)]).collect();
                    assert_eq!(ours, exact[head * 6..][..6], "slot {slot} of head {head}");
                    assert_ne!(ours, token(slot + offset)[head * 6..][..6]);
                }
            }
        }
    }
}
