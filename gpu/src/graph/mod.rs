//! Launches that a device starts as one: CUDA graphs.
//!
//! A decoding step launches the same kernels on the same memory as the step before it, and the host needs longer to
//! launch them than the device needs to run them. [`Workspace::repeated`] notes the launches of a step. Of a step that
//! launches the same again a graph is made, and further steps launch the graph.
//!
//! Nothing is assumed about a step. Its code runs every time, and each of its launches is compared with the graph's
//! instead of being launched: the kernel, its numbers and the addresses of its memory. A step that differs anywhere is
//! launched kernel by kernel. A step that asks a device for anything else, as a copy or an operation of Candle, is
//! never a graph. In every workspace, the first graph of each number of rows is compared, bit for bit, with the same
//! step launched kernel by kernel.

mod launches;

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Result, bail};

pub(crate) use launches::{Identity, Replay};

use crate::self_check::comparison;
use crate::workspace::{Array, Workspace};
use crate::{counts, is_by_candle};

/// The launches of a step.
#[derive(Debug, Default)]
struct Launches {
    all: Vec<Identity>,
    /// Whether the step asked for something that is no launch.
    has_more: bool,
}

/// What becomes of the launches of this thread.
enum Mode {
    /// They are launched.
    Direct,
    /// The same, and noted.
    Note(Launches),
    /// They are compared with these, and not launched.
    Compare { with: Arc<[Identity]>, at: usize, is_same: bool },
    /// They become a graph, and are not launched.
    Record(Launches, Replay),
}

thread_local! {
    static MODE: RefCell<Mode> = const { RefCell::new(Mode::Direct) };
}

/// What a workspace knows of the steps that were computed in it.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    last: Last,
    /// The numbers of rows of which a graph's results were compared with those of its launches.
    checked: HashSet<usize>,
}

#[derive(Debug, Default)]
enum Last {
    #[default]
    Nothing,
    /// The launches of the last steps, and how many steps had them.
    Launches(Arc<[Identity]>, usize),
    /// A graph, and the launches that it is of.
    Graph(Arc<[Identity]>, Replay),
    /// Steps are no graphs here.
    Never,
}

/// A graph is made if at least this many steps will follow, or if this many steps in a row made the same launches.
const MIN_REPEATS: usize = 3;

static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Workspaces in which no graph could be made, in this process.
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Has this process launch every kernel by itself from now on.
pub fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

static NOTICE: Mutex<Option<String>> = Mutex::new(None);

/// Why this process makes no more graphs, once.
pub fn take_notice() -> Option<String> {
    NOTICE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn turn_off_because(why: String) {
    turn_off();
    *NOTICE.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
}

fn are_made_on(device: &Device) -> bool {
    let is_possible = device.is_cuda() || device.is_cpu() && crate::has_emulation();
    is_possible && !IS_OFF.load(Ordering::Relaxed) && !is_by_candle() && !comparison::is_watching()
}

/// Launches, or what the mode of this thread makes of a launch.
pub(crate) fn launched(
    identity: impl FnOnce() -> Result<Identity>,
    record: impl FnOnce(&mut Replay) -> Result<()>,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let is_launched = MODE.with_borrow_mut(|mode| match mode {
        Mode::Direct => Ok(true),
        Mode::Note(noted) => {
            noted.all.push(identity()?);
            Ok(true)
        }
        Mode::Compare { with, at, is_same } => {
            *is_same = *is_same && with.get(*at) == Some(&identity()?);
            *at += 1;
            if !*is_same {
                bail!("not the launches of the graph");
            }
            Ok(false)
        }
        Mode::Record(recorded, replay) => {
            recorded.all.push(identity()?);
            record(replay)?;
            Ok(false)
        }
    })?;
    if is_launched { launch() } else { Ok(()) }
}

/// Notes that the step in progress contains an operation that no graph can capture.
pub(crate) fn mark_uncapturable() {
    MODE.with_borrow_mut(|mode| match mode {
        Mode::Direct => {}
        Mode::Note(launches) | Mode::Record(launches, _) => launches.has_more = true,
        Mode::Compare { is_same, .. } => *is_same = false,
    });
}

/// Does `work` in a mode; the mode is left even where `work` panics.
fn within<R>(mode: Mode, work: impl FnOnce() -> R) -> (R, Mode) {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            MODE.replace(Mode::Direct);
        }
    }
    MODE.replace(mode);
    let left = Left;
    let done = work();
    let mode = MODE.replace(Mode::Direct);
    drop(left);
    (done, mode)
}

/// The result of `work`, which is not launched, where it would launch the same.
fn compared(with: &Arc<[Identity]>, work: &dyn Fn() -> Result<Array>) -> Result<Option<Array>> {
    let mode = Mode::Compare { with: with.clone(), at: 0, is_same: true };
    let (done, mode) = within(mode, work);
    match mode {
        Mode::Compare { at, is_same: true, .. } => {
            let done = done?;
            Ok((at == with.len()).then_some(done))
        }
        _ => Ok(None),
    }
}

/// The result of `work` and its launches; none where it did something else too.
fn noted(work: &dyn Fn() -> Result<Array>) -> Result<(Array, Option<Arc<[Identity]>>)> {
    let (done, mode) = within(Mode::Note(Launches::default()), work);
    let all = match mode {
        Mode::Note(Launches { all, has_more: false }) => Some(all.into()),
        _ => None,
    };
    Ok((done?, all))
}

/// The result of `work`, which is not launched, and the graph that would compute it.
fn recorded(
    device: &Device,
    work: &dyn Fn() -> Result<Array>,
) -> Result<(Array, Arc<[Identity]>, Replay)> {
    let mut mode = Mode::Direct;
    let mut in_mode = || {
        let (done, left) = within(Mode::Record(Launches::default(), Replay::new()), work);
        mode = left;
        done
    };
    let (done, graph) = match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            let (done, graph) = crate::cuda::graph::recorded(device, in_mode)?;
            (done, Some(Replay::Cuda(graph)))
        }
        _ => (in_mode()?, None),
    };
    match mode {
        Mode::Record(Launches { all, has_more: false }, replay) => {
            Ok((done, all.into(), graph.unwrap_or(replay)))
        }
        _ => bail!("a step has more than launches"),
    }
}

/// Has a device do once what a graph of `work` needs, before one is made.
fn prepared(device: &Device, work: &dyn Fn() -> Result<Array>) -> Result<()> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => crate::cuda::graph::prepared(device, || work().map(drop)),
        _ => work().map(drop),
    }
}

/// An array's values as bits, once the device has computed them.
fn bits(array: &Array) -> Result<Vec<u32>> {
    let values = array.tensor().to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    Ok(values.into_iter().map(f32::to_bits).collect())
}

impl Workspace {
    /// Does `work`, a part of a decoding step; at least `more` equal steps follow. If it launches what the previous
    /// steps launched, its launches become a graph.
    ///
    /// All that `work` changes must be in arrays that it makes, or the same if `work` is done again. What it reads and
    /// writes beside its own arrays must be there for as long as this workspace is. The same work at the same time by
    /// another thread waits.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn repeated(
        self: &Arc<Self>,
        more: usize,
        work: &dyn Fn() -> Result<Array>,
    ) -> Result<Array> {
        if !are_made_on(self.device()) {
            return work();
        }
        let mut repeats = self.repeats();
        match std::mem::take(&mut repeats.last) {
            Last::Never => {
                repeats.last = Last::Never;
                return work();
            }
            Last::Nothing => {}
            Last::Graph(launches, replay) => {
                if let Some(done) = compared(&launches, work)? {
                    replay.launch(&launches, self.device())?;
                    repeats.last = Last::Graph(launches, replay);
                    return Ok(done);
                }
            }
            Last::Launches(launches, steps) if more < MIN_REPEATS && steps < MIN_REPEATS => {
                let (done, again) = noted(work)?;
                let steps = if again.as_ref() == Some(&launches) { steps + 1 } else { 1 };
                repeats.last = again.map_or(Last::Never, |again| Last::Launches(again, steps));
                return Ok(done);
            }
            Last::Launches(launches, _) => {
                if compared(&launches, work)?.is_some() {
                    return self.first_launch(&mut repeats, work);
                }
            }
        }
        let (done, launches) = noted(work)?;
        repeats.last = launches.map_or(Last::Never, |launches| Last::Launches(launches, 1));
        Ok(done)
    }

    /// Makes a graph of `work` and launches it.
    fn first_launch(
        &self,
        repeats: &mut Repeats,
        work: &dyn Fn() -> Result<Array>,
    ) -> Result<Array> {
        repeats.last = Last::Never;
        let is_first = !repeats.checked.contains(&self.rows());
        let prepared = if is_first { prepared(self.device(), work) } else { Ok(()) };
        let made = prepared.and_then(|()| recorded(self.device(), work)).and_then(
            |(done, launches, replay)| {
                replay.launch(&launches, self.device())?;
                Ok((done, launches, replay))
            },
        );
        let (done, launches, replay) = match made {
            Ok(made) => made,
            Err(error) => {
                // Once may be chance, as where memory is short.
                if FAILED.fetch_add(1, Ordering::Relaxed) > 0 {
                    turn_off_because(format!("no CUDA graph of a decoding step was made: {error}"));
                }
                return work();
            }
        };
        if is_first {
            // Once for each number of rows: a graph must compute the bits of its launches.
            let of_graph = bits(&done)?;
            let direct = work()?;
            if bits(&direct)? != of_graph {
                turn_off_because("a CUDA graph computes other bits than its kernels do".to_owned());
                return Ok(direct);
            }
            repeats.checked.insert(self.rows());
        }
        counts::graphs_made();
        repeats.last = Last::Graph(launches, replay);
        Ok(done)
    }
}

#[cfg(all(test, any(feature = "emulated", feature = "cuda")))]
mod tests;
