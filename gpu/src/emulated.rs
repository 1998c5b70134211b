//! Launches on the CPU, for tests: the kernels as C, one thread after the other, on copies of the tensors.
//!
//! A kernel may write any of its tensors, as on a GPU, and Rust lends them for reading alone: so it gets copies, and
//! what it has changed is written back.

use std::ffi::{CString, c_char, c_int, c_void};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use half::bf16;

use crate::{BUFFERS, Call, Params};

#[allow(unsafe_code)]
// SAFETY: the signature is that of `kernels/emulated.c`.
unsafe extern "C" {
    fn tealight_emulate(
        name: *const c_char,
        buffers: *const *mut c_void,
        params: *const Params,
        groups: c_int,
    ) -> c_int;
}

/// The values of a tensor.
#[derive(Clone)]
enum Values {
    Single(Vec<f32>),
    Half(Vec<bf16>),
    Numbers(Vec<u32>),
}

impl Values {
    /// A copy, and where the values are.
    fn of(tensor: &Tensor, name: &str) -> Result<(Self, *const u8)> {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { bail!("{name}: a tensor is not on the CPU") };
        let own = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        Ok(match storage {
            CpuStorage::F32(x) => (Self::Single(x[own.clone()].to_vec()), x[own].as_ptr().cast()),
            CpuStorage::BF16(x) => (Self::Half(x[own.clone()].to_vec()), x[own].as_ptr().cast()),
            CpuStorage::U32(x) => (Self::Numbers(x[own.clone()].to_vec()), x[own].as_ptr().cast()),
            _ => bail!("{name}: kernels know f32, bf16 and u32"),
        })
    }

    fn pointer(&mut self) -> *mut c_void {
        match self {
            Self::Single(x) => x.as_mut_ptr().cast(),
            Self::Half(x) => x.as_mut_ptr().cast(),
            Self::Numbers(x) => x.as_mut_ptr().cast(),
        }
    }

    /// Whether both are the same bits.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Single(x), Self::Single(y)) => {
                x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits())
            }
            (Self::Half(x), Self::Half(y)) => {
                x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits())
            }
            (Self::Numbers(x), Self::Numbers(y)) => x == y,
            _ => false,
        }
    }
}

/// Puts the values in place of a tensor's.
impl InplaceOp1 for Values {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let own = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        match (self, storage) {
            (Self::Single(x), CpuStorage::F32(to)) => to[own].copy_from_slice(x),
            (Self::Half(x), CpuStorage::BF16(to)) => to[own].copy_from_slice(x),
            (Self::Numbers(x), CpuStorage::U32(to)) => to[own].copy_from_slice(x),
            _ => bail!("the tensor has changed its type"),
        }
        Ok(())
    }
}

pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    // A tensor that is named twice is one piece of memory.
    let mut places: Vec<*const u8> = Vec::new();
    let mut copies: Vec<(Values, &Tensor)> = Vec::new();
    let mut buffers = [std::ptr::null_mut(); BUFFERS];
    let mut index_of = Vec::new();
    for tensor in call.tensors {
        let (values, place) = Values::of(tensor, &call.name)?;
        let known = places.iter().position(|known| *known == place && tensor.elem_count() > 0);
        index_of.push(known.unwrap_or(copies.len()));
        if known.is_none() {
            places.push(place);
            copies.push((values, tensor));
        }
    }
    let before: Vec<Values> = copies.iter().map(|(values, _)| values.clone()).collect();
    for (buffer, index) in buffers.iter_mut().zip(index_of) {
        *buffer = copies[index].0.pointer();
    }
    let name = CString::new(call.name.as_str()).expect("names have no zero");
    // SAFETY: every buffer is memory of this function's own, as large as the tensor it is a copy of, and the wrappers
    // in `kernels` have checked that tensors are as large as the kernel takes them to be.
    #[allow(unsafe_code)]
    let failed = unsafe {
        tealight_emulate(name.as_ptr(), buffers.as_ptr(), &call.params, call.groups as c_int)
    };
    if failed != 0 {
        bail!("there is no kernel {}", call.name);
    }
    for ((values, tensor), before) in copies.into_iter().zip(before) {
        if !values.is(&before) {
            tensor.inplace_op1(&values)?;
        }
    }
    Ok(())
}
