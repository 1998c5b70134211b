//! `tealight generate`: a prompt through a model, printed as it is sampled; without one, a chat.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tealight_core::ranks::Ranks;
use tealight_core::{Message, Prompt};

use crate::app::filter_options::FilterOptions;
use crate::app::settings::ModelOptions;
use crate::solvers::sampled::Sampled;
use tealight_formats::hub;
use tealight_learn::train::rlvr::LENGTH;
use tealight_nn::generate::{Finish, RngKey, SampleRequest, SamplingParams};
use tealight_nn::tokenizer::{TextStream, Tokenizer};
use tealight_system::files::read_limited;
use tealight_system::range::{COUNT, SEED, TOKENS, at_least};
use tealight_system::telemetry::{out, print};

/// Largest prompt, in bytes.
const MAX_PROMPT: u64 = 64 << 20;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct GenerateOptions {
    /// Prompt. Default: --file, or else standard input; a terminal starts a chat.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Read the prompt from a file.
    #[arg(long, conflicts_with = "prompt")]
    file: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    /// A system message before the prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system_prompt: Option<String>,
    /// Continue the prompt's text without the chat template.
    #[arg(long)]
    raw: bool,
    /// Number of completions; several are printed when all are done.
    #[arg(short, default_value_t = 1, add = COUNT)]
    n: usize,
    /// Sampling temperature; 0 is greedy.
    #[arg(long, default_value_t = 1.0, add = at_least(0.0).at_most(100.0), help_heading = "Decoding")]
    temperature: f64,
    #[command(flatten)]
    #[serde(flatten)]
    filters: FilterOptions,
    /// Maximum new tokens of a completion. Default: the rest of the context after the prompt, at most 512.
    #[arg(long, add = TOKENS, help_heading = "Decoding")]
    max_completion_length: Option<usize>,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0, add = SEED)]
    seed: u64,
    /// Print a JSON object for each completion: text, finish_reason, tokens, logp.
    #[arg(long)]
    json: bool,
}

/// A model that is asked.
struct GenerateRequest<'a> {
    options: &'a GenerateOptions,
    model: &'a Sampled,
}

pub(in crate::cli) fn run(options: &GenerateOptions) -> Result<()> {
    let prompt = options.prompt()?;
    if options.model.model == hub::EMBEDDED && !prompt.as_deref().is_some_and(is_countdown) {
        tracing::warn!(
            "the embedded model `countdown` only plays Countdown (tealight generate '3,7,8,9=24:'); name another model with --model"
        );
    }
    let model = options.model.load_to_sample(&Ranks::alone(), false)?;
    let asked = GenerateRequest { options, model: &model };
    match prompt {
        Some(text) => asked.answer(&asked.messages(text)),
        None => asked.chat(),
    }
}

/// Whether a prompt is one of Countdown's: numbers and a target.
fn is_countdown(prompt: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '=' | ':');
    let prompt = prompt.trim();
    prompt.contains('=') && prompt.chars().all(is_part)
}

impl GenerateOptions {
    /// The prompt; none where a person is to be asked for it.
    fn prompt(&self) -> Result<Option<String>> {
        let text = match (&self.prompt, &self.file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => String::from_utf8(read_limited(path, MAX_PROMPT)?)
                .with_context(|| format!("{}: not UTF-8", path.display()))?,
            (None, None) if std::io::stdin().is_terminal() => return Ok(None),
            (None, None) => {
                let mut text = String::new();
                let read = std::io::stdin().take(MAX_PROMPT).read_to_string(&mut text);
                read.context("standard input cannot be read as text")?;
                text
            }
        };
        if text.is_empty() {
            bail!("the prompt is empty");
        }
        Ok(Some(text))
    }
}

impl GenerateRequest<'_> {
    /// A question as the model is asked.
    fn messages(&self, text: String) -> Prompt {
        if self.options.raw || !self.model.tokenizer.has_chat_template() {
            return Prompt::Text(text);
        }
        let system =
            self.options.system_prompt.iter().map(|text| Message::new("system", text.as_str()));
        Prompt::Chat(system.chain([Message::user(text.trim_end())]).collect())
    }

    /// The ids of a prompt, and how its completion is drawn.
    fn prepared(&self, prompt: &Prompt) -> Result<(Vec<u32>, SamplingParams)> {
        let tokenizer = &self.model.tokenizer;
        let ids = tokenizer.encode_prompt(prompt)?;
        let context = self.model.context;
        let context_left = context.saturating_sub(ids.len());
        if context_left == 0 {
            bail!(
                "a prompt of {} tokens leaves no room in the model's context of {context}",
                ids.len()
            );
        }
        let o = self.options;
        let params = SamplingParams {
            temperature: o.temperature,
            filters: o.filters.into(),
            max_new_tokens: o.max_completion_length.unwrap_or(LENGTH.min(context_left)),
            eos: tokenizer.eos().to_vec(),
        };
        Ok((ids, params))
    }

    fn rng_key(&self) -> RngKey {
        RngKey { seed: self.options.seed, step: 0 }
    }

    fn answer(&self, prompt: &Prompt) -> Result<()> {
        if self.options.n == 1 && !self.options.json {
            let (_, finish) = self.streamed(prompt, self.rng_key())?;
            if finish == Finish::Length {
                tracing::info!("(truncated; --max-completion-length sets the limit)");
            }
            return Ok(());
        }
        let (ids, params) = self.prepared(prompt)?;
        let sampler = self.model.sampler(256);
        let request = SampleRequest { prompt: ids, first: 0, count: self.options.n, key: 0 };
        sampler.generate(&[request], &params, self.rng_key(), &mut |_, completions| {
            for (number, completion) in completions.iter().enumerate() {
                let text = self.model.tokenizer.decode(&completion.tokens)?;
                let is_finished = completion.finish == Finish::Stop;
                let logp: f64 = completion.logp.iter().map(|logp| f64::from(*logp)).sum();
                match self.options.json {
                    true => print(json!({
                        "text": text,
                        "finish_reason": if is_finished { "stop" } else { "length" },
                        "tokens": completion.tokens.len(),
                        "logp": logp,
                    }))?,
                    false => print(format_args!(
                        "--- {} of {}{}\n{text}",
                        number + 1,
                        completions.len(),
                        if is_finished { "" } else { " (truncated)" }
                    ))?,
                }
            }
            Ok(())
        })
    }

    /// Prints one completion as it is drawn; its text and how it ended.
    fn streamed(&self, prompt: &Prompt, rng_key: RngKey) -> Result<(String, Finish)> {
        let (ids, params) = self.prepared(prompt)?;
        let mut text = TextStream::new(&self.model.tokenizer);
        let mut completion = String::new();
        let mut out = out();
        let mut show = |part: String| -> Result<()> {
            write!(out, "{part}")?;
            out.flush()?;
            completion.push_str(&part);
            Ok(())
        };
        let finish =
            self.model.stream(&ids, &params, rng_key, &mut |token, _| show(text.push(token)?))?;
        show(text.rest()?)?;
        print("")?;
        Ok((completion, finish))
    }

    /// Asks for lines until there is none; what was said before stands before every question.
    fn chat(&self) -> Result<()> {
        let has_template = self.model.tokenizer.has_chat_template() && !self.options.raw;
        tracing::info!(
            "{}",
            match has_template {
                true => "A chat: Ctrl-D ends it.",
                false => "No chat template: every line is continued as it stands. Ctrl-D ends it.",
            }
        );
        let mut history: Vec<Message> = Vec::new();
        for turn in 0.. {
            drop(write!(std::io::stderr(), "> "));
            let mut line = String::new();
            if std::io::stdin().read_line(&mut line)? == 0 {
                break;
            }
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                continue;
            }
            let prompt = match self.messages(line.to_owned()) {
                Prompt::Chat(messages) => {
                    // The system message once, at the start.
                    let fresh = if history.is_empty() { 0 } else { messages.len() - 1 };
                    history.extend_from_slice(&messages[fresh..]);
                    Prompt::chat(history.clone())
                }
                text => text,
            };
            let rng_key = RngKey { step: turn, ..self.rng_key() };
            match self.streamed(&prompt, rng_key) {
                Ok((answer, _)) => history.push(Message::new("assistant", answer)),
                // A chat that has grown too long is no reason to lose it.
                Err(error) => {
                    tracing::error!("error: {error:#}");
                    history.pop();
                }
            }
        }
        drop(writeln!(std::io::stderr()));
        Ok(())
    }
}
