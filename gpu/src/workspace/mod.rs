//! Arrays on a device, whose memory is used again.
//!
//! A decoding step computes arrays of the same sizes as the step before it. A [`Workspace`] keeps the memory of arrays
//! that nobody holds any more, and the next array of that size is written there, so that a step allocates nothing.
//!
//! Memory is never written under a reader. An [`Array`] does not show its tensor: the kernels of this crate read it and
//! keep no part of it. Clones and views of an array hold its memory too, which goes back to the workspace when the last
//! of them is dropped. [`Array::into_tensor`] is the only way to the tensor, and takes the memory out of the workspace.
//! Work on a device is done in the order in which it is launched, so a launch may write what launches before it read.

mod array;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor, WithDType};
use half::bf16;

pub use array::{Array, Operand};

use crate::graph::{self, Repeats};
use crate::{counts, empty};

/// Memory for the arrays of a batch's decoding steps. Each buffer has room for all rows of the batch, so that steps
/// with fewer rows use it too.
#[derive(Debug)]
pub struct Workspace {
    device: Device,
    /// Most rows of a step.
    most: usize,
    /// Rows of the step at hand.
    rows: AtomicUsize,
    /// Bytes of all buffers that were made and have not left.
    bytes: AtomicUsize,
    /// Buffers that nobody holds, by their numbers: of several the first is lent, so that a step that takes and
    /// returns buffers in the order of another gets the same.
    idle: Mutex<HashMap<Class, BTreeMap<usize, Tensor>>>,
    /// The number of the next buffer.
    next: AtomicUsize,
    repeats: Mutex<Repeats>,
}

/// Buffers that can stand for each other: their type, and their values a row.
type Class = (DType, usize);

impl Workspace {
    /// An empty one for steps of at most so many rows; nothing on Metal, where Candle's device keeps buffers itself.
    pub fn new(device: &Device, most: usize) -> Option<Arc<Self>> {
        (!device.is_metal()).then(|| {
            Arc::new(Self {
                device: device.clone(),
                most: most.max(1),
                rows: AtomicUsize::new(most.max(1)),
                bytes: AtomicUsize::new(0),
                idle: Mutex::default(),
                next: AtomicUsize::new(0),
                repeats: Mutex::default(),
            })
        })
    }

    /// Says how many rows the next step has.
    pub fn begin(&self, rows: usize) {
        self.rows.store(rows.clamp(1, self.most), Ordering::Relaxed);
    }

    /// Bytes of the memory that it holds or has lent.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// An array of any values, to be written whole.
    fn take(self: &Arc<Self>, shape: Shape, dtype: DType) -> Result<Array> {
        let count = shape.elem_count();
        let class = (dtype, count.div_ceil(self.rows()));
        let idle = self.idle().get_mut(&class).and_then(BTreeMap::pop_first);
        let (number, whole) = match idle {
            Some(idle) => {
                counts::reused();
                idle
            }
            None => {
                let whole = empty(class.1 * self.most, dtype, &self.device)?;
                self.bytes.fetch_add(counts::bytes(&whole), Ordering::Relaxed);
                (self.next.fetch_add(1, Ordering::Relaxed), whole)
            }
        };
        let tensor = whole.narrow(0, 0, count)?.reshape(shape)?;
        let lent = Some(Lent { number, whole, class, has_left: AtomicBool::new(false) });
        Ok(Array { tensor, memory: Arc::new(Memory { workspace: Some(self.clone()), lent }) })
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Class, BTreeMap<usize, Tensor>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of the step at hand.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn repeats(&self) -> MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
}

/// The memory of an array, of its clones and of its views.
#[derive(Debug)]
struct Memory {
    /// Where what is computed of the array is made.
    workspace: Option<Arc<Workspace>>,
    /// The workspace's buffer, where it is one.
    lent: Option<Lent>,
}

#[derive(Debug)]
struct Lent {
    number: usize,
    whole: Tensor,
    class: Class,
    /// Whether a tensor of it was handed out.
    has_left: AtomicBool,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let (Some(workspace), Some(lent)) = (&self.workspace, &self.lent) else { return };
        if lent.has_left.load(Ordering::Relaxed) || spoil(&lent.whole).is_err() {
            workspace.bytes.fetch_sub(counts::bytes(&lent.whole), Ordering::Relaxed);
            return;
        }
        let mut idle = workspace.idle();
        idle.entry(lent.class).or_default().insert(lent.number, lent.whole.clone());
    }
}

/// On the CPU NaN in place of all values, which shows where one is read before it is written, or after its array is
/// gone.
fn spoil(whole: &Tensor) -> Result<()> {
    match (whole.device(), whole.dtype()) {
        (Device::Cpu, DType::F32) => whole.const_set(f32::NAN.to_scalar()),
        (Device::Cpu, DType::BF16) => whole.const_set(bf16::NAN.to_scalar()),
        (Device::Cpu, DType::U32) => whole.const_set(u32::MAX.to_scalar()),
        _ => Ok(()),
    }
}

/// Where an array is made: on a device, and in a workspace where there is one.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// The device that holds the array.
    pub device: &'a Device,
    /// Workspace on that device, whose memory the array takes.
    pub workspace: Option<&'a Arc<Workspace>>,
}

impl<'a> From<&'a Device> for Destination<'a> {
    fn from(device: &'a Device) -> Self {
        Self { device, workspace: None }
    }
}

impl<'a> Destination<'a> {
    /// Beside an operand.
    pub(crate) fn like(x: &'a dyn Operand) -> Self {
        Self { device: x.tensor().device(), workspace: x.workspace() }
    }

    /// An array of any values, to be written whole.
    ///
    /// # Errors
    /// No values, no memory.
    pub fn empty(self, shape: impl Into<Shape>, dtype: DType) -> Result<Array> {
        match self.workspace {
            Some(workspace) => workspace.take(shape.into(), dtype),
            None => {
                // Memory that may be gone when a graph runs again.
                graph::mark_uncapturable();
                empty(shape, dtype, self.device).map(Array::from)
            }
        }
    }

    /// Values from the host.
    ///
    /// # Errors
    /// No memory, the device's.
    pub fn upload<T: WithDType>(self, values: Vec<T>, shape: impl Into<Shape>) -> Result<Array> {
        let Some(workspace) = self.workspace else {
            return counts::upload(values, shape, self.device).map(Array::from);
        };
        let array = workspace.take(shape.into(), T::DTYPE)?;
        counts::uploaded(&array.tensor);
        match self.device {
            #[cfg(feature = "cuda")]
            Device::Cuda(_) => crate::cuda::write(&array.tensor, &values)?,
            device => {
                let values = Tensor::from_vec(values, array.tensor.shape(), device)?;
                array.tensor.slice_set(&values, 0, 0)?;
            }
        }
        Ok(array)
    }
}

/// An array of any values beside an operand, to be written whole.
pub(crate) fn new_empty(x: &dyn Operand, shape: impl Into<Shape>, dtype: DType) -> Result<Array> {
    Destination::like(x).empty(shape, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(rows: usize) -> Arc<Workspace> {
        Workspace::new(&Device::Cpu, rows).expect("the CPU has workspaces")
    }

    fn made(workspace: &Arc<Workspace>, value: f32, shape: (usize, usize)) -> Array {
        let at = Destination { device: &Device::Cpu, workspace: Some(workspace) };
        at.upload(vec![value; shape.0 * shape.1], shape).expect("an array")
    }

    fn values(array: &Array) -> Vec<f32> {
        array.download().expect("values")
    }

    #[test]
    fn released_memory_is_reused() {
        let workspace = workspace(4);
        let (_, counts) = counts::counted(|| {
            for rows in [4, 3, 1, 4] {
                workspace.begin(rows);
                // Two of a size at once, and one of another.
                let all = [(1.0, 6), (2.0, 6), (3.0, 5)];
                let all = all.map(|(value, width)| made(&workspace, value, (rows, width)));
                assert_eq!(values(&all[1]), vec![2.0; rows * 6]);
            }
        });
        assert_eq!((counts.allocations, counts.reused), (3, 9));
        assert_eq!((counts.allocated, workspace.bytes()), (4 * 4 * 17, 4 * 4 * 17));
    }

    #[test]
    fn a_live_array_is_never_overwritten() {
        let workspace = workspace(2);
        let live = made(&workspace, 1.0, (2, 3));
        let clone = made(&workspace, 2.0, (2, 3)).clone();
        let part = made(&workspace, 3.0, (2, 3)).part(1..2).expect("a row");
        let tensor = made(&workspace, 4.0, (2, 3)).part(0..1).expect("a row").into_tensor();
        for step in 0..20 {
            let more = [(); 3].map(|()| made(&workspace, 10.0 + step as f32, (2, 3)));
            assert_eq!(values(&more[2]), [10.0 + step as f32; 6]);
        }
        assert_eq!((values(&live), values(&clone)), (vec![1.0; 6], vec![2.0; 6]));
        assert_eq!(values(&part), [3.0; 3]);
        assert_eq!(tensor.to_vec2::<f32>().expect("values"), [[4.0; 3]]);
        // The tensor's memory is no longer the workspace's; that of the others is once they are gone.
        assert_eq!(workspace.bytes(), 4 * 6 * 6);
        drop((live, clone, part));
        let ((), counts) = counts::counted(|| {
            drop([(); 6].map(|()| made(&workspace, 5.0, (2, 3))));
        });
        assert_eq!((counts.allocations, counts.reused), (0, 6));
        assert_eq!(tensor.to_vec2::<f32>().expect("values"), [[4.0; 3]]);
    }

    #[test]
    fn released_memory_holds_nans() {
        let workspace = workspace(2);
        // A view that outlives its array, which only this crate could make.
        let stale = made(&workspace, 1.0, (2, 3)).tensor.clone();
        let values = stale.flatten_all().and_then(|x| x.to_vec1::<f32>()).expect("values");
        assert!(values.iter().all(|value| value.is_nan()));
    }

    #[cfg(feature = "emulated")]
    #[test]
    fn derived_arrays_do_not_share_memory() {
        let workspace = workspace(2);
        // Of one row, whose columns are contiguous where they are, and of two.
        for rows in [1, 2] {
            let all = |x: &Array| {
                let columns = crate::kernels::columns(x, 4, 1..3).expect("columns");
                let [copy, joined] =
                    [crate::kernels::scaled(x, 1.0), crate::kernels::joined(&[x], &[4])]
                        .map(|x| x.expect("there"));
                let [zeros, double] =
                    [x.zeros_like(), crate::kernels::scaled(x, 2.0)].map(|x| x.expect("there"));
                [columns, copy, joined, zeros, double]
            };
            let made = all(&made(&workspace, 3.0, (rows, 4)));
            for (array, value) in made.iter().zip([3.0, 3.0, 3.0, 0.0, 6.0]) {
                assert!(values(array).iter().all(|x| *x == value), "{:?}", values(array));
            }
        }
    }

    #[test]
    fn a_product_in_a_workspace_is_the_same() {
        let workspace = workspace(4);
        let x = Tensor::from_vec((0..12).map(|i| (i as f32).sin()).collect(), (4, 3), &Device::Cpu);
        let w = Tensor::from_vec((0..15).map(|i| (i as f32).cos()).collect(), (5, 3), &Device::Cpu);
        let (x, w): (Tensor, Tensor) = (x.expect("x"), w.expect("w"));
        for dtype in [DType::F32, DType::BF16] {
            let (x, w) = (x.to_dtype(dtype).expect("x"), w.to_dtype(dtype).expect("w"));
            let inside = Array::in_workspace(x.clone(), Some(workspace.clone()));
            for product in [crate::products::product, crate::products::wide_product] {
                let (one, other) = (product(&x, &w), product(&inside, &w));
                let wide =
                    |x: Result<Array>| x?.into_tensor().to_dtype(DType::F32)?.to_vec2::<f32>();
                assert_eq!(wide(one).expect("values"), wide(other).expect("values"));
            }
        }
    }
}
