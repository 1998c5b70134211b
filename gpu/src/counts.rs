//! Counts kernel launches, allocations and host copies.
//!
//! Kernels and the tensors that their wrappers make are counted where they are made. Operations of Candle are counted
//! where their result passes through [`made`], which every caller of one on a decoder's path does. Each is taken for
//! one launch and one allocation; what an operation of Candle or a library does inside is not seen. A product that is
//! written to a [workspace](crate::workspace) is counted as one launch.

use std::cell::RefCell;
use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, WithDType};

use crate::graph;

/// The launches, allocations and transfers of a stretch of work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Launches of our kernels by name, as `rope_f32`, and of Candle's operations under `candle`.
    pub launches: BTreeMap<String, usize>,
    /// Launches by name that were part of a [graph]; the host launched the graph alone.
    pub replayed: BTreeMap<String, usize>,
    /// Graphs that were launched.
    pub graphs: usize,
    /// Graphs captured and instantiated.
    pub graphs_made: usize,
    /// Tensors that were made on the device.
    pub allocations: usize,
    /// Bytes allocated.
    pub allocated: usize,
    /// Arrays that were written to memory that a workspace had.
    pub reused: usize,
    /// Copies from the host.
    pub uploads: usize,
    /// Bytes copied to the device.
    pub uploaded: usize,
    /// Copies to the host: each waits for the device.
    pub downloads: usize,
    /// Bytes copied to the host.
    pub downloaded: usize,
}

impl Counts {
    /// Of all kernels and operations.
    pub fn launched(&self) -> usize {
        self.launches.values().sum()
    }
}

thread_local! {
    /// Counts, while somebody asks.
    static COUNTS: RefCell<Option<Counts>> = const { RefCell::new(None) };
}

/// Does `work`, and counts what this thread asks of a device meanwhile.
pub fn counted<R>(work: impl FnOnce() -> R) -> (R, Counts) {
    COUNTS.set(Some(Counts::default()));
    let done = work();
    (done, COUNTS.take().unwrap_or_default())
}

fn note(change: impl FnOnce(&mut Counts)) {
    COUNTS.with_borrow_mut(|counts| {
        if let Some(counts) = counts {
            change(counts);
        }
    });
}

/// The bytes of a tensor's values.
pub(crate) fn bytes(tensor: &Tensor) -> usize {
    tensor.elem_count() * tensor.dtype().size_in_bytes()
}

/// Notes a launch of a kernel.
pub(crate) fn launched(name: &str) {
    note(|counts| *counts.launches.entry(name.to_owned()).or_default() += 1);
}

/// What launches of Candle's operations, and of the device's products, are counted under.
pub(crate) const OF_CANDLE: &str = "candle";

/// Notes the launch of a graph of these launches.
pub(crate) fn replayed<'a>(names: impl Iterator<Item = &'a str>) {
    note(|counts| {
        counts.graphs += 1;
        names.for_each(|name| *counts.replayed.entry(name.to_owned()).or_default() += 1);
    });
}

/// Notes that a graph was made.
pub(crate) fn graphs_made() {
    note(|counts| counts.graphs_made += 1);
}

/// Notes memory for a tensor.
pub(crate) fn allocated(tensor: &Tensor) {
    note(|counts| {
        counts.allocations += 1;
        counts.allocated += bytes(tensor);
    });
}

/// Notes an array in memory that was there.
pub(crate) fn reused() {
    note(|counts| counts.reused += 1);
}

/// Notes a copy from the host.
pub(crate) fn uploaded(tensor: &Tensor) {
    graph::mark_uncapturable();
    note(|counts| {
        counts.uploads += 1;
        counts.uploaded += bytes(tensor);
    });
}

/// The result of an operation of Candle, which is noted.
pub fn made(tensor: Tensor) -> Tensor {
    graph::mark_uncapturable();
    launched(OF_CANDLE);
    allocated(&tensor);
    tensor
}

/// Values from the host as a tensor on a device.
///
/// # Errors
/// No memory, the device's.
pub fn upload<T: WithDType>(
    values: Vec<T>,
    shape: impl Into<candle_core::Shape>,
    device: &Device,
) -> Result<Tensor> {
    let tensor = Tensor::from_vec(values, shape, device)?;
    allocated(&tensor);
    uploaded(&tensor);
    Ok(tensor)
}

/// The values of a tensor in order, once the device has computed them.
///
/// # Errors
/// Another type, the device's.
pub fn download<T: WithDType>(tensor: &Tensor) -> Result<Vec<T>> {
    graph::mark_uncapturable();
    note(|counts| {
        counts.downloads += 1;
        counts.downloaded += bytes(tensor);
    });
    tensor.flatten_all()?.to_vec1()
}

/// Zeros on a device.
///
/// # Errors
/// No memory, the device's.
pub fn zeros(
    shape: impl Into<candle_core::Shape>,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    Tensor::zeros(shape, dtype, device).map(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_cover_the_given_work_only() {
        let device = Device::Cpu;
        let work = || {
            let x = upload(vec![1f32, 2.0, 3.0], 3, &device).expect("there");
            let y = made((&x + 1.0).expect("a sum"));
            launched("rope_f32");
            download::<f32>(&y).expect("values")
        };
        work();
        let (values, counts) = counted(work);
        assert_eq!(values, [2.0, 3.0, 4.0]);
        assert_eq!((counts.launched(), counts.launches["candle"]), (2, 1));
        assert_eq!((counts.allocations, counts.allocated), (2, 24));
        assert_eq!((counts.uploads, counts.uploaded), (1, 12));
        assert_eq!((counts.downloads, counts.downloaded), (1, 12));
        assert_eq!(counted(|| ()).1, Counts::default());
    }
}
