//! The kernels' text to PTX by NVRTC, once for a driver, a compiler and a kind of GPU: see `disk_cache`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use candle_core::cuda_backend::cudarc::driver::{CudaContext, sys};
use candle_core::cuda_backend::cudarc::nvrtc::{self, CompileOptions, compile_ptx_with_opts};
use candle_core::cuda_backend::{CudaDevice, WrapErr};
use candle_core::{Result, bail};

use crate::disk_cache::{Key, cached};

/// The PTX for a device's architecture.
pub(super) fn ptx(device: &CudaDevice) -> Result<Arc<str>> {
    type ByArchitecture = HashMap<String, Arc<str>>;
    static COMPILED: Mutex<Option<ByArchitecture>> = Mutex::new(None);
    let architecture = architecture(device.cuda_stream().context())?;
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let compiled = compiled.get_or_insert_default();
    if let Some(ptx) = compiled.get(&architecture) {
        return Ok(ptx.clone());
    }
    let text = crate::program(crate::Dialect::Cuda);
    let (driver, compiler) = (driver(), compiler());
    let key = Key {
        what: "ptx",
        text: &text,
        parts: &[&format!("{compiler:?}"), &format!("{driver:?}"), &architecture],
    };
    let ptx: Arc<str> = cached(&key, || {
        compile(&text, &architecture).map_err(|error| match advice(compiler, driver) {
            Some(advice) => candle_core::Error::Msg(format!("{error}; {advice}")),
            None => error,
        })
    })?
    .into();
    compiled.insert(architecture, ptx.clone());
    Ok(ptx)
}

/// `compute_90` for a GPU of compute capability 9.0.
fn architecture(context: &CudaContext) -> Result<String> {
    let (major, minor) = context.compute_capability().w()?;
    if major < 8 {
        bail!("the GPU has compute capability {major}.{minor}; kernels need 8.0 or later");
    }
    Ok(format!("compute_{major}{minor}"))
}

fn compile(text: &str, architecture: &str) -> Result<String> {
    let by = |architecture: &str| {
        let options = vec![format!("--gpu-architecture={architecture}")];
        compile_ptx_with_opts(text, CompileOptions { options, ..Default::default() })
    };
    // Without the library the loader panics: that is a missing file, not a bug.
    let compiled = std::panic::catch_unwind(|| {
        // An NVRTC that is older than the GPU knows none newer than this.
        by(architecture).or_else(|_| by("compute_80"))
    });
    match compiled {
        Ok(Ok(ptx)) => Ok(ptx.to_src()),
        Ok(Err(error)) => bail!("NVRTC does not compile the kernels: {error}"),
        Err(_) => bail!(
            "libnvrtc was not found: install CUDA's runtime compiler, or put it into LD_LIBRARY_PATH"
        ),
    }
}

/// Major and minor version of CUDA that the driver knows.
pub(super) fn driver() -> Option<(i32, i32)> {
    let mut version = 0;
    // SAFETY: the driver writes one number to the address that it is given.
    #[allow(unsafe_code)]
    let status = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    status.result().ok().map(|()| (version / 1000, version % 1000 / 10))
}

/// Major and minor version of NVRTC.
fn compiler() -> Option<(i32, i32)> {
    std::panic::catch_unwind(|| {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: NVRTC writes one number to each address that it is given.
        #[allow(unsafe_code)]
        let status = unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        status.result().ok().map(|()| (major, minor))
    })
    .ok()
    .flatten()
}

/// The mend where the driver rejects the compiler's PTX.
pub(super) fn advice(compiler: Option<(i32, i32)>, driver: Option<(i32, i32)>) -> Option<String> {
    let ((major, minor), (known, sub)) = (compiler?, driver?);
    ((major, minor) > (known, sub)).then(|| {
        format!(
            "the runtime compiler is of CUDA {major}.{minor} and the driver knows CUDA {known}.{sub}: install \
             nvidia-cuda-nvrtc of CUDA {known}.{sub}, or a newer driver"
        )
    })
}

/// The advice for this machine.
pub(super) fn advice_here() -> Option<String> {
    advice(compiler(), driver())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvrtc_compiles_the_kernels_where_it_is_found() {
        match compile(&crate::program(crate::Dialect::Cuda), "compute_80") {
            Ok(ptx) => assert!(ptx.contains("attention_keys_bf16") && ptx.contains("adamw_f32")),
            Err(error) => assert!(error.to_string().contains("libnvrtc"), "{error}"),
        }
    }

    #[test]
    fn a_compiler_that_is_newer_than_the_driver_is_named() {
        let text = advice(Some((13, 0)), Some((12, 4))).expect("advice");
        assert!(text.contains("CUDA 13.0") && text.contains("nvrtc of CUDA 12.4"), "{text}");
        assert_eq!(advice(Some((12, 4)), Some((13, 0))), None);
    }
}
