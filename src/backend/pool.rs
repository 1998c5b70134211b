//! Buffers that were given back: memory that is new to a process costs more than what is done with it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Buffers of f32 for whoever needs one next.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<f32>>>);

impl Pool {
    /// A buffer of `count` values, whatever they are: the smallest that is large enough, but none that is
    /// much too large, which another will need.
    pub(crate) fn take_values(&self, count: usize) -> Vec<f32> {
        let mut all = self.0.lock().expect("no panic while the lock is held");
        let fits = |index: &usize| (count..=count + count / 4).contains(&all[*index].capacity());
        let fits = (0..all.len()).filter(fits);
        let best = fits.min_by_key(|index| all[*index].capacity());
        let mut buffer = best.map_or_else(Vec::new, |index| all.swap_remove(index));
        drop(all);
        buffer.resize(count, 0.0);
        buffer
    }

    pub(crate) fn give_values(&self, values: Vec<f32>) {
        if values.capacity() > 0 {
            self.0.lock().expect("no panic while the lock is held").push(values);
        }
    }

    /// The same as [`Pool::take_values`], given back when it is dropped.
    pub(crate) fn take(self: &Arc<Self>, count: usize) -> Buffer {
        Buffer { values: self.take_values(count), pool: self.clone() }
    }

    /// A buffer of zeros.
    pub(crate) fn zeros(self: &Arc<Self>, count: usize) -> Buffer {
        let mut buffer = self.take(count);
        buffer.fill(0.0);
        buffer
    }

    /// A copy of `values`.
    pub(crate) fn copy(self: &Arc<Self>, values: &[f32]) -> Buffer {
        let mut buffer = self.take(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

/// Values whose memory goes back to a pool.
#[derive(Debug)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    pool: Arc<Pool>,
}

impl Buffer {
    /// The values, whose memory leaves the pool.
    pub(crate) fn into_values(mut self) -> Vec<f32> {
        std::mem::take(&mut self.values)
    }
}

impl From<Vec<f32>> for Buffer {
    /// Values that no pool waits for.
    fn from(values: Vec<f32>) -> Self {
        Self { values, pool: Arc::default() }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give_values(std::mem::take(&mut self.values));
    }
}
