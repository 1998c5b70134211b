//! The function of advantages that an objective names, `python:FILE.py:FUNCTION`, loaded for a user who named it.

use anyhow::Result;
use tealight_datasets::verify::GroupFunction;

use crate::objective::{Loaded, Objective};

/// Loads the function of the objective, if it names one, and tries it on groups of `group` samples. An objective of a
/// stranger's file is not opened.
///
/// # Errors
/// A function that cannot be loaded, or fails on a group.
pub fn open(objective: &Objective, group: usize) -> Result<()> {
    let Some(rule) = &objective.plan.rule else { return Ok(()) };
    rule.open(group, &|argument| {
        let function = GroupFunction::open(argument)?;
        let reads = function.reads().to_vec();
        Ok(Loaded {
            reads,
            call: Box::new(move |count, values| function.advantages(count, values)),
        })
    })
}
