//! Options on the chat template of a model: another one, and the date that it is told.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use tealight_core::ranks::Ranks;
use tealight_nn::tokenizer::{Rendering, TemplateDate};
use tealight_system::files::{MAX_SETTINGS, own_file, read_text};

/// Largest template, in bytes.
pub(super) const MAX_TEMPLATE: u64 = 1 << 20;

/// The chat template, where it is not the model's own, and its date.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
pub struct TemplateOptions {
    /// Chat template (a Jinja file) to use in place of the model's own. The template is saved with the model. Set it
    /// for a base model without a chat template, or if the model's own template is not the one that you train for.
    #[arg(long, value_name = "FILE", help_heading = "Prompts")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<PathBuf>,
    /// Date for chat templates that write the date into prompts (`strftime_now`), as YYYY-MM-DD. A run records the date
    /// in config.toml and keeps it when it is continued. Set the date to repeat a run of another day. Default: the date
    /// in the output directory's config.toml, or else today in UTC.
    #[arg(long, value_name = "DATE", help_heading = "Prompts")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_date: Option<TemplateDate>,
    /// Variable of the chat template in every prompt, such as enable_thinking=false; repeat the option for several
    /// variables. VALUE is JSON or Python's True, False or None, or else text. It takes precedence over the same
    /// variable in a row's chat_template_kwargs. A variable that the template does not read is refused.
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
        let date = self.template_date.unwrap_or_else(TemplateDate::today);
        let file = self.chat_template.as_ref().map(|path| path.display().to_string());
        Ok(Rendering { template: self.text()?, file, date, variables: self.variables()? })
    }

    /// The variables of `--template-kwargs`.
    pub(crate) fn variables(&self) -> Result<Map<String, Value>> {
        let mut variables = Map::new();
        for text in &self.template_kwargs {
            let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                bail!(
                    "--template-kwargs `{text}`: expected KEY=VALUE, such as enable_thinking=false"
                );
            };
            let value = match value {
                "True" => true.into(),
                "False" => false.into(),
                "None" => Value::Null,
                value => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
            };
            if variables.insert(key.to_owned(), value).is_some() {
                bail!("--template-kwargs sets `{key}` twice");
            }
        }
        Ok(variables)
    }

    /// Whether chats are rendered in another way than the model's files say, which a server knows nothing of.
    pub(crate) fn is_changed(&self) -> bool {
        self.chat_template.is_some() || !self.template_kwargs.is_empty()
    }

    /// The same with the date of what is written to `output`: the one that is given, else the one that was recorded
    /// there, else today. All ranks have that of the first.
    pub(crate) fn dated(&self, output: Option<&Path>, ranks: &Ranks) -> Result<Self> {
        let date = ranks.first(|| match (self.template_date, output) {
            (Some(date), _) => Ok(date),
            (None, Some(output)) => Ok(recorded(output)?.unwrap_or_else(TemplateDate::today)),
            (None, None) => Ok(TemplateDate::today()),
        })?;
        Ok(Self { template_date: Some(date), ..self.clone() })
    }
}

/// The date in the `config.toml` of an output directory, where there is one.
fn recorded(output: &Path) -> Result<Option<TemplateDate>> {
    let path = output.join("config.toml");
    if !path.is_file() {
        return Ok(None);
    }
    let shown = || path.display().to_string();
    let settings: toml::Table =
        read_text(&own_file(output, &path)?, MAX_SETTINGS)?.parse().with_context(shown)?;
    let date = settings.get("template_date").and_then(toml::Value::as_str);
    date.map(str::parse).transpose().with_context(shown)
}
