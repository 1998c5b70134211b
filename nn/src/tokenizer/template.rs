//! Chat messages to text, by the template that came with a model: an untrusted program, run on fuel, with a limit of
//! memory and of what it writes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value, context};
use serde_json::{Map, Value as Json};
use tealight_core::{Chat, Message};

use super::date::TemplateDate;
use super::files::TemplateSource;
use super::{honoured, template_check, template_newlines, template_python};
use tealight_system::budget;

/// Instructions that rendering one chat may take; real templates take some thousands. Every level of a nested value
/// costs one, so this also bounds how deep the values are that are printed and dropped on the stack of
/// `budget::within`.
const FUEL: u64 = 200_000;
/// Longest text that a template may write, in bytes, besides what the messages hold.
const MAX_OUTPUT: usize = 4 << 20;
/// Memory for rendering one chat, besides that of its messages, in bytes.
const MEMORY: usize = 256 << 20;
/// How long one prompt may take: fuel counts steps, and one step may compare or sort values of any size. Usual
/// templates take milliseconds.
const TIME: Duration = Duration::from_secs(5);
/// Templates that took longer than they may: one that did is not run again for the next chat.
static LATE: Mutex<Vec<(ChatTemplate, String)>> = Mutex::new(Vec::new());
/// Marks the end of the text that a final assistant turn is continued from; the space shows whether a template trims.
const CONTINUE: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A template, the special tokens that it may name, and its date.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatTemplate {
    pub(super) source: TemplateSource,
    /// By the names of `tokenizer_config.json`, such as `bos_token`.
    pub(super) tokens: BTreeMap<String, String>,
    pub(super) date: TemplateDate,
}

impl ChatTemplate {
    /// A chat up to where the model is to go on: after the text of a final assistant turn, or at the beginning of one.
    pub(super) fn prompt(&self, chat: &Chat) -> Result<String> {
        match chat.split_last() {
            Some((last, _)) if last.role == "assistant" => self.continued(chat.clone(), last),
            _ => self.render(chat, true),
        }
    }

    /// Whether the template names something, such as a variable or a key of messages.
    pub(super) fn reads(&self, name: &str) -> bool {
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_word = name.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        self.source.any(|text| {
            text.match_indices(name).any(|(at, _)| {
                let (before, after) = (&text[..at], &text[at + name.len()..]);
                let is_longer = is_word && is_part(before.chars().next_back());
                !is_longer && !is_part(after.chars().next())
            })
        })
    }

    /// Whether it names a key of messages: behind a dot or a quote, and not as a variable.
    pub(super) fn reads_key(&self, key: &str) -> bool {
        [".", "'", "\""].iter().any(|before| self.reads(&format!("{before}{key}")))
    }

    /// The chat up to the text of its last message, as `continue_final_message` of transformers has it.
    fn continued(&self, mut chat: Chat, last: &Message) -> Result<String> {
        if let Some(open) = chat.last_mut() {
            open.content.push_str(CONTINUE);
        }
        let mut text = self.render(&chat, false)?;
        let at = text.rfind(CONTINUE.trim_end()).filter(|_| text.contains(last.content.trim()));
        let Some(at) = at else {
            bail!(
                "the model's chat template leaves out text of the final assistant turn, which is to be continued"
            );
        };
        let is_trimmed = !text[at..].starts_with(CONTINUE);
        text.truncate(at);
        if is_trimmed {
            text.truncate(text.trim_end().len());
        }
        Ok(text)
    }

    /// Renders messages the way transformers does, with or without the beginning of the assistant's next turn.
    pub(super) fn render(&self, chat: &Chat, generation_prompt: bool) -> Result<String> {
        let late = || LATE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, message)) = late().iter().find(|(template, _)| template == self) {
            bail!("{message}");
        }
        let (template, chat) = (self.clone(), chat.clone());
        let given = serde_json::to_string(&chat)?.len();
        let limits = (
            MEMORY.saturating_add(given.saturating_mul(16)),
            MAX_OUTPUT.saturating_add(given.saturating_mul(2)),
        );
        let text = budget::within_time("the model's chat template", limits.0, TIME, move || {
            template.rendered(&chat, generation_prompt, limits.1)
        });
        if let Some(error) = text.as_ref().err().filter(|error| error.is::<budget::Late>()) {
            late().push((self.clone(), error.to_string()));
        }
        text
    }

    fn rendered(&self, chat: &Chat, generation_prompt: bool, limit: usize) -> Result<String> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.context("the template syntax is fixed")?;
        let has_tools = chat.variables.get("tools").is_some_and(|tools| !tools.is_null());
        let with_tools = self.source.with_tools.as_ref().filter(|_| has_tools);
        let own = if with_tools.is_some() { " (tool_use)" } else { "" };
        let name = format!("{}{own}", self.source.file);
        let source = template_newlines::as_in_jinja2(with_tools.unwrap_or(&self.source.usual));
        let source = template_check::check(&source, &syntax)
            .context("the model's chat template is refused")?;
        let mut environment = self.environment(syntax);
        environment
            .add_template(&name, &source)
            .context("the model's chat template cannot be read")?;
        let absent = ["tools", "documents"].map(|name| (name.to_owned(), Json::Null));
        let tokens = self.tokens.iter().map(|(name, text)| (name.clone(), text.as_str().into()));
        let mut variables: Map<String, Json> = absent.into_iter().chain(tokens).collect();
        variables.extend(chat.variables.clone());
        let mut out = Limited { text: Vec::new(), limit };
        let rendered = environment.get_template(&name)?.render_captured_to(
            context! {
                messages => Serde(chat.iter().map(honoured::given).collect::<Vec<_>>()),
                add_generation_prompt => generation_prompt,
                ..Value::from(Serde(variables))
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
            Err(error) if error.to_string().contains("% operator on unsupported types string") => {
                bail!(
                    "the model's chat template failed: {error}: a text is formatted by `'...' | format(...)` here, not by \
                 `%`; correct a copy of the template and give it with --chat-template"
                )
            }
            other => drop(other.context("the model's chat template failed")?),
        }
        String::from_utf8(out.text).context("the chat template writes what is no text")
    }

    /// What transformers gives templates, but for its clock: a template gets one date for the whole run.
    fn environment<'e>(&self, syntax: SyntaxConfig) -> Environment<'e> {
        let mut environment = Environment::new();
        environment.set_syntax(syntax);
        environment.set_fuel(Some(FUEL));
        // By the names of files minijinja would escape text for HTML or JSON.
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        minijinja_contrib::add_to_environment(&mut environment);
        template_python::add(&mut environment);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let date = self.date;
        environment.add_function("strftime_now", move |format: String| {
            date.format(&format)
                .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
        });
        environment
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

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_core::Message;

    #[test]
    fn a_template_has_one_date_and_no_clock() {
        let message = format!("{:#}", render("{{ now() }}").unwrap_err());
        assert!(message.contains("now"), "{message}");
        let guarded = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}";
        assert_eq!(render(guarded).unwrap(), "05 Feb 2026");
        let message = format!("{:#}", render("{{ strftime_now('%Q') }}").unwrap_err());
        assert!(message.contains("%Q"), "{message}");
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

    fn template(source: &str) -> ChatTemplate {
        let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")];
        let tokens = tokens.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        ChatTemplate { source: source.into(), tokens, date: "2026-02-05".parse().unwrap() }
    }

    fn render(source: &str) -> Result<String> {
        template(source).prompt(&vec![Message::user("Hi")].into())
    }

    #[test]
    fn a_template_gets_every_key_and_variable() {
        let reply = r#"[{"role":"user","content":"Hi","name":"Ann"},
            {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2}}}]},
            {"role":"tool","content":"3","tool_call_id":"x"}]"#;
        let variables = serde_json::json!({"tools": [{"name": "f"}], "enable_thinking": false});
        let messages: Vec<Message> = serde_json::from_str(reply).unwrap();
        let chat = Chat { messages, variables: variables.as_object().unwrap().clone() };
        let source = "{{ messages[0].name }} {{ messages[1].content is defined }} {{ messages[1].tool_calls|tojson }} \
                      {{ messages[2].tool_call_id }} {{ tools|tojson }} {{ enable_thinking }} {{ eos_token }}";
        let expected = r#"Ann False [{"function": {"name": "f", "arguments": {"b": 1, "a": 2}}}] x [{"name": "f"}] False </s>"#;
        let written = template(source).prompt(&chat).unwrap();
        assert_eq!(written.replace("true", "True").replace("false", "False"), expected);
        assert!(template(source).reads("tools") && !template(source).reads("tool"));
        assert!(!template(source).reads("think"));
    }

    #[test]
    fn thoughts_have_the_names_that_transformers_gives_them() {
        let message = |more: serde_json::Value| Message {
            more: more.as_object().unwrap().clone(),
            ..Message::new("assistant", "ok")
        };
        let source =
            "{% set m = messages[0] %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }}";
        for (more, expected) in [
            (serde_json::json!({"reasoning": "a"}), "a|a|a"),
            (serde_json::json!({"thinking": "a", "reasoning": "b"}), "a|a|b"),
            (serde_json::json!({"reasoning_content": null, "reasoning": "b"}), "b|b|b"),
            (serde_json::json!({"reasoning_content": "a", "thinking": "b"}), "a|b|"),
        ] {
            let chat: Chat = vec![message(more.clone()), Message::user("x")].into();
            assert_eq!(template(source).prompt(&chat).unwrap(), expected, "{more}");
        }
        assert!(template("{{ m['thinking'] }}").reads_key("thinking"));
        assert!(!template("{% if thinking %}{% endif %}").reads_key("thinking"));
    }

    #[test]
    fn a_small_value_of_endless_parts_is_refused_at_once() {
        for made in ["{'a': n.x, 'b': n.x}", "[n.x, n.x]"] {
            let doubled = "{% set n=namespace(x={'a': 1}) %}{% for i in range(60) %}{% set n.x="
                .to_owned()
                + made
                + " %}{% endfor %}";
            for written in [
                "{{ {'a': n.x}|urlencode }}",
                "{{ n.x|string }}",
                "{{ n.x|replace('a', 'b') }}",
                "{{ n.x }}",
            ] {
                let message = format!("{:#}", render(&(doubled.clone() + written)).unwrap_err());
                assert!(message.contains("parts is written, the limit"), "{written}: {message}");
            }
        }
    }

    #[test]
    fn a_template_that_took_too_long_is_not_run_again() {
        let source = "{{ 'late' }}";
        assert_eq!(render(source).unwrap(), "late");
        LATE.lock().unwrap().push((template(source), "it takes longer than 60 s".into()));
        assert!(render(source).unwrap_err().to_string().contains("longer than 60 s"));
        assert_eq!(render("{{ 'on time' }}").unwrap(), "on time");
    }

    #[test]
    fn template_steps_and_output_are_limited() {
        assert_eq!(render("{{ bos_token }}{{ messages[0].content }}").unwrap(), "<s>Hi");
        let loops = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}";
        let error = format!("{:#}", render(loops).unwrap_err());
        assert!(error.contains("steps, the limit"), "{error}");
        let writes = "{% for i in range(9999) %}{{ 'x' * 10000 }}{% endfor %}";
        let error = format!("{:#}", render(writes).unwrap_err());
        assert!(error.contains("bytes, the limit"), "{error}");
        let error = format!("{:#}", render("{{ raise_exception('only once') }}").unwrap_err());
        assert!(error.contains("only once"), "{error}");
    }
}
