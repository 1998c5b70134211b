//! Several processes that do one piece of work: who takes what, and how results come together.
//!
//! All of them run the same program on the same input. What is computed of a problem or of a row of a batch is
//! divided ([`Ranks::divide`], [`Ranks::is_own`]) and gathered, so that every rank knows all of it afterwards and goes
//! on alike; what is written, or decided by what others may not see, the first does for all ([`Ranks::first`]). To add
//! a way for them to talk, add a file that implements [`Link`], as `mpi` does for processes and `threads` for tests.

#[cfg(feature = "mpi")]
mod mpi;
mod threads;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytemuck::{Pod, Zeroable, cast_slice, pod_collect_to_vec};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "mpi")]
pub use mpi::{Launched, launch};
pub use threads::threads;

/// Results of a rank after which all ranks gather theirs: enough that few wait for the last.
const ROUND: usize = 4096;
/// Numbers that ranks exchange at a time: bounds the memory for them.
const CHUNK: usize = 1 << 22;

/// How one rank talks to the others. Every call is made by all of them, in the same order, and fails where
/// another rank has disconnected.
pub trait Link: Send + Sync {
    /// Which one this is, from 0.
    fn rank(&self) -> usize;
    /// Number of ranks.
    fn size(&self) -> usize;
    /// Which one this is on its machine, and how many are there.
    fn local(&self) -> (usize, usize);
    /// Everyone's bytes, in order of rank.
    fn all_gather(&self, local: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Hands part `r` of `local` to rank `r`, and puts this one's part of everyone's into `parts`, in order of rank.
    /// The parts are equally long.
    fn exchange(&self, local: &[f32], parts: &mut [f32]) -> Result<()>;
    /// Puts everyone's numbers into `all`, in order of rank; all have as many.
    fn concatenate(&self, local: &[f32], all: &mut [f32]) -> Result<()>;
    /// Ends all of them with this exit code.
    fn abort(&self, code: i32) -> !;
}

/// This process's place among those that work together; most work alone.
#[derive(Clone, Default)]
pub struct Ranks(Option<Arc<dyn Link>>);

/// Another rank failed at what it did for all, and says why itself.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the first rank failed")]
pub struct FirstFailed;

/// Receives what was found of one item.
pub type Sink<'a, T> = dyn FnMut(T) -> Result<()> + 'a;
/// Works on items and hands on what it finds.
pub type Work<'a, T> = dyn FnMut(&[usize], &mut Sink<'_, T>) -> Result<()> + 'a;

impl Ranks {
    /// One process.
    pub fn alone() -> Self {
        Self(None)
    }

    /// One process, for jobs that are done in one.
    pub fn one() -> &'static Self {
        static ONE: Ranks = Ranks(None);
        &ONE
    }

    /// Those that `link` joins; one alone needs none.
    pub fn joined(link: Arc<dyn Link>) -> Self {
        Self(Some(link).filter(|link| link.size() > 1))
    }

    /// Which one this is, from 0.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |link| link.rank())
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(1, |link| link.size())
    }

    /// Which one this is on its machine, and how many are there.
    pub fn local(&self) -> (usize, usize) {
        self.0.as_ref().map_or((0, 1), |link| link.local())
    }

    /// Whether this is the one that writes and decides.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether item number `place` is this rank's: they are dealt in turn.
    pub fn is_own(&self, place: usize) -> bool {
        place % self.size() == self.rank()
    }

    /// Does `work` on the first rank alone; what came of it, all know.
    ///
    /// # Errors
    /// The error of `work`, on the first rank, and [`FirstFailed`] on the others.
    pub fn first<T: Serialize + DeserializeOwned>(
        &self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(link) = &self.0 else { return work() };
        if link.rank() == 0 {
            let done = work();
            let bytes = done.as_ref().map_or(Ok(vec![]), serde_json::to_vec)?;
            link.all_gather(&bytes)?;
            return done;
        }
        let bytes = link.all_gather(&[])?.swap_remove(0);
        if bytes.is_empty() {
            return Err(FirstFailed.into());
        }
        read(&bytes)
    }

    /// Does `work` on the first rank, and then on the others.
    pub fn first_then_others<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_first() {
            self.wait()?;
        }
        let done = work()?;
        if self.is_first() {
            self.wait()?;
        }
        Ok(done)
    }

    /// Everyone's values, in order of rank.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, local: T) -> Result<Vec<T>> {
        let Some(link) = &self.0 else { return Ok(vec![local]) };
        link.all_gather(&serde_json::to_vec(&local)?)?.iter().map(|bytes| read(bytes)).collect()
    }

    /// Everyone's numbers bit by bit, in order of rank.
    pub fn gather_numbers<T: Pod + Zeroable>(&self, local: Vec<T>) -> Result<Vec<Vec<T>>> {
        let Some(link) = &self.0 else { return Ok(vec![local]) };
        let all = link.all_gather(cast_slice(&local))?;
        Ok(all.iter().map(|bytes| pod_collect_to_vec(bytes)).collect())
    }

    /// Waits until all ranks have called this.
    pub fn wait(&self) -> Result<()> {
        self.gather_numbers::<u8>(vec![]).map(drop)
    }

    /// Puts the sums over all ranks in place of `values`, which are equally many everywhere. They are added in f64 in
    /// the order of ranks and rounded once: the same bits on every rank and in every run of as many ranks.
    pub fn sum(&self, values: &mut [f32]) -> Result<()> {
        let Some(link) = &self.0 else { return Ok(()) };
        let size = link.size();
        for values in values.chunks_mut(CHUNK) {
            // Reduce-scatter, then all-gather: every rank adds up one part and hands its sums to all.
            let part = values.len().div_ceil(size);
            let mut all = vec![0.0; part * size];
            all[..values.len()].copy_from_slice(values);
            let mut parts = vec![0.0; part * size];
            link.exchange(&all, &mut parts)?;
            let mut exact = vec![0.0; part];
            for other in parts.chunks_exact(part) {
                exact.iter_mut().zip(other).for_each(|(sum, x)| *sum += f64::from(*x));
            }
            let sums: Vec<f32> = exact.into_iter().map(|exact: f64| exact as f32).collect();
            link.concatenate(&sums, &mut all)?;
            values.copy_from_slice(&all[..values.len()]);
        }
        Ok(())
    }

    /// Does `work` on this rank's share of `items` and hands what everyone found to `sink`, on all ranks in the same
    /// order, as often as each has found some thousands where an item brings `each`. Alone, `work` hands it on as it
    /// comes.
    pub fn divide<T: Serialize + DeserializeOwned>(
        &self,
        items: &[usize],
        each: usize,
        work: &mut Work<'_, T>,
        sink: &mut Sink<'_, T>,
    ) -> Result<()> {
        if self.0.is_none() {
            return work(items, sink);
        }
        for share in self.shares(items, each) {
            let mut results = Vec::new();
            work(&share, &mut |one| {
                results.push(one);
                Ok(())
            })?;
            self.gather(results)?.into_iter().flatten().try_for_each(&mut *sink)?;
        }
        Ok(())
    }

    /// This rank's share of `items`, in rounds of some thousand results where an item brings `each`: ranks gather after
    /// every round, so that few wait for the last. Alone there is one round of all.
    pub fn shares(&self, items: &[usize], each: usize) -> Vec<Vec<usize>> {
        let size = self.size();
        if size == 1 {
            return vec![items.to_vec()];
        }
        let round = ROUND.div_ceil(each.max(1)) * size;
        let share =
            |items: &[usize]| items.iter().skip(self.rank()).step_by(size).copied().collect();
        items.chunks(round).map(share).collect()
    }

    /// Fails where the ranks do not agree on `value`.
    pub fn agree(&self, value: u64, what: &str) -> Result<()> {
        let all = self.gather_numbers(vec![value])?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(other) => bail!("{what} are not the same on ranks 0 and {other}"),
        }
    }

    /// Ends all ranks with this exit code; alone, it does nothing.
    pub fn abort(&self, code: u8) {
        if let Some(link) = &self.0 {
            link.abort(i32::from(code));
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("what another rank sent cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of each of `size` ranks.
    fn on_each<T: Send>(size: usize, work: impl Fn(&Ranks) -> T + Sync) -> Vec<T> {
        let (ranks, work) = (threads(size), &work);
        std::thread::scope(|scope| {
            let all: Vec<_> = ranks.iter().map(|ranks| scope.spawn(move || work(ranks))).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn sums_are_the_same_bits_everywhere_and_rounded_once() {
        for (size, count) in [(1, 5), (2, 7), (3, 2), (4, CHUNK + 9)] {
            let value = |rank: usize, i: usize| ((rank * 31 + i * 7) % 101) as f32 * 0.37 - 11.0;
            let sums = on_each(size, |ranks| {
                let mut values: Vec<f32> = (0..count).map(|i| value(ranks.rank(), i)).collect();
                ranks.sum(&mut values).unwrap();
                values
            });
            let exact = |i| (0..size).map(|rank| f64::from(value(rank, i))).sum::<f64>() as f32;
            let exact: Vec<f32> = (0..count).map(exact).collect();
            assert!(sums.iter().all(|sum| *sum == exact), "{size} ranks, {count} numbers");
        }
    }

    #[test]
    fn items_are_divided_and_every_rank_sees_all_in_one_order() {
        for size in [1, 2, 3] {
            let seen = on_each(size, |ranks| {
                let (mut mine, mut all) = (Vec::new(), Vec::new());
                let items = [5, 3, 8, 1, 9, 2, 7];
                let mut work = |items: &[usize], sink: &mut Sink<'_, usize>| {
                    mine.extend_from_slice(items);
                    items.iter().try_for_each(|item| sink(item * 10))
                };
                let sink = &mut |found| {
                    all.push(found);
                    Ok(())
                };
                ranks.divide(&items, ROUND / 2, &mut work, sink).unwrap();
                (mine, all)
            });
            let worked: usize = seen.iter().map(|(local, _)| local.len()).sum();
            assert_eq!(worked, 7);
            assert!(seen.iter().all(|(_, all)| *all == seen[0].1));
            let mut sorted = seen[0].1.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [10, 20, 30, 50, 70, 80, 90]);
        }
    }

    #[test]
    fn first_ranks_result_or_error_reaches_all() {
        let results = on_each(3, |ranks| ranks.first(|| Ok(ranks.rank() + 7)).unwrap());
        assert_eq!(results, [7, 7, 7]);
        let failed = on_each(3, |ranks| {
            let error = ranks.first::<()>(|| bail!("a full disk")).unwrap_err();
            (error.is::<FirstFailed>(), error.to_string())
        });
        assert_eq!(failed[0], (false, "a full disk".into()));
        assert!(failed[1].0 && failed[2].0);
        let numbers = on_each(2, |ranks| ranks.gather_numbers(vec![f64::NAN; ranks.rank()]));
        let numbers: Vec<usize> =
            numbers[1].as_ref().unwrap().iter().map(|numbers| numbers.len()).collect();
        assert_eq!(numbers, [0, 1]);
        let apart = on_each(2, |ranks| ranks.agree(ranks.rank() as u64, "weights").is_err());
        assert_eq!(apart, [true, true]);
    }
}
