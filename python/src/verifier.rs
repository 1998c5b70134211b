//! `Verifier`: one of Tealight's verifiers, which judges pairs of a gold answer and a completion, many at a time in
//! threads of its own and without the interpreter's lock.
//!
//! A process that was forked (`multiprocessing`) has none of its parent's threads: nothing here keeps threads between
//! calls, and a verifier that talks to programs opens its own ones in the child.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use tealight_datasets::verify::math::Mode;
use tealight_core::Prompt;
use tealight_datasets::{Database, Problem, judge, thinking, verify};

use crate::refused;
use crate::verdict::Verdict;

/// How often a batch looks whether the user pressed Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);
/// Longest limit of seconds that is taken: ten days.
const MAX_SECONDS: f64 = 864_000.0;

/// A verifier, by kind.
#[derive(Clone)]
enum Judge {
    Math(Mode),
    Other(Arc<dyn tealight_datasets::Verifier>),
}

impl Judge {
    fn open(spec: &str) -> PyResult<Self> {
        Ok(match spec {
            "math" => Self::Math(Mode::Flexible),
            "math:strict" => Self::Math(Mode::Strict),
            other => Self::Other(verify::open(other).map_err(refused)?),
        })
    }

    fn verdict(&self, pair: &Pair) -> Verdict {
        let Some(gold) = &pair.gold else {
            return Verdict::unjudged("there is no gold answer to compare with");
        };
        match self {
            Self::Math(mode) => {
                let Some(answer) = thinking::parts(&pair.completion, pair.starts_inside).answer
                else {
                    return Verdict::new(tealight_datasets::Verdict::NoAnswer, None);
                };
                let checked = match judge::check(gold, answer, *mode) {
                    Ok(checked) => checked,
                    Err(verdict) => return Verdict::new(verdict, None),
                };
                let found = checked.found.as_ref();
                let found =
                    found.map(|found| (found.text.to_string(), found.rule.name().to_owned()));
                Verdict::new(checked.into_verdict(gold, answer), found)
            }
            Self::Other(verifier) => {
                let prompt = Prompt::Text(pair.prompt.clone());
                let problem = Problem {
                    context: pair.context.clone().map(Database::File),
                    ..Problem::new(pair.id.clone(), prompt, gold.clone())
                };
                let grade =
                    judge::grade(&**verifier, &problem, &pair.completion, pair.starts_inside);
                Verdict::graded(grade)
            }
        }
    }
}

/// A gold answer and a completion to judge.
#[derive(Default)]
struct Pair {
    id: String,
    gold: Option<String>,
    completion: String,
    prompt: String,
    context: Option<String>,
    starts_inside: bool,
}

/// One of Tealight's verifiers, by the name that `tealight --verifier` takes.
#[pyclass(frozen, module = "tealight_rl")]
pub(crate) struct Verifier {
    /// The name and argument that the verifier was opened by.
    #[pyo3(get)]
    spec: String,
    /// The verifier, and the process that opened it.
    judge: Mutex<(u32, Judge)>,
}

impl Drop for Verifier {
    fn drop(&mut self) {
        let own = self.judge.get_mut().unwrap_or_else(PoisonError::into_inner);
        if own.0 != std::process::id() {
            // The programs belong to the process that forked this one, which goes on using them.
            std::mem::forget(std::mem::replace(&mut own.1, Judge::Math(Mode::Flexible)));
        }
    }
}

impl Verifier {
    /// The verifier of this process.
    fn judge(&self) -> PyResult<Judge> {
        let mut own = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if own.0 != process {
            let other = std::mem::replace(&mut *own, (process, Judge::open(&self.spec)?));
            std::mem::forget(other);
        }
        Ok(own.1.clone())
    }
}

/// Text of Python; what UTF-8 cannot hold (lone surrogates) becomes a replacement character.
fn text(text: &Bound<'_, PyString>) -> String {
    text.to_string_lossy().into_owned()
}

/// The tag that opens a thought at the end of a prompt.
#[pyfunction]
pub(crate) fn opening(prompt: Bound<'_, PyString>) -> Option<String> {
    thinking::opening(&text(&prompt)).map(str::to_owned)
}

#[pymethods]
impl Verifier {
    #[new]
    fn new(spec: String) -> PyResult<Self> {
        let judge = Judge::open(&spec)?;
        Ok(Self { spec, judge: Mutex::new((std::process::id(), judge)) })
    }

    /// Judges one completion.
    #[pyo3(signature = (gold, completion, *, prompt=None, context=None, starts_inside=false))]
    fn verify(
        &self,
        py: Python<'_>,
        gold: Option<Bound<'_, PyString>>,
        completion: Bound<'_, PyString>,
        prompt: Option<Bound<'_, PyString>>,
        context: Option<String>,
        starts_inside: bool,
    ) -> PyResult<Verdict> {
        let pair = Pair {
            id: String::new(),
            gold: gold.as_ref().map(text),
            completion: text(&completion),
            prompt: prompt.as_ref().map(text).unwrap_or_default(),
            context,
            starts_inside,
        };
        let judge = self.judge()?;
        Ok(py.detach(|| judge.verdict(&pair)))
    }

    /// Judges many completions at once; see `tealight_rl.verify_batch`.
    #[pyo3(signature = (golds, completions, *, prompts=None, contexts=None, starts_inside=false, threads=None,
        max_seconds=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn verify_batch(
        &self,
        py: Python<'_>,
        golds: Vec<Option<Bound<'_, PyString>>>,
        completions: Vec<Bound<'_, PyString>>,
        prompts: Option<Vec<Bound<'_, PyString>>>,
        contexts: Option<Vec<Option<String>>>,
        starts_inside: bool,
        threads: Option<usize>,
        max_seconds: Option<f64>,
    ) -> PyResult<Vec<Verdict>> {
        let count = completions.len();
        let lengths = [
            ("gold answers", Some(golds.len())),
            ("prompts", prompts.as_ref().map(Vec::len)),
            ("contexts", contexts.as_ref().map(Vec::len)),
        ];
        for (name, length) in lengths {
            if let Some(length) = length.filter(|length| *length != count) {
                return Err(PyValueError::new_err(format!(
                    "{length} {name} for {count} completions: give one for each"
                )));
            }
        }
        let limit = match max_seconds {
            None => None,
            Some(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => {
                Some(Duration::from_secs_f64(seconds))
            }
            Some(seconds) => {
                return Err(PyValueError::new_err(format!(
                    "max_seconds={seconds} is out of range: choose 0 to {MAX_SECONDS}"
                )));
            }
        };
        let mut contexts = contexts.unwrap_or_default();
        let pairs =
            golds.iter().zip(&completions).enumerate().map(|(index, (gold, completion))| {
                let context = contexts.get_mut(index).and_then(Option::take);
                let prompt =
                    prompts.as_ref().map(|prompts| text(&prompts[index])).unwrap_or_default();
                let (gold, completion) = (gold.as_ref().map(text), text(completion));
                Pair { id: index.to_string(), gold, completion, prompt, context, starts_inside }
            });
        let pairs: Vec<Pair> = pairs.collect();
        let judge = self.judge()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or(cores).clamp(1, 1024).min(count.max(1));
        py.detach(|| batch(&judge, &pairs, threads, limit))
    }

    fn __repr__(&self) -> String {
        format!("Verifier({:?})", self.spec)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,)) {
        (slf.get_type().into_any(), (slf.get().spec.clone(),))
    }
}

/// Judges all pairs in threads that end with the batch.
fn batch(
    judge: &Judge,
    pairs: &[Pair],
    threads: usize,
    limit: Option<Duration>,
) -> PyResult<Vec<Verdict>> {
    let started = Instant::now();
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut judged = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(pair) = pairs.get(index) else { return judged };
            if stopped.load(Ordering::Relaxed) {
                return judged;
            }
            let is_late = limit.is_some_and(|limit| started.elapsed() >= limit);
            judged.push((
                index,
                if is_late {
                    Verdict::unjudged("the batch's time (max_seconds) was over before its turn")
                } else {
                    judge.verdict(pair)
                },
            ));
        }
    };
    let (send, receive) = channel();
    let mut verdicts: Vec<Option<Verdict>> = vec![None; pairs.len()];
    let interrupted = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, work) = (send.clone(), &work);
            scope.spawn(move || send.send(work()).is_ok());
        }
        drop(send);
        let mut interrupted = Ok(());
        loop {
            match receive.recv_timeout(SIGNALS) {
                Ok(judged) => {
                    for (index, verdict) in judged {
                        verdicts[index] = Some(verdict);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return interrupted,
                Err(RecvTimeoutError::Timeout) if interrupted.is_ok() => {
                    interrupted = Python::attach(|py| py.check_signals());
                    stopped.store(interrupted.is_err(), Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    });
    interrupted?;
    let missing = || Verdict::unjudged("the verifier's thread ended early");
    Ok(verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(missing)).collect())
}
