//! Launches on the CPU, for tests: the kernels as C, one thread after the other.

use std::ffi::{CString, c_char, c_int, c_void};

use candle_core::{CpuStorage, Result, Storage, bail};

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

pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let held: Vec<_> = call.tensors.iter().map(|tensor| tensor.storage_and_layout()).collect();
    let mut buffers = [std::ptr::null_mut(); BUFFERS];
    for (buffer, (storage, layout)) in buffers.iter_mut().zip(&held) {
        let Storage::Cpu(storage) = &**storage else {
            bail!("{}: a tensor is not on the CPU", call.name)
        };
        let start = layout.start_offset();
        *buffer = match storage {
            CpuStorage::F32(values) => values[start..].as_ptr() as *mut c_void,
            CpuStorage::BF16(values) => values[start..].as_ptr() as *mut c_void,
            CpuStorage::U32(values) => values[start..].as_ptr() as *mut c_void,
            _ => bail!("{}: kernels know f32, bf16 and u32", call.name),
        };
    }
    let name = CString::new(call.name.as_str()).expect("names have no zero");
    // SAFETY: the wrappers in `kernels` have checked sizes. A kernel writes memory that Rust lends for reading
    // alone, as a GPU's kernels do; nothing reads it meanwhile, and tests alone run this.
    #[allow(unsafe_code)]
    let failed = unsafe {
        tealight_emulate(name.as_ptr(), buffers.as_ptr(), &call.params, call.groups as c_int)
    };
    if failed != 0 {
        bail!("there is no kernel {}", call.name);
    }
    Ok(())
}
