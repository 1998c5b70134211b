//! Buffers that were given back: memory that is new to a process costs more than what is done with it.

use std::sync::Mutex;

/// Buffers of f32 for whoever needs one next.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<f32>>>);

impl Pool {
    /// A buffer of `count` values, whatever they are: the smallest that is large enough, but none that is
    /// much too large, which another will need.
    pub(crate) fn take(&self, count: usize) -> Vec<f32> {
        let mut all = self.0.lock().expect("no panic while the lock is held");
        let fits = |index: &usize| (count..=count + count / 4).contains(&all[*index].capacity());
        let fits = (0..all.len()).filter(fits);
        let best = fits.min_by_key(|index| all[*index].capacity());
        let mut buffer = best.map_or_else(Vec::new, |index| all.swap_remove(index));
        drop(all);
        buffer.resize(count, 0.0);
        buffer
    }

    /// The same for words of 32 bits.
    pub(crate) fn take_words(&self, count: usize) -> Vec<u32> {
        bytemuck::cast_vec(self.take(count))
    }

    pub(crate) fn give(&self, buffers: impl IntoIterator<Item = Vec<f32>>) {
        let mut all = self.0.lock().expect("no panic while the lock is held");
        all.extend(buffers.into_iter().filter(|buffer| buffer.capacity() > 0));
    }

    pub(crate) fn give_words(&self, words: Vec<u32>) {
        self.give([bytemuck::cast_vec(words)]);
    }
}
