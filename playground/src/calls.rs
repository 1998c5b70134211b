//! The calls of the page: JSON in, JSON out.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::settings::Settings;
use crate::toy::{self, Target};
use crate::training::Training;

/// A request of the page, in JSON.
#[derive(Debug, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    /// Starts a run in place of the one that there is.
    Create { settings: Settings },
    /// Does one step.
    Step,
    /// Measures one problem, or all.
    Measure { problem: Option<usize> },
    /// The hash of all weights.
    Hash,
    /// The settings as a file of `tealight train`.
    Export { settings: Settings },
    /// A world of the laboratory, with its base and p*.
    World { world: String },
    /// An optimum in a class of policies of a world.
    Optimum { world: String, class: String, target: Target },
}

/// Answers calls, one run at a time.
#[derive(Default)]
pub struct Playground {
    training: Option<Training>,
}

impl Playground {
    /// The answer to a call, `{"error": ...}` where it fails.
    pub fn answer(&mut self, call: &str) -> String {
        let answer = self.try_answer(call);
        answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")})).to_string()
    }

    fn try_answer(&mut self, call: &str) -> Result<Value> {
        match serde_json::from_str(call)? {
            Call::Create { settings } => {
                let training = Training::new(&settings)?;
                let problems = json!(training.test.shown());
                self.training = Some(training);
                Ok(json!({"objective": settings.objective(), "problems": problems}))
            }
            Call::Step => {
                let metrics = self.running()?.step()?;
                Ok(json!({"metrics": metrics, "is_done": self.running()?.is_done()}))
            }
            Call::Measure { problem } => {
                let training = self.running()?;
                let (test, decoder) = (&training.test, training.decoder());
                let measured = match problem {
                    Some(problem) => {
                        vec![test.measure(decoder, problem, training.temperature())?]
                    }
                    None => test.measure_all(decoder, training.temperature())?,
                };
                Ok(json!({"step": training.steps(), "problems": measured}))
            }
            Call::Hash => Ok(json!({"weights": self.running()?.weights_hash()?})),
            Call::Export { settings } => {
                settings.config()?.plan()?;
                Ok(json!({"toml": settings.toml()}))
            }
            Call::World { world } => Ok(json!(toy::world(&world)?)),
            Call::Optimum { world, class, target } => {
                Ok(json!(toy::optimum(&world, &class, target)?))
            }
        }
    }

    fn running(&mut self) -> Result<&mut Training> {
        self.training.as_mut().context("no run has been created")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_calls_return_an_error() {
        let mut playground = Playground::default();
        for call in ["", "{}", r#"{"call":"other"}"#, r#"{"call":"step"}"#] {
            let answer: Value = serde_json::from_str(&playground.answer(call)).expect("JSON");
            assert!(answer["error"].is_string(), "{call}: {answer}");
        }
    }
}
