//! The completions of a record with keys of their usual names: under which key they stand, and what each says.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::each::Each;
use super::fields::{get, text_of, tokens};
use super::lists::{flatten, is_message, list_in_text, note_turns, refuse_pieces, refuse_tokens};
use super::names::{BESIDE, EXTRACTED, ONE, ONE_ELSE, SEVERAL, SEVERAL_ELSE};
use super::own::keys_of;
use super::parts::models_of;
use super::remarks::{MESSAGES, OF_PYTHON, PRINTED_OBJECT};
use super::words::{self, Kind};
use super::{Line, MAX_ANSWERS, plausible_logp, short};
use crate::completion::{
    Completion, Content, Ending, Reading, TEXTS, choices_of, completions_of, is_empty,
    is_of_python, last_answer, printed, reason, role_of,
};

/// Most bytes of an answer that was taken out of a completion.
const MOST_EXTRACTED: usize = 400;

/// Under which keys a record has its completions.
pub(super) struct CompletionKeys<'v> {
    pub(super) one: Option<&'v str>,
    pub(super) several: Option<&'v str>,
    /// Where servers have it that do not name it so: `solution` to a task, SGLang's `text`, llama.cpp's `content`,
    /// Ollama's `message`.
    pub(super) other: Option<&'static str>,
    /// The key of the answer that was taken out of the completion.
    pub(super) extracted: Option<&'v str>,
}

impl<'v> CompletionKeys<'v> {
    pub(super) fn of(value: &'v Value, has_prompt: bool) -> Result<Self> {
        let is_there = |key: &&str| get(value, key).is_some_and(|found| !found.is_null());
        let (mut one, mut several) =
            (ONE.into_iter().find(is_there), SEVERAL.into_iter().find(is_there));
        // Beside a text: a list that a model wrote by its name, or one of other names that has this text.
        let list = one.and_then(|one| get(value, one)?.as_str()).and_then(|text| {
            // The choices of a question may have a short one as well.
            let is_long = text.contains("\\boxed") || text.split_whitespace().nth(3).is_some();
            let is_list = |(name, found): &(&String, &Value)| {
                let all = found.as_array().map(Vec::as_slice).unwrap_or_default();
                let is_named = || SEVERAL_ELSE.contains(&name.as_str()) && is_long;
                let has_it = || is_named() && all.iter().any(|one| *one == text);
                all.len() > 1
                    && all.iter().all(Value::is_string)
                    && (words::is_written(name) || has_it())
            };
            value.as_object()?.iter().find(is_list).map(|(name, _)| name.as_str())
        });
        if let (Some(one), Some(several)) = (one, several.or(list)) {
            bail!(
                "`{one}` beside `{several}`: name the one with the completions with --completion-key"
            );
        }
        let has_none = one.is_none() && several.is_none();
        let of_server = || {
            let beside = |(mark, key): &(&str, &str)| is_there(mark) && is_there(key);
            BESIDE.iter().find(|pair| has_none && beside(pair)).map(|(_, key)| *key)
        };
        let is_message = || {
            let parts = get(value, "content").and_then(Value::as_array);
            parts.is_some_and(|parts| parts.iter().any(|part| part["type"].is_string()))
        };
        let other = of_server().or_else(|| (has_none && is_message()).then_some("content"));
        if has_none && other.is_none() && !has_other(value) {
            // Objects that are no server's are the choices of a question.
            let is_list =
                |key: &&str| is_there(key) && (*key != "candidates" || !value[*key][0].is_object());
            several = SEVERAL_ELSE.into_iter().find(is_list);
            // Beside a prompt, which a record of a dataset has there.
            let is_completion = |key: &&str| is_there(key) && (*key != "text" || has_prompt);
            one = ONE_ELSE.into_iter().find(is_completion).filter(|_| several.is_none());
        }
        let mut keys = Self { one, several, other, extracted: None };
        keys.take_whole(value)?;
        Ok(keys)
    }

    /// Takes the longer text that an answer was taken out of, where the record has both.
    /// An error where that may be its working as well.
    fn take_whole(&mut self, value: &'v Value) -> Result<()> {
        let null = ONE.into_iter().find(|key| get(value, key).is_some_and(Value::is_null));
        let Some(key) = self.one.or(self.several).or(null) else { return Ok(()) };
        let read = get(value, key).unwrap_or(&Value::Null);
        let count = read.as_array().map_or(1, Vec::len);
        let Some(least) = size(read).filter(|size| *size <= MOST_EXTRACTED * count) else {
            return Ok(());
        };
        let is_longer = |(name, text): &(&'v String, &'v Value)| {
            let of_each = text.is_string() || text.as_array().is_some_and(|all| all.len() == count);
            *name != key && of_each && size(text).is_some_and(|size| size > least)
        };
        let longest = |kind: Kind| {
            let texts = value.as_object().into_iter().flatten().filter(is_longer);
            let texts = texts.filter(|(name, _)| words::kind(name) == kind);
            texts.max_by_key(|(_, text)| size(text))
        };
        let is_extracted = EXTRACTED.contains(&key);
        let written = || longest(Kind::Written).filter(|_| is_extracted);
        if let Some((name, text)) = longest(Kind::Whole).or_else(written) {
            let name = Some(name.as_str());
            (self.one, self.several) = if text.is_array() { (None, name) } else { (name, None) };
            self.extracted = Some(key);
            return Ok(());
        }
        let is_bare = |text: &str| (1..=3).contains(&text.split_whitespace().count());
        if is_extracted
            && read.as_str().is_some_and(is_bare)
            && let Some((name, _)) = longest(Kind::Working)
        {
            bail!(
                "`{key}` may be an answer extracted from `{}`, or the text that followed it: name the completion with \
                 --completion-key",
                short(name)
            );
        }
        Ok(())
    }
}

/// The bytes of a text, or of the texts of a list; none of other values.
fn size(value: &Value) -> Option<usize> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => Some(text.trim().len()),
        Value::Array(texts) => {
            texts.iter().map(|text| size(text).filter(|_| !text.is_array())).sum()
        }
        _ => None,
    }
}

/// The completions of a record under `key`, or where formats have them without one.
pub(super) fn read_answers(
    line: &mut Line,
    value: &Value,
    key: Option<&str>,
    is_several: bool,
) -> Result<()> {
    let error = error_of(value);
    let chat = chat_of(value);
    let found = key.and_then(|key| get(value, key));
    // Ollama's.
    if matches!(key, Some("response" | "message"))
        && get(value, "done") == Some(&Value::Bool(false))
    {
        bail!(
            "a piece of a stream (`done` is false): write the pieces of each completion as one text"
        );
    }
    // A server's response as a client returned it, or the choices of one.
    let response = found.unwrap_or(value);
    let read = match found.is_none_or(Value::is_object) {
        true => completions_of(response).map_err(anyhow::Error::msg)?,
        false => None,
    };
    match (found, error) {
        _ if read.is_some() => {
            line.models.extend(found.into_iter().flat_map(models_of));
            read.into_iter().flatten().for_each(|reading| line.push(reading));
        }
        // A request that failed has no text, whatever stands where it would be.
        (Some(found), Some(error)) if is_empty(found) => {
            line.answers = vec![Completion::failed(reason(error)); requests(found)];
        }
        (Some(found), _) => completions(line, value, found, is_several)?,
        (None, Some(error)) => line.answers.push(Completion::failed(reason(error))),
        (None, None) if ONE.iter().chain(&SEVERAL).any(|key| get(value, key).is_some()) => {
            line.push(Reading::from_text(None, Each::of(value, 1)?.ending(0, Ending::Unknown)));
        }
        // A conversation that ends with the completion.
        (None, None) if ends_with_answer(chat) => {
            let messages = chat.as_array().map(Vec::as_slice).unwrap_or_default();
            let own = messages.last().and_then(Ending::reasons);
            let own = own.map_or(Ending::Unknown, Ending::from_reason);
            line.push(Reading::new(last_answer(messages), Each::of(value, 1)?.ending(0, own)));
        }
        (None, None) if let Some(role) = last_role(chat) => {
            let why = format!("its conversation ends with a turn of `{}`", short(role));
            line.answers.push(Completion { is_missing: false, ..Completion::failed(why) });
        }
        (None, None) => bail!(
            "{} has no completion (under `completion`, `response`, `output` and the like): name its key with \
             --completion-key; the record has {}{}",
            line.shown(),
            keys_of(value),
            if chat.is_string() {
                " (its conversation is a text: give a list, as JSON lines)"
            } else {
                ""
            }
        ),
    }
    // TGI's other samples: the first is the best of them.
    let details = found.filter(|found| found.is_object()).unwrap_or(value);
    for other in details["details"]["best_of_sequences"].as_array().into_iter().flatten() {
        let ending = Ending::reasons(other).map_or(Ending::Unknown, Ending::from_reason);
        line.push(Reading::new(content(other)?, ending));
    }
    Ok(())
}

/// Whether the completion stands elsewhere than under a key of its own.
fn has_other(value: &Value) -> bool {
    get(value, "choices").is_some()
        || choices_of(value).is_some()
        || ends_with_answer(chat_of(value))
        || error_of(value).is_some()
}

/// What a record says of a request that failed; false and an empty text say that none did.
fn error_of(value: &Value) -> Option<&Value> {
    get(value, "error").filter(|error| !error.is_null() && **error != false && **error != "")
}

/// How many completions a request that failed was to have.
fn requests(found: &Value) -> usize {
    found.as_array().map_or(1, Vec::len).clamp(1, MAX_ANSWERS)
}

/// The completions in `found`, a list of them where the record says `several`; else one, or a list.
fn completions(line: &mut Line, value: &Value, found: &Value, several: bool) -> Result<()> {
    let count = tokens(&value["tokens"])?;
    let in_text = list_in_text(line, found, several)?;
    let mut items = Vec::new();
    let list = in_text.as_ref().unwrap_or(found);
    flatten(list, &mut items);
    if !several && items.len() > 1 && items.iter().all(|item| is_message(item)) {
        line.remarks.push((MESSAGES, line.shown()));
    }
    refuse_tokens(line, found, several)?;
    if !several {
        refuse_pieces(line, &items)?;
    }
    note_turns(line, &items);
    let count_of_items = items.len();
    let of_each = Each::of(value, count_of_items).with_context(|| line.shown())?;
    for (index, item) in items.into_iter().take(MAX_ANSWERS + 1).enumerate() {
        let object = item.as_str().and_then(printed);
        let item = object.as_ref().unwrap_or(item);
        if object.is_some() {
            line.remarks.push((PRINTED_OBJECT, line.shown()));
        }
        if item.as_str().is_some_and(is_of_python) {
            line.remarks.push((OF_PYTHON, line.shown()));
        }
        line.models.extend(models_of(item));
        let own = Ending::reasons(item).map_or(Ending::Unknown, Ending::from_reason);
        let mut reading = match completions_of(item).map_err(anyhow::Error::msg)?.as_deref_mut() {
            Some([reading]) => std::mem::take(reading),
            Some(several) if several.len() > 1 && count_of_items == 1 => {
                several.iter_mut().for_each(|reading| line.push(std::mem::take(reading)));
                continue;
            }
            Some(several) => {
                bail!("{}: a response of {} completions in a list", line.shown(), several.len())
            }
            None => Reading::new(content(item)?, of_each.ending(index, own)),
        };
        let one = &mut reading.completion;
        one.tokens = count;
        let logp = [(item, "logp"), (item, "cumulative_logprob"), (value, "logp")];
        let logp = logp.into_iter().find_map(|(object, key)| number(get(object, key)?));
        one.logp = logp.and_then(plausible_logp);
        one.class = Each::of(item, 1)?.class(0).or_else(|| of_each.class(index));
        line.push(reading);
    }
    Ok(())
}

/// A number, also one whose digits stand as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Keys of the conversation that a record is.
pub(super) const CHATS: [&str; 2] = ["messages", "conversations"];

/// The key of the conversation that a record is.
pub(super) fn chat_key(value: &Value) -> Option<&'static str> {
    CHATS.into_iter().find(|key| get(value, key).is_some_and(|found| !found.is_null()))
}

fn chat_of(value: &Value) -> &Value {
    chat_key(value).and_then(|key| get(value, key)).unwrap_or(&Value::Null)
}

/// Whether a conversation ends with a turn of the assistant.
pub(super) fn ends_with_answer(messages: &Value) -> bool {
    messages.as_array().and_then(|messages| role_of(messages.last()?)) == Some("assistant")
}

/// The role of the last turn of a conversation in which the assistant had one.
fn last_role(messages: &Value) -> Option<&str> {
    let all = messages.as_array()?;
    let has_answer = all.iter().any(|message| role_of(message) == Some("assistant"));
    role_of(all.last().filter(|_| has_answer)?)
}

/// What a completion holds: a text, a number, a conversation, parts, or an object with one of them.
pub(super) fn content(item: &Value) -> Result<Content> {
    Ok(match item {
        Value::Array(messages) if messages.iter().any(is_message) => last_answer(messages),
        Value::Null | Value::Array(_) => Content::read(item),
        Value::Object(map) => {
            let content = Content::of_object(item)
                .context("a completion is an object without `content` or `text`: replace the object with its text")?;
            let message = map.get("message").unwrap_or(item);
            let is_null = |key: &&str| message.get(*key).is_some_and(Value::is_null);
            if content == Content::default() && !TEXTS.iter().any(is_null) {
                bail!("a completion whose value is no text: it has {}", keys_of(item));
            }
            content
        }
        other => {
            let text = text_of(other).context("a completion that is no text")?;
            Content { text: Some(text), ..Content::default() }
        }
    })
}
