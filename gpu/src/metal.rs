//! Launches on Metal. Written without a Mac at hand: its types were checked, it has never run.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use candle_core::{MetalDevice, Result, Storage, bail};
use candle_metal_kernels::metal::{ComputePipeline, Library};
use objc2_metal::{MTLCompileOptions, MTLSize};

use crate::{BLOCK, BUFFERS, Call};

/// The compiled kernels of one device.
#[derive(Default)]
struct Compiled {
    library: Option<Library>,
    pipelines: HashMap<String, ComputePipeline>,
}

/// By the number of the device in the registry.
fn compiled() -> &'static Mutex<HashMap<u64, Compiled>> {
    static COMPILED: OnceLock<Mutex<HashMap<u64, Compiled>>> = OnceLock::new();
    COMPILED.get_or_init(Mutex::default)
}

fn pipeline(name: &str, device: &MetalDevice) -> Result<ComputePipeline> {
    let metal = device.metal_device();
    let mut all = compiled().lock().expect("no panic while the lock is held");
    let of_device = all.entry(metal.registry_id()).or_default();
    if let Some(pipeline) = of_device.pipelines.get(name) {
        return Ok(pipeline.clone());
    }
    let to_error = |error| candle_core::Error::Msg(format!("Metal and kernel {name}: {error}"));
    if of_device.library.is_none() {
        let text = crate::program(crate::Dialect::Metal);
        let options = MTLCompileOptions::new();
        // Fast arithmetic takes every number to be finite: it would fold the kernels' questions for those away.
        // The newer `setMathMode` is not there before macOS 15.
        #[expect(deprecated, reason = "the one name that every macOS has")]
        options.setFastMathEnabled(false);
        let library = metal.new_library_with_source(&text, Some(&options));
        of_device.library = Some(library.map_err(|e| to_error(e.to_string()))?);
    }
    let library = of_device.library.as_ref().expect("just compiled");
    let function = library.get_function(name, None).map_err(|e| to_error(e.to_string()))?;
    let pipeline = metal
        .new_compute_pipeline_state_with_function(&function)
        .map_err(|e| to_error(e.to_string()))?;
    let most = pipeline.max_total_threads_per_threadgroup();
    if most < BLOCK {
        bail!(
            "Metal and kernel {name}: groups of {most} threads on this GPU; kernels need {BLOCK}"
        );
    }
    of_device.pipelines.insert(name.to_owned(), pipeline.clone());
    Ok(pipeline)
}

pub(crate) fn run(call: &Call<'_>, device: &MetalDevice) -> Result<()> {
    let pipeline = pipeline(&call.name, device)?;
    let storages: Vec<_> = call.tensors.iter().map(|tensor| tensor.storage_and_layout()).collect();
    let guard = device.command_encoder()?;
    let encoder = guard.as_ref();
    encoder.set_compute_pipeline_state(&pipeline);
    for index in 0..BUFFERS {
        // Buffers that a kernel does not use get its first tensor.
        let (storage, layout) = storages.get(index).unwrap_or(&storages[0]);
        let Storage::Metal(storage) = &**storage else {
            bail!("{}: a tensor is not on the GPU", call.name);
        };
        let width = candle_core::backend::BackendStorage::dtype(storage).size_in_bytes();
        // All of them as outputs: the encoder then puts a barrier between this launch and what reads them.
        encoder.set_output_buffer(index, Some(storage.buffer()), layout.start_offset() * width);
    }
    encoder.set_bytes(BUFFERS, &call.params);
    let size = |width| MTLSize { width, height: 1, depth: 1 };
    encoder.dispatch_thread_groups(size(call.groups), size(BLOCK));
    Ok(())
}
