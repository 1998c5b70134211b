//! Chat messages to text, by the template that came with a model: an untrusted program, run on fuel, with a limit of
//! memory and of what it writes.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::Value;
use tealight_datasets::Prompt;

use super::template_check;
use crate::system::budget;

/// Instructions that rendering one chat may take; real templates take some thousands. Every level of a nested value
/// costs one, so this also bounds how deep the values are that are printed and dropped on the stack of
/// `budget::within`.
const FUEL: u64 = 200_000;
/// Longest text that a template may write, in bytes, besides what the messages hold.
const MAX_OUTPUT: usize = 4 << 20;
/// Memory for rendering one chat, besides that of its messages, in bytes.
const MEMORY: usize = 256 << 20;

/// A template and the special tokens that it may name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatTemplate {
    pub(super) source: Arc<str>,
    pub(super) bos: String,
    pub(super) eos: String,
}

impl ChatTemplate {
    /// Renders messages the way transformers does.
    pub(super) fn render(&self, prompt: &Prompt) -> Result<String> {
        let Prompt::Chat(messages) = prompt else { return Ok(prompt.plain()) };
        let (template, messages) = (self.clone(), messages.clone());
        let given: usize = messages.iter().map(|message| message.content.len()).sum();
        let limits = (
            MEMORY.saturating_add(given.saturating_mul(16)),
            MAX_OUTPUT.saturating_add(given.saturating_mul(2)),
        );
        let text = budget::within("the model's chat template", limits.0, move || {
            template.rendered(&messages, limits.1)
        })?;
        Ok(text)
    }

    fn rendered(&self, messages: &[tealight_datasets::Message], limit: usize) -> Result<String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.context("the template syntax is fixed")?;
        environment.set_syntax(syntax.clone());
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        // Without its feature `datetime`: prompts are the same in every run, so a template has no clock. Llama 3's asks
        // whether `strftime_now` is defined, and has a date of its own where it is not.
        minijinja_contrib::add_to_environment(&mut environment);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        template_check::check(&self.source, &syntax)
            .context("the model's chat template is refused")?;
        environment
            .add_template("chat", &self.source)
            .context("the model's chat template cannot be read")?;
        let mut out = Limited { text: Vec::new(), limit };
        let rendered = environment.get_template("chat")?.render_captured_to(
            context! {
                messages => Serde(messages),
                add_generation_prompt => true,
                bos_token => self.bos.as_str(),
                eos_token => self.eos.as_str(),
            },
            &mut out,
        );
        match rendered {
            Err(_) if out.text.len() > limit => {
                bail!("the model's chat template writes more than {limit} bytes, the limit")
            }
            Err(error) if error.kind() == ErrorKind::OutOfFuel => {
                bail!("the model's chat template takes more than {FUEL} steps, the limit")
            }
            other => drop(other.context("the model's chat template failed")?),
        }
        String::from_utf8(out.text).context("the chat template writes what is no text")
    }
}

/// Takes text up to a limit.
struct Limited {
    text: Vec<u8>,
    limit: usize,
}

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(&bytes[..bytes.len().min(self.limit + 1)]);
        match self.text.len() > self.limit {
            true => Err(std::io::Error::other("too long")),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The template itself, or the one called `default` among several.
pub(super) fn default_template(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(named) => named
            .iter()
            .find(|entry| entry["name"] == "default")?
            .get("template")?
            .as_str()
            .map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_datasets::Message;

    #[test]
    fn a_template_has_no_clock() {
        let message = format!("{:#}", render("{{ now() }}").unwrap_err());
        assert!(message.contains("now"), "{message}");
        assert_eq!(render("{{ strftime_now is defined }}").unwrap().to_lowercase(), "false");
    }

    #[test]
    fn the_deepest_templates_that_are_taken_fit_the_stack() {
        let tag = |text: String| format!("{{{{ {text} }}}}");
        let length = template_check::MAX_TAG - 16;
        let tags = template_check::MAX_TAGS - 2;
        for deep in [
            tag("1".to_owned() + &"+1".repeat(length / 2)),
            tag("not ".repeat(length / 4) + "x"),
            tag("-".repeat(length) + "1"),
            tag("(".repeat(length / 2) + "1" + &")".repeat(length / 2)),
            tag("[".repeat(length / 2) + &"]".repeat(length / 2)),
            tag("x".to_owned() + &".x".repeat(length / 2)),
            tag("x".to_owned() + &"|e".repeat(length / 2)),
            tag("x".to_owned() + &" if x else x".repeat(length / 12)),
            "{% if x %}".to_owned() + &"{% elif x %}".repeat(tags) + "{% endif %}",
            "{% if x %}".repeat(tags / 2) + &"{% endif %}".repeat(tags / 2),
            "{% for a in [1] %}".repeat(tags / 2) + &"{% endfor %}".repeat(tags / 2),
        ] {
            // Taken or refused: the process is still there.
            drop(render(&deep));
        }
        // A list in a list, as deep as the fuel lasts.
        for nested in ["[n.x]", "[[[[[[[[[[n.x]]]]]]]]]]", "{'a': n.x}", "[n.x]|list"] {
            let deep = "{% set n=namespace(x=1) %}{% for i in range(99999) %}{% set n.x="
                .to_owned()
                + nested
                + " %}{% endfor %}ok";
            drop(render(&deep));
            let count = 190_000 / (8 + nested.len());
            let deep = deep.replace("99999", &count.to_string()) + "{{ n.x }}";
            drop(render(&deep));
        }
        let message = format!(
            "{:#}",
            render("{% set n=namespace(x=1) %}{% set n.x=n %}{{ n }}").unwrap_err()
        );
        assert!(message.contains("without an attribute"), "{message}");
    }

    fn render(source: &str) -> Result<String> {
        let template =
            ChatTemplate { source: source.into(), bos: "<s>".into(), eos: "</s>".into() };
        template.render(&Prompt::Chat(vec![Message::user("Hi")]))
    }

    #[test]
    fn a_template_runs_on_fuel_and_writes_so_much() {
        assert_eq!(render("{{ bos_token }}{{ messages[0].content }}").unwrap(), "<s>Hi");
        let loops = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}";
        let said = format!("{:#}", render(loops).unwrap_err());
        assert!(said.contains("steps, the limit"), "{said}");
        let writes = "{% for i in range(9999) %}{{ 'x' * 10000 }}{% endfor %}";
        let said = format!("{:#}", render(writes).unwrap_err());
        assert!(said.contains("bytes, the limit"), "{said}");
        let said = format!("{:#}", render("{{ raise_exception('only once') }}").unwrap_err());
        assert!(said.contains("only once"), "{said}");
    }
}
