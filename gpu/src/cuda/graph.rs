//! CUDA graphs of launches: captured on a stream of their own, launched on the device's one stream.
//!
//! What other threads launch meanwhile goes to the device's stream, and is not captured.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::cublas::{CudaBlas, sys as cublas};
use candle_core::cuda_backend::cudarc::driver::{
    CudaGraph, CudaSlice, CudaStream, DevicePtr, result, sys,
};
use candle_core::cuda_backend::{CudaDevice, WrapErr};
use candle_core::{Result, bail};

/// Bytes that products may use beside their matrices: the size that cuBLAS advises for compute capability 9.0.
const SCRATCH: usize = 32 << 20;

/// What launches are captured with.
#[derive(Debug)]
struct Capture {
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    _scratch: CudaSlice<u8>,
}

/// Launches as one.
pub(crate) struct Graph {
    graph: CudaGraph,
    /// The device's stream.
    stream: Arc<CudaStream>,
}

// SAFETY: the driver lets any thread use a graph, one at a time; a graph has one owner, which locks what it is kept in.
#[allow(unsafe_code)]
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

thread_local! {
    /// Where this thread's launches go while they are captured.
    static CAPTURED_ON: RefCell<Option<(Arc<CudaStream>, cublas::cublasHandle_t)>> =
        const { RefCell::new(None) };
}

/// The stream that this thread launches on, and the handle for products there.
pub(super) fn target(device: &CudaDevice) -> (Arc<CudaStream>, cublas::cublasHandle_t) {
    let captured = CAPTURED_ON.with_borrow(Clone::clone);
    captured.unwrap_or_else(|| (device.cuda_stream(), *device.cublas_handle().handle()))
}

/// Gives a handle memory for its products: a capture may not allocate any, and the algorithm of a product, so its bits,
/// may depend on how much there is.
pub(super) fn give_scratch(
    handle: cublas::cublasHandle_t,
    stream: &Arc<CudaStream>,
) -> Result<CudaSlice<u8>> {
    let scratch = stream.alloc_zeros::<u8>(SCRATCH).w()?;
    let (address, guard) = scratch.device_ptr(stream);
    // SAFETY: the memory is as large as is said and aligned as the driver allocates, and its owner keeps it for as long
    // as the handle is used. The handle's work is in the order of one stream.
    #[allow(unsafe_code)]
    unsafe { cublas::cublasSetWorkspace_v2(handle, address as *mut _, SCRATCH) }.result().w()?;
    drop(guard);
    Ok(scratch)
}

impl Capture {
    fn new(device: &CudaDevice) -> Result<Self> {
        let stream = device.cuda_stream().context().new_stream().w()?;
        let blas = CudaBlas::new(stream.clone()).w()?;
        // Zeroed in the device's stream, in which the graphs run that use it.
        let scratch = give_scratch(*blas.handle(), &device.cuda_stream())?;
        Ok(Self { stream, blas, _scratch: scratch })
    }
}

/// The capture of a device; one at a time.
fn capture_of(device: &CudaDevice) -> Result<Arc<Mutex<Capture>>> {
    static ALL: Mutex<BTreeMap<usize, Arc<Mutex<Capture>>>> = Mutex::new(BTreeMap::new());
    let ordinal = device.cuda_stream().context().ordinal();
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(capture) = all.get(&ordinal) {
        return Ok(capture.clone());
    }
    let capture = Arc::new(Mutex::new(Capture::new(device)?));
    all.insert(ordinal, capture.clone());
    Ok(capture)
}

/// Sends this thread's launches to the stream of a capture until dropped.
struct StreamRedirect;

impl StreamRedirect {
    fn begin(capture: &Capture) -> Self {
        CAPTURED_ON.set(Some((capture.stream.clone(), *capture.blas.handle())));
        Self
    }
}

impl Drop for StreamRedirect {
    fn drop(&mut self) {
        CAPTURED_ON.set(None);
    }
}

/// A capture that has begun, and ends even where the work panics: the stream is to be captured on again.
struct CaptureGuard<'a>(Option<&'a Arc<CudaStream>>);

impl<'a> CaptureGuard<'a> {
    fn new(stream: &'a Arc<CudaStream>) -> Result<Self> {
        stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).w()?;
        Ok(Self(Some(stream)))
    }

    fn end(mut self) -> Result<Option<CudaGraph>> {
        let stream = self.0.take().expect("it has begun");
        stream.end_capture(sys::CUgraphInstantiate_flags(0)).w()
    }
}

impl Drop for CaptureGuard<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0 {
            drop(stream.end_capture(sys::CUgraphInstantiate_flags(0)));
        }
    }
}

/// Does `work` once with the handle that products are captured with, without a capture: cuBLAS chooses algorithms, and
/// the driver loads kernels, where they are first used, and either may fail in a capture.
pub(crate) fn prepared(device: &CudaDevice, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let capture = capture_of(device)?;
    let capture = capture.lock().unwrap_or_else(PoisonError::into_inner);
    // Between two streams nothing is ordered but by waits.
    device.cuda_stream().synchronize().w()?;
    let redirect = StreamRedirect::begin(&capture);
    let done = work();
    drop(redirect);
    capture.stream.synchronize().w()?;
    done
}

/// Does `work`, and makes a graph of what it launches.
pub(crate) fn recorded<R>(
    device: &CudaDevice,
    work: impl FnOnce() -> Result<R>,
) -> Result<(R, Graph)> {
    let capture = capture_of(device)?;
    let capture = capture.lock().unwrap_or_else(PoisonError::into_inner);
    let guard = CaptureGuard::new(&capture.stream)?;
    let redirect = StreamRedirect::begin(&capture);
    let done = work();
    drop(redirect);
    // Also where the work failed.
    let graph = guard.end();
    match (done?, graph?) {
        (done, Some(graph)) => Ok((done, Graph { graph, stream: device.cuda_stream() })),
        _ => bail!("the driver captured nothing"),
    }
}

impl Graph {
    pub(crate) fn launch(&self) -> Result<()> {
        self.stream.context().bind_to_thread().w()?;
        // SAFETY: the graph is there as long as this is, and so are its kernels, of a module of the device. The memory
        // of its launches was compared with what the step at hand uses: arrays of the workspace that keeps this, the
        // cache and the weights, which outlive the step. The memory of products is that of the capture, never freed.
        #[allow(unsafe_code)]
        unsafe { result::graph::launch(self.graph.cu_graph_exec(), self.stream.cu_stream()) }.w()
    }
}

impl Drop for Graph {
    /// Waits until it does not run.
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(self.stream.synchronize());
    }
}
