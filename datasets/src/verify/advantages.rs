//! The advantages of a group of samples by a function of the user's, `FILE.py:FUNCTION`.
//!
//! The function names what it reads: its parameters are the names that the language of rules has, each an array with
//! one number a sample, or a number. It returns one number a sample. It runs in the workers that Python verifiers run
//! in.

use serde_json::Value;

use super::{Program, python};

/// A Python function of one group, with its running interpreter.
pub struct GroupFunction(Program);

impl GroupFunction {
    /// Loads `FILE.py:FUNCTION` or `timeout=SECONDS:FILE.py:FUNCTION`.
    ///
    /// # Errors
    /// No such function, one that cannot be loaded, or one that needs a parameter of another name.
    pub fn open(argument: &str) -> Result<Self, String> {
        python::open_advantages(argument).map(Self)
    }

    /// The names of its parameters.
    pub fn reads(&self) -> &[String] {
        self.0.reads()
    }

    /// The advantages of a group of `count` samples; `values` has what the function reads, by name.
    ///
    /// # Errors
    /// A function that fails, hangs, or returns another number of advantages, or what is no finite number.
    pub fn advantages(&self, count: usize, values: &Value) -> Result<Vec<f64>, String> {
        self.0.advantages(count, values)
    }
}
