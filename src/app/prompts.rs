//! Options on how problems are put to a model, and what they come to.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tealight_datasets::prompting::{Template, choose};
use tealight_datasets::{Problem, Prompting};

use crate::app::templates::MAX_TEMPLATE;
use tealight_system::files::read_text;
use tealight_system::range::at_least;

/// The text of prompts besides the question.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
pub struct PromptOptions {
    /// Text after every question; '' for none. Default: for bare questions that the math verifier judges, "Please
    /// reason step by step, and put your final answer within \boxed{}."; for others none.
    #[arg(long, value_name = "TEXT", help_heading = "Prompts")]
    pub instruction: Option<String>,
    /// A system message before everything else.
    #[arg(long, value_name = "TEXT", help_heading = "Prompts")]
    pub system_prompt: Option<String>,
    /// A template (Jinja) that writes the question from a row's columns, such as "{{ context }}\n{{ question }}".
    #[arg(long, value_name = "FILE", help_heading = "Prompts")]
    pub prompt_template: Option<PathBuf>,
    /// Number of worked examples before every problem.
    #[arg(long, value_name = "N", default_value_t = 0, add = at_least(0.0).at_most(1000.0), help_heading = "Prompts")]
    pub few_shot: usize,
    /// Dataset for the few-shot examples; its problems need worked solutions, as a training split has. The same
    /// randomly chosen examples precede every problem.
    #[arg(long, value_name = "DATASET", help_heading = "Prompts")]
    pub few_shot_dataset: Option<String>,
}

impl PromptOptions {
    /// The settings as a [`Prompting`]; `open` reads the problems of a dataset with these settings but for the
    /// examples.
    pub(crate) fn prompting(
        &self,
        open: impl FnOnce(&str, &Prompting) -> Result<Vec<Problem>>,
    ) -> Result<Prompting> {
        let template = match &self.prompt_template {
            None => None,
            Some(path) => {
                let text = read_text(path, MAX_TEMPLATE)?;
                Some(Template::new(&path.display().to_string(), &text)?)
            }
        };
        let bare = Prompting { instruction: Some(String::new()), template, ..Prompting::default() };
        let mut examples = match (&self.few_shot_dataset, self.few_shot) {
            (None, 0) => Vec::new(),
            (Some(_), 0) => bail!("--few-shot-dataset has no effect without --few-shot N"),
            (None, count) => {
                bail!("--few-shot {count} needs --few-shot-dataset: where the examples come from")
            }
            (Some(spec), count) => {
                choose(&open(spec, &bare)?, count).map_err(|error| anyhow!("{spec}: {error}"))?
            }
        };
        let spare = if examples.len() > self.few_shot { examples.pop() } else { None };
        let (instruction, system_prompt) = (self.instruction.clone(), self.system_prompt.clone());
        Ok(Prompting { instruction, system_prompt, examples, spare, ..bare })
    }

    /// The settings, with the template's text, for records of prompts; null where there are none.
    pub(crate) fn record(&self) -> Result<Value> {
        if *self == Self::default() {
            return Ok(Value::Null);
        }
        let mut record = json!(self);
        if let Some(path) = &self.prompt_template {
            record["prompt_template"] = json!(read_text(path, MAX_TEMPLATE)?);
        }
        Ok(record)
    }
}
