//! Arrays, and the tensors and arrays that kernels take.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::{DType, Device, Result, Tensor, WithDType};

use super::{Memory, Workspace};
use crate::counts;

/// Values on a device: all or a part of a tensor, which is only seen by kernels.
#[derive(Debug, Clone)]
pub struct Array {
    pub(super) tensor: Tensor,
    pub(super) memory: Arc<Memory>,
}

impl From<Tensor> for Array {
    /// A tensor that others may hold as well: its memory is the allocator's.
    fn from(tensor: Tensor) -> Self {
        Self { tensor, memory: Arc::new(Memory { workspace: None, lent: None }) }
    }
}

impl Array {
    /// The same values, where what is computed of them is made in a workspace.
    pub fn in_workspace(tensor: Tensor, workspace: Option<Arc<Workspace>>) -> Self {
        Self { tensor, memory: Arc::new(Memory { workspace, lent: None }) }
    }

    /// The tensor, for whoever wants to keep it; the workspace does without its memory from then on.
    pub fn into_tensor(self) -> Tensor {
        if let Some(lent) = &self.memory.lent {
            lent.has_left.store(true, Ordering::Relaxed);
        }
        self.tensor
    }

    /// Its values. No clone or view of it may outlive the array.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Some of its first dimension, in the same memory.
    ///
    /// # Errors
    /// A range beyond it.
    pub fn part(&self, range: Range<usize>) -> Result<Self> {
        let tensor = self.tensor.narrow(0, range.start, range.len())?;
        Ok(Self { tensor, memory: self.memory.clone() })
    }

    /// Zeros of its size, by an operation of Candle.
    ///
    /// # Errors
    /// No memory, the device's.
    pub fn zeros_like(&self) -> Result<Self> {
        let zeros = counts::made(self.tensor.zeros_like()?);
        Ok(Self::in_workspace(zeros, self.memory.workspace.clone()))
    }

    /// The values in order, once the device has computed them.
    ///
    /// # Errors
    /// Another type, the device's.
    pub fn download<T: WithDType>(&self) -> Result<Vec<T>> {
        counts::download(&self.tensor)
    }

    /// The number of its values.
    pub fn elem_count(&self) -> usize {
        self.tensor.elem_count()
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Device of the values.
    pub fn device(&self) -> &Device {
        self.tensor.device()
    }
}

/// What a kernel reads or writes: a tensor, or an array.
pub trait Operand: sealed::Sealed {}

impl Operand for Tensor {}
impl Operand for Array {}

pub(crate) mod sealed {
    use super::{Arc, Array, Tensor, Workspace};

    /// What this crate alone sees of an operand.
    pub trait Sealed {
        /// Its values. No clone or view of it may outlive the operand.
        fn tensor(&self) -> &Tensor;
        /// Where what is computed of it is made.
        fn workspace(&self) -> Option<&Arc<Workspace>>;
    }

    impl Sealed for Tensor {
        fn tensor(&self) -> &Tensor {
            self
        }

        fn workspace(&self) -> Option<&Arc<Workspace>> {
            None
        }
    }

    impl Sealed for Array {
        fn tensor(&self) -> &Tensor {
            &self.tensor
        }

        fn workspace(&self) -> Option<&Arc<Workspace>> {
            self.memory.workspace.as_ref()
        }
    }
}
