//! Functions that judge nothing: of a completion's solution class, and of the advantages of a group.

use serde_json::Value;

use super::Program;
use crate::Problem;

impl Program {
    /// The solution class of a completion by a function of classes; none where it has none to give.
    pub(in crate::verify) fn class(
        &self,
        problem: &Problem,
        completion: &str,
    ) -> Result<Option<String>, String> {
        let reply = self.ask(problem, completion).or_else(|_| self.ask(problem, completion))?;
        let is_named = reply.verdict.as_deref() == Some("correct");
        let why = reply.why.unwrap_or_default();
        is_named.then_some(reply.class).ok_or_else(|| format!("`{}`: {why}", self.command))
    }

    /// The names of the parameters of a function of a group.
    pub fn reads(&self) -> &[String] {
        self.reads.get().map_or(&[], Vec::as_slice)
    }

    /// The advantages of a group of `count` samples; `values` has what the function reads, by name.
    ///
    /// # Errors
    /// A function that fails, exceeds its time limit, or returns another number of advantages, or one that is not
    /// finite.
    pub fn advantages(&self, count: usize, values: &Value) -> Result<Vec<f64>, String> {
        let ask = || {
            self.answer(serde_json::json!({ "request": null, "count": count, "values": values }))
        };
        let reply = ask().or_else(|_| ask())?;
        let why = reply.why.unwrap_or_default();
        reply.advantages.ok_or_else(|| format!("`{}`: {why}", self.command))
    }
}
