//! Options on the chat template of a model: another one, and the date that it is told.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::folder_settings;
use tealight_core::ranks::Ranks;
use tealight_nn::tokenizer::{Rendering, TemplateDate};
use tealight_system::files::read_text;
use tealight_system::key_values;

/// Largest template, in bytes.
pub(super) const MAX_TEMPLATE: u64 = 1 << 20;

/// The function by which a template writes the date; among `--template-kwargs`, the date.
const DATE: &str = "strftime_now";

/// The chat template, where it is not the model's own, and its date.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
pub struct TemplateOptions {
    /// Chat template (a Jinja file) to use in place of the model's own. The template is saved with the model. Set it
    /// for a base model without a chat template, or if the model's own template is not the one that you train for.
    #[arg(long, value_name = "FILE", help_heading = "Prompts")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<PathBuf>,
    /// Variable of the chat template in every prompt, such as enable_thinking=false; repeat the option for several
    /// variables. VALUE is JSON or Python's True, False or None, or else text. It takes precedence over the same
    /// variable in a row's chat_template_kwargs. A variable that the template does not read is refused.
    /// strftime_now=YYYY-MM-DD is the date for templates that write the date into prompts; a run records the date in
    /// config.toml and keeps it when it is continued. Default: the date recorded there, or else today in UTC.
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Prompts")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub template_kwargs: Vec<String>,
}

impl TemplateOptions {
    /// The text of the chat template that is given.
    pub(crate) fn text(&self) -> Result<Option<String>> {
        let Some(path) = &self.chat_template else { return Ok(None) };
        read_text(path, MAX_TEMPLATE).map(Some)
    }

    /// How chats are rendered.
    pub(crate) fn rendering(&self) -> Result<Rendering> {
        let date = self.date()?.unwrap_or_else(TemplateDate::today);
        let file = self.chat_template.as_ref().map(|path| path.display().to_string());
        Ok(Rendering { template: self.text()?, file, date, variables: self.variables()? })
    }

    /// The date of `--template-kwargs`, where there is one.
    fn date(&self) -> Result<Option<TemplateDate>> {
        let date = self.pairs()?.into_iter().find(|(key, _)| *key == DATE);
        date.map(|(_, date)| date.parse().context("--template-kwargs strftime_now")).transpose()
    }

    /// The keys and values of `--template-kwargs`.
    fn pairs(&self) -> Result<Vec<(&str, &str)>> {
        key_values::read("--template-kwargs", "enable_thinking=false", &self.template_kwargs)
    }

    /// The variables of `--template-kwargs`, but for the date.
    pub(crate) fn variables(&self) -> Result<Map<String, Value>> {
        let value = |value: &str| match value {
            "True" => true.into(),
            "False" => false.into(),
            "None" => Value::Null,
            value => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
        };
        let variables = self.pairs()?.into_iter().filter(|(key, _)| *key != DATE);
        Ok(variables.map(|(key, text)| (key.to_owned(), value(text))).collect())
    }

    /// Whether chats are rendered in another way than the model's files say, which a server knows nothing of.
    pub(crate) fn is_changed(&self) -> bool {
        let is_variable = |text: &String| date_in(text).is_none();
        self.chat_template.is_some() || self.template_kwargs.iter().any(is_variable)
    }

    /// Sets the date of what is written to `output`: the one that is given, else the one that was recorded there, else
    /// today. All ranks have that of the first. It stands last, so that the same settings are the same list.
    pub(crate) fn set_date(&mut self, output: Option<&Path>, ranks: &Ranks) -> Result<()> {
        let recorded = || output.map_or(Ok(None), recorded_date);
        let date = match self.date()? {
            Some(date) => date,
            None => ranks.first(|| Ok(recorded()?.unwrap_or_else(TemplateDate::today)))?,
        };
        self.template_kwargs.retain(|text| date_in(text).is_none());
        self.template_kwargs.push(format!("{DATE}={date}"));
        Ok(())
    }
}

/// The date in one of the texts of `--template-kwargs`, where it is that.
fn date_in(text: &str) -> Option<&str> {
    text.strip_prefix(DATE)?.strip_prefix('=')
}

/// The date in the `config.toml` of an output directory, where there is one.
fn recorded_date(output: &Path) -> Result<Option<TemplateDate>> {
    let Some(text) = folder_settings::read(output)? else { return Ok(None) };
    let shown = || output.join("config.toml").display().to_string();
    let settings: toml::Table = text.parse().with_context(shown)?;
    let kwargs = settings.get("template_kwargs").and_then(toml::Value::as_array);
    let mut texts = kwargs.into_iter().flatten().filter_map(toml::Value::as_str);
    texts.find_map(date_in).map(str::parse).transpose().with_context(shown)
}
