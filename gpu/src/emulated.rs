//! Launches on the CPU, for tests and as what a device is held against: the kernels as C, one thread after the other,
//! on copies of the tensors.
//!
//! A kernel may write any of its tensors, as on a GPU, and Rust lends them for reading alone: so it gets copies, and
//! what it has changed is written back.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

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

/// One launch on memory of this process: a kernel's name, buffers, numbers, groups.
pub(crate) struct Launch<'a> {
    pub(crate) name: &'a CStr,
    pub(crate) buffers: [*mut c_void; BUFFERS],
    pub(crate) params: &'a Params,
    pub(crate) groups: c_int,
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
    fn from_tensor(tensor: &Tensor) -> Result<(Self, *const u8)> {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { bail!("a tensor is not on the CPU") };
        let range = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        Ok(match storage {
            CpuStorage::F32(x) => {
                (Self::Single(x[range.clone()].to_vec()), x[range].as_ptr().cast())
            }
            CpuStorage::BF16(x) => {
                (Self::Half(x[range.clone()].to_vec()), x[range].as_ptr().cast())
            }
            CpuStorage::U32(x) => {
                (Self::Numbers(x[range.clone()].to_vec()), x[range].as_ptr().cast())
            }
            _ => bail!("kernels know f32, bf16 and u32"),
        })
    }

    fn pointer(&mut self) -> *mut c_void {
        match self {
            Self::Single(x) => x.as_mut_ptr().cast(),
            Self::Half(x) => x.as_mut_ptr().cast(),
            Self::Numbers(x) => x.as_mut_ptr().cast(),
        }
    }

    /// Makes one value wrong.
    fn spoil(&mut self) {
        match self {
            Self::Single(x) => x[0] += 0.01 + 0.01 * x[0].abs(),
            Self::Half(x) => x[0] = bf16::from_f32(x[0].to_f32() * 1.1 + 0.1),
            Self::Numbers(x) => x[0] ^= 1,
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
        let range = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
        match (self, storage) {
            (Self::Single(x), CpuStorage::F32(to)) => to[range].copy_from_slice(x),
            (Self::Half(x), CpuStorage::BF16(to)) => to[range].copy_from_slice(x),
            (Self::Numbers(x), CpuStorage::U32(to)) => to[range].copy_from_slice(x),
            _ => bail!("the tensor has changed its type"),
        }
        Ok(())
    }
}

/// Runs it as C, thread after thread in order: what others are held against.
pub(crate) fn reference(call: &Call<'_>) -> Result<()> {
    run_by(call, false, plain)
}

/// Launches a kernel as C; nonzero where there is none of its name.
pub(crate) fn plain(launch: &Launch<'_>) -> c_int {
    let Launch { name, buffers, params, groups } = launch;
    // SAFETY: every buffer is memory that `run_by` owns, as large as the tensor it is a copy of, and the wrappers in
    // `kernels` have checked that tensors are as large as the kernel takes them to be.
    #[allow(unsafe_code)]
    unsafe {
        tealight_emulate(name.as_ptr(), buffers.as_ptr(), *params, *groups)
    }
}

pub(crate) fn run_by(
    call: &Call<'_>,
    is_faulty: bool,
    engine: impl FnOnce(&Launch<'_>) -> c_int,
) -> Result<()> {
    // A tensor that is named twice is one piece of memory.
    let mut places: Vec<*const u8> = Vec::new();
    let mut copies: Vec<(Values, &Tensor)> = Vec::new();
    let mut index_of = Vec::new();
    for tensor in call.tensors {
        let (values, place) = Values::from_tensor(tensor)?;
        let known = places.iter().position(|known| *known == place && tensor.elem_count() > 0);
        index_of.push(known.unwrap_or(copies.len()));
        if known.is_none() {
            places.push(place);
            copies.push((values, tensor));
        }
    }
    let before: Vec<Values> = copies.iter().map(|(values, _)| values.clone()).collect();
    let name = CString::new(call.name.as_str()).expect("names have no zero");
    let mut launch = Launch {
        name: &name,
        buffers: [std::ptr::null_mut(); BUFFERS],
        params: &call.params,
        groups: call.groups as c_int,
    };
    for (at, index) in index_of.into_iter().enumerate() {
        launch.buffers[at] = copies[index].0.pointer();
    }
    if engine(&launch) != 0 {
        bail!("there is no kernel of this name");
    }
    for ((mut values, tensor), before) in copies.into_iter().zip(before) {
        if !values.is(&before) {
            if is_faulty {
                values.spoil();
            }
            tensor.inplace_op1(&values)?;
        }
    }
    Ok(())
}
