//! Ways to run the kernels without a GPU, one of which `TEALIGHT_EMULATION` names, for tests and scripts/check-kernels:
//!
//! - `plain`, the default: as C, the threads of a group one after the other
//! - `backward`, `shuffled`: the same in another order, which shows a race that the first order hides
//! - `cuda`: the CUDA text itself, its shuffles, its bf16 and its tensor cores included; a block is 256 fibers, a warp
//!   32 of them, the last first; `cuda-forward`, `cuda-shuffled`: in other orders
//! - `opencl`, with the feature of that name: by OpenCL, for Oclgrind
//!
//! `TEALIGHT_EMULATED_FAULT` names a kernel that is to be wrong, as `logp_f32`, for tests of what notices; `graph`
//! leaves the first launch of every graph out.

use std::ffi::c_int;
#[cfg(target_os = "linux")]
use std::sync::Mutex;
use std::sync::OnceLock;

use candle_core::{Result, bail};

use crate::emulated::{Launch, plain, run_by};
use crate::sizes::BLOCK;
use crate::{Call, Params};

#[allow(unsafe_code)]
// SAFETY: the signatures are those of `kernels/emulated.c`, `kernels/fibers.cc` and `kernels/opencl.c`.
unsafe extern "C" {
    fn tealight_emulate_ordered(
        order: *const c_int,
        name: *const std::ffi::c_char,
        buffers: *const *mut std::ffi::c_void,
        params: *const Params,
        groups: c_int,
    ) -> c_int;
    #[cfg(target_os = "linux")]
    fn tealight_emulate_cuda(
        order: *const c_int,
        name: *const std::ffi::c_char,
        buffers: *const *mut std::ffi::c_void,
        params: *const Params,
        groups: c_int,
    ) -> c_int;
    #[cfg(feature = "opencl")]
    fn tealight_emulate_opencl(
        text: *const std::ffi::c_char,
        name: *const std::ffi::c_char,
        buffers: *const *mut std::ffi::c_void,
        bytes: *const usize,
        params: *const Params,
        groups: c_int,
    ) -> c_int;
}

/// Runs a kernel as the environment asks.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let settings = settings()?;
    run_by(call, is_faulty(&call.name), |launch| settings.engine.launch(launch))
}

/// Whether a kernel, or graphs, are to be wrong.
pub(crate) fn is_faulty(name: &str) -> bool {
    settings().is_ok_and(|settings| settings.fault.as_deref() == Some(name))
}

/// Whether it is CUDA's text that runs.
pub(crate) fn is_of_cuda() -> bool {
    #[cfg(target_os = "linux")]
    return settings().is_ok_and(|settings| matches!(settings.engine, Engine::Cuda(_)));
    #[cfg(not(target_os = "linux"))]
    false
}

/// The settings in the environment.
pub(crate) struct Settings {
    pub(crate) engine: Engine,
    pub(crate) fault: Option<String>,
}

pub(crate) enum Engine {
    Plain,
    /// The threads of a group in this order.
    Ordered(Box<[c_int; BLOCK]>),
    /// CUDA's text, the threads of a block in this order.
    #[cfg(target_os = "linux")]
    Cuda(Box<[c_int; BLOCK]>),
    #[cfg(feature = "opencl")]
    OpenCl(std::ffi::CString),
}

/// The settings of this process.
pub(crate) fn settings() -> Result<&'static Settings> {
    static SETTINGS: OnceLock<std::result::Result<Settings, String>> = OnceLock::new();
    let read = || {
        let name = std::env::var("TEALIGHT_EMULATION").unwrap_or_default();
        let engine = Engine::named(&name).map_err(|error| error.to_string())?;
        Ok(Settings { engine, fault: std::env::var("TEALIGHT_EMULATED_FAULT").ok() })
    };
    match SETTINGS.get_or_init(read) {
        Ok(settings) => Ok(settings),
        Err(error) => bail!("{error}"),
    }
}

impl Engine {
    fn named(name: &str) -> Result<Self> {
        let order = |permutation: fn(usize) -> usize| {
            Box::new(std::array::from_fn(|thread| (permutation(thread) % BLOCK) as c_int))
        };
        let backward = || order(|thread| BLOCK - 1 - thread);
        // An odd factor reaches every thread of a power of two once.
        let shuffled = || order(|thread| thread * 97 + 31);
        Ok(match name {
            "" | "plain" => Self::Plain,
            "backward" => Self::Ordered(backward()),
            "shuffled" => Self::Ordered(shuffled()),
            #[cfg(target_os = "linux")]
            "cuda" => Self::Cuda(backward()),
            #[cfg(target_os = "linux")]
            "cuda-forward" => Self::Cuda(order(|thread| thread)),
            #[cfg(target_os = "linux")]
            "cuda-shuffled" => Self::Cuda(shuffled()),
            #[cfg(feature = "opencl")]
            "opencl" => Self::OpenCl(opencl_text()?),
            _ => bail!(
                "TEALIGHT_EMULATION={name}: choose plain, backward, shuffled, cuda, cuda-forward, cuda-shuffled (not on \
                 Windows) or opencl (with the feature of that name)"
            ),
        })
    }

    pub(crate) fn launch(&self, launch: &Launch<'_>) -> c_int {
        #[cfg(target_os = "linux")]
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let Launch { name, buffers, params, groups, .. } = launch;
        match self {
            Self::Plain => plain(launch),
            // SAFETY: as for `plain`; the order has every thread of a group.
            #[allow(unsafe_code)]
            Self::Ordered(order) => unsafe {
                tealight_emulate_ordered(
                    order.as_ptr(),
                    name.as_ptr(),
                    buffers.as_ptr(),
                    *params,
                    *groups,
                )
            },
            #[cfg(target_os = "linux")]
            Self::Cuda(order) => {
                let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // SAFETY: as for `plain`; its fibers are one process-wide set, which the lock keeps to one launch.
                #[allow(unsafe_code)]
                unsafe {
                    tealight_emulate_cuda(
                        order.as_ptr(),
                        name.as_ptr(),
                        buffers.as_ptr(),
                        *params,
                        *groups,
                    )
                }
            }
            #[cfg(feature = "opencl")]
            Self::OpenCl(text) => {
                let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // SAFETY: as for `plain`, with the bytes that each buffer has; one launch at a time.
                #[allow(unsafe_code)]
                unsafe {
                    tealight_emulate_opencl(
                        text.as_ptr(),
                        name.as_ptr(),
                        buffers.as_ptr(),
                        launch.bytes.as_ptr(),
                        *params,
                        *groups,
                    )
                }
            }
        }
    }
}

/// The kernels in OpenCL C, or the file that `TEALIGHT_KERNELS` names: kernels that are wrong on purpose.
#[cfg(feature = "opencl")]
fn opencl_text() -> Result<std::ffi::CString> {
    let text = match std::env::var_os("TEALIGHT_KERNELS") {
        Some(path) => std::fs::read_to_string(path)?,
        None => crate::program(crate::Dialect::OpenCl),
    };
    std::ffi::CString::new(text).map_err(candle_core::Error::wrap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_every_thread_once() {
        for name in ["backward", "shuffled"] {
            let Engine::Ordered(mut order) = Engine::named(name).expect("known") else {
                panic!("{name} is an order")
            };
            assert_ne!(order[0], 0);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(thread, at)| thread as c_int == *at));
        }
        assert!(Engine::named("sideways").is_err());
    }
}
