//! An advantage by a function of the user's: `python:FILE.py:FUNCTION`.
//!
//! A text that names one starts nothing: settings of strangers are read too. [`super::Rule::open`] loads the function,
//! for a command whose user named it.

use std::fmt;
use std::sync::OnceLock;

use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value as Json};
use tealight_datasets::verify::{Program, group_function};

use super::GroupStats;
use super::evaluate::{NAMES, Value};

/// What a text that names a function begins with.
pub const PREFIX: &str = "python:";

/// A function that a text names.
pub(super) struct Function {
    /// `FILE.py:FUNCTION`, with `timeout=SECONDS:` before it where that is given.
    argument: String,
    loaded: OnceLock<Program>,
}

impl Function {
    /// Reads the text after [`PREFIX`].
    pub(super) fn parse(argument: &str) -> Result<Self> {
        // Model cards show objectives of strangers.
        let is_plain = !argument.contains(|c: char| c.is_control() || c == '`');
        match argument.rsplit_once(':') {
            Some((file, name)) if is_plain && file.ends_with(".py") && !name.is_empty() => {
                Ok(Self { argument: argument.to_owned(), loaded: OnceLock::new() })
            }
            _ => bail!("give the file and its function, as in python:own.py:advantages"),
        }
    }

    /// Starts the interpreter that has the function.
    pub(super) fn load(&self) -> Result<()> {
        if self.loaded.get().is_none() {
            let opened = group_function(&self.argument);
            let function = opened.map_err(|why| anyhow!("`advantage`: {why}"))?;
            self.loaded.get_or_init(|| function);
        }
        Ok(())
    }

    /// Whether it has a parameter of this name; nothing is known of a function that is not loaded.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.loaded.get().is_some_and(|function| function.reads().iter().any(|one| one == name))
    }

    pub(super) fn advantages(&self, stats: &GroupStats) -> Result<Vec<f64>> {
        let Some(function) = self.loaded.get() else {
            bail!("`advantage`: `{PREFIX}{}` was not loaded", self.argument);
        };
        let mut values = Map::new();
        for read in NAMES.iter().filter(|one| self.reads(one.name)) {
            let json = |one| if read.is_whole { Json::from(one as u64) } else { Json::from(one) };
            let value = match (read.value)(stats) {
                Value::One(one) => json(one),
                Value::Each(all) => all.into_iter().map(json).collect(),
            };
            values.insert(read.name.into(), value);
        }
        let count = stats.rewards.len();
        let correct = stats.classes.iter().flatten().count();
        function.advantages(count, &values.into()).map_err(|why| {
            anyhow!(
                "`advantage`: {why}, of a group of {count} samples, {correct} of them correct, at step {}",
                stats.step
            )
        })
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.argument)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.argument == other.argument
    }
}
