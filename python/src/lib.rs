//! The module `tealight_rl._tealight`: verifiers, measures and results for Python. What people call is in the Python
//! files of `lib/tealight_rl/`; here stands what needs Rust.

mod measures;
mod results;
mod verdict;
mod verifier;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An error of ours as Python's `ValueError`, with its causes.
fn refused(error: impl Into<anyhow::Error>) -> PyErr {
    PyValueError::new_err(format!("{:#}", error.into()))
}

/// Verifiers, measures and results of Tealight, compiled.
#[pymodule]
mod _tealight {
    #[pymodule_export]
    use crate::measures::{
        Effect, Estimate, compare, interval, mean_distinct, mean_pass_at_k, pass_at_k,
    };
    #[pymodule_export]
    use crate::results::load;
    #[pymodule_export]
    use crate::verdict::Verdict;
    #[pymodule_export]
    use crate::verifier::{Verifier, opening};
}
