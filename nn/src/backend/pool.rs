//! Buffers that were given back: memory that is new to a process costs more than what is done with it.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tealight_matmul::huge_page_zeros;

/// Buffers of f32 for whoever needs one next.
///
/// Reusable buffers. A pass computes so many values for each of its rows, and passes have many numbers of rows: buffers
/// are kept by the values a row, with room for more rows than were asked for. Unwritten parts take no memory, so a pool
/// comes to hold what the largest pass needs, whatever the passes before and after it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Rows of the pass at hand.
    rows: AtomicUsize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// By values a row.
    by_width: HashMap<usize, Vec<Vec<f32>>>,
    /// Of the size of weights.
    fixed: Vec<Vec<f32>>,
}

impl Pool {
    /// Says how many rows the next pass has.
    pub(crate) fn begin(&self, rows: usize) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    /// A buffer of `count` values, whatever they are, for the pass at hand.
    pub(crate) fn take(self: &Arc<Self>, count: usize) -> Buffer {
        let rows = self.rows.load(Ordering::Relaxed).max(1);
        // Values that are not the same for all rows differ a little between passes.
        self.take_rows(rows, rough(count.div_ceil(rows)), count)
    }

    /// A buffer of `rows` times `width` values.
    pub(crate) fn take_matrix(self: &Arc<Self>, rows: usize, width: usize) -> Buffer {
        self.take_rows(rows, width, rows * width)
    }

    fn take_rows(self: &Arc<Self>, rows: usize, width: usize, count: usize) -> Buffer {
        let mut idle = self.idle.lock().expect("no panic while the lock is held");
        let recycled = idle.by_width.get_mut(&width).and_then(Vec::pop);
        drop(idle);
        // One that is too small makes way for a larger one.
        let fits = recycled.filter(|recycled| recycled.capacity() >= count);
        let capacity = rows.next_power_of_two() * width;
        let mut values = fits.unwrap_or_else(|| Vec::with_capacity(capacity.max(count)));
        values.resize(count, 0.0);
        Buffer { values, width: Some(width), pool: self.clone() }
    }

    pub(crate) fn zeros(self: &Arc<Self>, count: usize) -> Buffer {
        let mut buffer = self.take(count);
        buffer.fill(0.0);
        buffer
    }

    pub(crate) fn copy(self: &Arc<Self>, values: &[f32]) -> Buffer {
        let mut buffer = self.take(values.len());
        buffer.copy_from_slice(values);
        buffer
    }

    /// A buffer of zeros of the size of a weight, the same in every pass.
    pub(crate) fn fixed_zeros(self: &Arc<Self>, count: usize) -> Buffer {
        let values = match self.idle_fixed(count) {
            Some(mut values) => {
                values.fill(0.0);
                values
            }
            None => huge_page_zeros(count),
        };
        Buffer { values, width: None, pool: self.clone() }
    }

    /// Values of the size of a weight, whatever they are.
    pub(crate) fn take_fixed(&self, count: usize) -> Vec<f32> {
        self.idle_fixed(count).unwrap_or_else(|| huge_page_zeros(count))
    }

    /// The smallest buffer that is large enough, but none that is much too large, which another will need.
    fn idle_fixed(&self, count: usize) -> Option<Vec<f32>> {
        let mut idle = self.idle.lock().expect("no panic while the lock is held");
        let fixed = &mut idle.fixed;
        let fits = |index: &usize| (count..=count + count / 4).contains(&fixed[*index].capacity());
        let best = (0..fixed.len()).filter(fits).min_by_key(|index| fixed[*index].capacity())?;
        let mut values = fixed.swap_remove(best);
        drop(idle);
        values.resize(count, 0.0);
        Some(values)
    }

    pub(crate) fn give_fixed(&self, values: Vec<f32>) {
        self.give(values, None);
    }

    fn give(&self, values: Vec<f32>, width: Option<usize>) {
        if values.capacity() == 0 {
            return;
        }
        let mut idle = self.idle.lock().expect("no panic while the lock is held");
        match width {
            Some(width) => idle.by_width.entry(width).or_default().push(values),
            None => idle.fixed.push(values),
        }
    }
}

/// `width` and up to an eighth more.
fn rough(width: usize) -> usize {
    width.next_multiple_of(1 << width.max(1).ilog2().saturating_sub(3))
}

/// Values whose memory goes back to a pool.
#[derive(Debug)]
pub struct Buffer {
    values: Vec<f32>,
    /// Values a row, where it is of a pass.
    width: Option<usize>,
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
        Self { values, width: None, pool: Arc::default() }
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
        self.pool.give(std::mem::take(&mut self.values), self.width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_reuse_buffers_of_earlier_passes() {
        let pool: Arc<Pool> = Arc::default();
        let place = |rows: usize| {
            pool.begin(rows);
            let buffers = [pool.take(rows * 64), pool.take(rows * 192)];
            buffers.map(|buffer| (buffer.as_ptr(), buffer.len() / rows))
        };
        let first = place(1000);
        assert_eq!(first.map(|(_, width)| width), [64, 192]);
        assert_eq!(place(1001), first);
        assert_eq!(place(300), first);
        assert_eq!(place(1024), first);
        let larger = place(5000);
        assert_eq!(place(5000), larger);
        let idle = pool.idle.lock().expect("no panic");
        assert!(idle.by_width.values().all(|all| all.len() == 1), "the smaller ones are gone");
    }

    #[test]
    fn buffers_in_use_are_not_given_again() {
        let pool: Arc<Pool> = Arc::default();
        pool.begin(10);
        let (one, other) = (pool.take(640), pool.take(640));
        assert_ne!(one.as_ptr(), other.as_ptr());
        let weight = pool.fixed_zeros(640);
        let place = weight.as_ptr();
        drop((one, other, weight));
        let again = pool.take_fixed(600);
        assert_eq!(again.as_ptr(), place);
    }
}
