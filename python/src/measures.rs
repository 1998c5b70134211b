//! Estimates and comparisons for arrays of Python: those of tealight-eval.

use std::collections::{HashMap, HashSet};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tealight_eval::{inference, interval as intervals};

/// Most samples of a problem: a product over them is computed.
const MAX_SAMPLES: usize = 100_000_000;

/// A mean over problems with its 95 % interval.
#[pyclass(frozen, eq, get_all, module = "tealight_rl")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// The mean.
    value: f64,
    /// Lower end of the interval.
    low: f64,
    /// Upper end of the interval.
    high: f64,
}

impl From<tealight_eval::Estimate> for Estimate {
    fn from(estimate: tealight_eval::Estimate) -> Self {
        Self { value: estimate.value, low: estimate.low, high: estimate.high }
    }
}

#[pymethods]
impl Estimate {
    #[new]
    fn new(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high }
    }

    fn __float__(&self) -> f64 {
        self.value
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fields = (self.value, self.low, self.high).into_pyobject(py)?;
        Ok(fields.into_any().try_iter()?.into_any().unbind())
    }

    fn __repr__(&self) -> String {
        format!("Estimate({:.4}, low={:.4}, high={:.4})", self.value, self.low, self.high)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (f64, f64, f64)) {
        let it = slf.get();
        (slf.get_type().into_any(), (it.value, it.low, it.high))
    }
}

/// A mean difference of two models over the same problems, with its 95 % interval and p-value.
#[pyclass(frozen, eq, get_all, module = "tealight_rl")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effect {
    /// The mean of the differences, the first model minus the second.
    value: f64,
    /// Lower end of the interval.
    low: f64,
    /// Upper end of the interval.
    high: f64,
    /// Two-sided p-value of no difference.
    p_value: f64,
    /// Problems that both models have.
    problems: usize,
}

#[pymethods]
impl Effect {
    #[new]
    fn new(value: f64, low: f64, high: f64, p_value: f64, problems: usize) -> Self {
        Self { value, low, high, p_value, problems }
    }

    fn __float__(&self) -> f64 {
        self.value
    }

    fn __repr__(&self) -> String {
        format!(
            "Effect({:+.4}, low={:+.4}, high={:+.4}, p_value={:.2e}, problems={})",
            self.value, self.low, self.high, self.p_value, self.problems
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (f64, f64, f64, f64, usize)) {
        let it = slf.get();
        let fields = (it.value, it.low, it.high, it.p_value, it.problems);
        (slf.get_type().into_any(), fields)
    }
}

/// Refuses counts that no samples have.
fn check(n: usize, c: usize, k: usize) -> PyResult<()> {
    let refuse = |what: String| Err(PyValueError::new_err(what));
    if n > MAX_SAMPLES {
        return refuse(format!("{n} samples of one problem: at most {MAX_SAMPLES} are taken"));
    }
    if c > n {
        return refuse(format!(
            "{c} correct of {n} samples: there cannot be more correct ones than samples"
        ));
    }
    if k == 0 || k > n {
        return refuse(format!(
            "pass@{k} cannot be estimated from {n} samples of a problem: choose k from 1 to {n}, or draw more samples"
        ));
    }
    Ok(())
}

/// Pass@k of each problem, from its number of samples and of correct ones.
#[pyfunction]
pub(crate) fn pass_at_k(
    py: Python<'_>,
    counts: Vec<(usize, usize)>,
    k: usize,
) -> PyResult<Vec<f64>> {
    counts.iter().try_for_each(|(n, c)| check(*n, *c, k))?;
    Ok(py.detach(|| {
        counts.iter().map(|(n, c)| tealight_eval::pass_at_k::pass_at_k(*n, *c, k)).collect()
    }))
}

/// The mean of Pass@k over problems.
#[pyfunction]
pub(crate) fn mean_pass_at_k(
    py: Python<'_>,
    counts: Vec<(usize, usize)>,
    k: usize,
) -> PyResult<Estimate> {
    Ok(intervals::share(&pass_at_k(py, counts, k)?).into())
}

/// The mean over problems of the expected number of distinct solutions among k samples; of each problem its number of
/// samples and the solutions of the correct ones.
#[pyfunction]
pub(crate) fn mean_distinct(
    py: Python<'_>,
    problems: Vec<(usize, Vec<String>)>,
    k: usize,
) -> PyResult<Estimate> {
    problems.iter().try_for_each(|(n, solutions)| check(*n, solutions.len(), k))?;
    let distinct = |(n, solutions): &(usize, Vec<String>)| -> f64 {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for solution in solutions {
            *counts.entry(solution).or_default() += 1;
        }
        // In a fixed order: the sum has the same bits in every process.
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        counts.iter().fold(0.0, |sum, m| sum + tealight_eval::pass_at_k::pass_at_k(*n, *m, k))
    };
    let kinds = |(_, solutions): &(usize, Vec<String>)| solutions.iter().collect::<HashSet<_>>().len();
    let most = problems.iter().map(kinds).max().unwrap_or(1);
    let estimate = || intervals::distinct(&problems.iter().map(distinct).collect::<Vec<_>>(), most, k);
    Ok(py.detach(estimate).into())
}

/// The mean of values, one a problem, with an interval for their kind.
#[pyfunction]
pub(crate) fn interval(py: Python<'_>, values: Vec<f64>, kind: &str) -> PyResult<Estimate> {
    let refuse = |what: String| Err(PyValueError::new_err(what));
    if let Some(bad) = values.iter().find(|value| !value.is_finite()) {
        return refuse(format!("a value is {bad}: leave out what is not known"));
    }
    let outside = |value: &&f64| !(0.0..=1.0).contains(*value);
    match kind {
        "share" => match values.iter().find(outside) {
            Some(bad) => refuse(format!("{bad} is no share: shares are between 0 and 1")),
            None => Ok(py.detach(|| intervals::share(&values)).into()),
        },
        "mean" => Ok(py.detach(|| intervals::mean(&values)).into()),
        "amount" => Ok(py.detach(|| intervals::amount(&values)).into()),
        other => refuse(format!("kind {other:?} is not one of 'share', 'mean', 'amount'")),
    }
}

/// The mean difference of two models, one value a problem of each.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, first: Vec<f64>, second: Vec<f64>) -> PyResult<Effect> {
    if first.len() != second.len() {
        let (a, b) = (first.len(), second.len());
        return Err(PyValueError::new_err(format!(
            "{a} problems against {b}: both models need the same ones"
        )));
    }
    if first.iter().chain(&second).any(|value| !value.is_finite()) {
        return Err(PyValueError::new_err(
            "a value is not finite: leave out the problems that are not known",
        ));
    }
    // A share may change by 1; of other values nothing is known but how far they spread.
    let all = || first.iter().chain(&second).copied();
    let largest = match all().all(|value| (0.0..=1.0).contains(&value)) {
        true => 1.0,
        false => all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min),
    };
    let effect = py.detach(|| inference::paired(&first, &second, largest));
    let (value, low, high, p_value) = (effect.value, effect.low, effect.high, effect.p_value);
    Ok(Effect { value, low, high, p_value, problems: first.len() })
}
