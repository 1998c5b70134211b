//! Tealight's own input and samples, and files that have about the same keys: TRL's completions, OpenRLHF's, vLLM's,
//! and what people write by hand.

use std::borrow::Cow;
use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use tealight_core::Prompt;
use tealight_datasets::read::{IDS, VERDICTS};

use super::choices;
use super::each::Each;
use super::fields::{first, first_golds, first_id, get, prompt_of, text_of, tokens};
use super::golds::{About, Golds, golds_of};
use super::lists::{
    flatten, is_message, list_in_text, note_turns, refuse_answers, refuse_collection, refuse_tokens,
};
use super::names::{GOLDS, ONE, ONE_ELSE, PROMPTS, SAMPLES, SEVERAL, SEVERAL_ELSE, VERDICT_LIST};
use super::origin::{model_of, sampling_of};
use super::remarks::{TWO_GOLDS, TWO_TEXTS};
use super::{Line, MAX_ANSWERS, hash, parts, plausible_logp, short};
use crate::Sample;
use crate::completion::{Completion, Content, Ending, Reading, last_answer, reason, role_of};

/// The key of lm-eval's lines that it has judged, beside those of other lines.
const FILTERED: &str = "filtered_resps";
/// A sample that Tealight judged.
pub(super) fn tealight(value: &Value) -> Result<Line> {
    let Ok(sample) = Sample::deserialize(value) else { return own(value, None) };
    let thinking = sample.thinking;
    let answer = Completion {
        text: sample.completion,
        is_finished: sample.is_finished,
        is_end_unknown: sample.is_end_unknown,
        tokens: sample.tokens,
        logp: sample.logp.and_then(plausible_logp),
        failure: sample.failure,
        is_missing: sample.is_missing,
        class: None,
        other_verdict: sample.other_verdict,
        file_verdict: None,
        starts_inside: thinking.is_some_and(|thinking| thinking.starts_inside),
        thought_tokens: thinking.map_or(0, |thinking| thinking.tokens),
        is_stripped: thinking.is_some_and(|thinking| thinking.is_finished),
    };
    Ok(Line {
        id: Some(sample.problem),
        golds: first_golds(value, &["gold"]),
        is_judged: true,
        sample: Some(hash([sample.sample.to_string().as_str()])),
        answers: vec![answer],
        ..Line::default()
    })
}

/// Under which keys a record has its completions.
struct CompletionKeys {
    one: Option<&'static &'static str>,
    several: Option<&'static &'static str>,
    /// Whether it is the `solution` to a task.
    is_solution: bool,
    /// Whether it is SGLang's `text`.
    is_text: bool,
}

impl CompletionKeys {
    fn of(value: &Value, has_prompt: bool) -> Result<Self> {
        let is_there = |key: &&&str| get(value, key).is_some_and(|found| !found.is_null());
        let (mut one, mut several) = (ONE.iter().find(is_there), SEVERAL.iter().find(is_there));
        if let (Some(one), Some(several)) = (one, several) {
            bail!(
                "`{one}` beside `{several}`: name the one with the completions with --completion-key"
            );
        }
        let has_none = one.is_none() && several.is_none();
        let is_solution = has_none && get(value, "task_id").is_some();
        let is_text = get(value, "meta_info").is_some_and(Value::is_object);
        if has_none && !is_solution && !is_text && !has_other(value) {
            several = SEVERAL_ELSE.iter().find(is_there);
            // Beside a prompt, which a record of a dataset has there.
            let is_completion = |key: &&&str| is_there(key) && (**key != "text" || has_prompt);
            one = ONE_ELSE.iter().find(is_completion).filter(|_| several.is_none());
        }
        Ok(Self { one, several, is_solution, is_text })
    }
}

/// A record with keys of their usual names; `key` is its own where it stands in an object.
pub(super) fn own(value: &Value, key: Option<&str>) -> Result<Line> {
    let lowered = lowered(value);
    let value = lowered.as_ref().unwrap_or(value);
    let is_there = |key: &&&str| get(value, key).is_some_and(|found| !found.is_null());
    let is_judged = VERDICTS.iter().chain([&FILTERED, &VERDICT_LIST]).any(|key| is_there(&key));
    let mut prompt = asked(value);
    // Beside the id of a problem, `id` is that of the record.
    let of_problem = first_id(value, &["problem_id", "question_id", "problem_idx"]);
    let mut id = of_problem.or_else(|| first_id(value, &IDS)).or_else(|| key.map(str::to_owned));
    match id {
        Some(_) => prompt = prompt.or_else(|| prompt_of(&value["problem"])),
        None => id = first_id(value, &["problem"]),
    }
    if id.is_none() && prompt.is_none() {
        refuse_collection(value)?;
        bail!(
            "no `id` and no `prompt` (nor `custom_id`, nor `resps`), so its problem is unknown: add an `id` or a `prompt` (a \
             text or a chat) to each record, and remove records of settings or totals; this one has {}",
            keys_of(value)
        );
    }
    let CompletionKeys { one, several, is_solution, is_text } =
        CompletionKeys::of(value, prompt.is_some())?;
    let is_several = several.is_some();
    let choices = choices::of(value);
    let about = About {
        prompt: prompt.as_ref(),
        choices: choices.as_deref(),
        is_judged,
        is_solution,
        is_several,
    };
    let Golds { golds, is_answer, is_said, refusal, conflict } = golds_of(value, about);
    let mut line = Line {
        id,
        is_gold_answer: is_answer,
        is_said_answer: is_said,
        gold_refusal: refusal,
        group: parts::group_of(value),
        choices: choices.unwrap_or_default(),
        prompt,
        context: first(value, &["context", "db_id"]),
        is_judged: is_judged && get(value, "answer").is_some(),
        model: model_of(value),
        sampling: sampling_of(value),
        keys: if golds.is_empty() { keys_of(value) } else { String::new() },
        golds,
        sample: sample_of(value),
        ..Line::default()
    };
    let other = is_solution.then_some(&"solution").or(is_text.then_some(&"text"));
    let completion_key = one.or(several).or(other).copied();
    read_answers(&mut line, value, completion_key, is_several)?;
    refuse_answers(&mut line, value);
    line.remarks.extend(conflict.map(|which| (TWO_GOLDS, which)));
    line.remarks.extend(one.and_then(|key| unread(value, key)).map(|which| (TWO_TEXTS, which)));
    let is_whole =
        [one, several].into_iter().flatten().any(|key| key.starts_with("generated_text"));
    let mut prompts = prompts_of(value, line.prompt.as_ref());
    prompts.retain(|prompt| is_whole || !is_code(prompt));
    line.cut_prompts(&prompts);
    let is_question = line.id.is_some() && line.id == first_id(value, &["problem"]);
    parts::set(&mut line, value, is_question, completion_key);
    Ok(line)
}

/// The completions of a record under `key`, or where formats have them without one.
fn read_answers(line: &mut Line, value: &Value, key: Option<&str>, is_several: bool) -> Result<()> {
    let error = error_of(value);
    let chat = chat_of(value);
    let found = key.and_then(|key| get(value, key));
    // A server's response as a client returned it, or the choices of one.
    let response = found.unwrap_or(value);
    let choices = get(response, "choices").and_then(Value::as_array);
    let choices = choices.filter(|all| all.iter().any(Value::is_object));
    match (found, error) {
        _ if choices.is_some() => {
            line.push_choices(choices.map(Vec::as_slice).unwrap_or_default());
        }
        // A request that failed has no text, whatever stands where it would be.
        (Some(found), Some(error)) if is_empty(found) => {
            line.answers = vec![Completion::failed(reason(error)); requests(found)];
        }
        (Some(found), _) => completions(line, value, found, is_several)?,
        (None, Some(error)) => line.answers.push(Completion::failed(reason(error))),
        (None, None) if ONE.iter().chain(&SEVERAL).any(|key| get(value, key).is_some()) => {
            line.push(Reading::from_text(None, Each::of(value, 1)?.ending(0)));
        }
        // A conversation that ends with the completion.
        (None, None) if ends_with_answer(chat) => {
            let messages = chat.as_array().map(Vec::as_slice).unwrap_or_default();
            line.push(Reading::new(last_answer(messages), Each::of(value, 1)?.ending(0)));
        }
        (None, None) if let Some(role) = last_role(chat) => {
            let why = format!("its conversation ends with a turn of `{}`", short(role));
            line.answers.push(Completion { is_missing: false, ..Completion::failed(why) });
        }
        (None, None) => bail!(
            "{} has no completion (under `completion`, `response`, `output` and the like): name its key with \
             --completion-key; the record has {}",
            line.shown(),
            keys_of(value)
        ),
    }
    Ok(())
}

/// A record whose keys have the names that are known, where spreadsheets write them with capitals: `Model Response`.
fn lowered(value: &Value) -> Option<Value> {
    const KNOWN: [&[&str]; 6] = [&PROMPTS, &ONE, &ONE_ELSE, &SEVERAL, &GOLDS, &IDS];
    let map = value.as_object()?;
    let is_title =
        |name: &str| name.len() > 1 && name.starts_with(|c: char| c.is_ascii_uppercase());
    let lower = |name: &String| name.to_lowercase().replace(' ', "_");
    let is_known = |name: &String| KNOWN.iter().any(|names| names.contains(&name.as_str()));
    let titles = map.keys().filter(|name| is_title(name)).map(|name| (name, lower(name)));
    let mut renamed: HashMap<&String, String> = titles.filter(|(_, name)| is_known(name)).collect();
    // Of two that would have one name both stay as they are.
    let is_one = |name: &String| map.keys().filter(|other| lower(other) == *name).count() == 1;
    renamed.retain(|_, name| is_one(name));
    (!renamed.is_empty()).then(|| {
        let name = |key: &String| renamed.get(key).unwrap_or(key).clone();
        map.iter().map(|(key, value)| (name(key), value.clone())).collect()
    })
}

/// Another completion than the one under `key`, which is no part of it.
fn unread(value: &Value, key: &str) -> Option<String> {
    let read = get(value, key)?.as_str()?;
    let is_other = |other: &&&str| {
        let text = get(value, other).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.is_some_and(|text| !read.contains(text) && !text.contains(read))
    };
    let other = ONE.iter().filter(|other| **other != key).find(is_other)?;
    Some(format!("`{key}` is read, and `{other}` is not"))
}

/// A hash of what says which sample of its problem a record is.
fn sample_of(value: &Value) -> Option<u64> {
    let texts = |keys: &[&str]| -> Vec<String> {
        keys.iter().filter_map(|key| text_of(get(value, key)?)).collect()
    };
    let mut all = texts(&SAMPLES);
    if !all.is_empty() {
        all.extend(texts(&["seed", "run"]));
    }
    (!all.is_empty()).then(|| hash(all.iter().map(String::as_str)))
}

/// Whether a prompt is the beginning of a program, which a completion may repeat as a part of its own.
fn is_code(prompt: &str) -> bool {
    let words = [
        "def", "class", "import", "from", "#include", "function", "public", "package", "using",
        "fn",
    ];
    let first = prompt.split_whitespace().next().unwrap_or_default();
    words.contains(&first)
}

/// The texts that may stand before a completion: the prompt, and every text that is called one.
fn prompts_of<'v>(value: &'v Value, prompt: Option<&Prompt>) -> Vec<Cow<'v, str>> {
    let has_word =
        |name: &str| name.as_bytes().windows(6).any(|six| six.eq_ignore_ascii_case(b"prompt"));
    let is_prompt = |name: &str| PROMPTS.contains(&name) || has_word(name);
    let entries = value.as_object().into_iter().flatten();
    let texts = entries.filter(|(name, _)| is_prompt(name)).filter_map(|(_, text)| text.as_str());
    let mut all: Vec<Cow<'_, str>> = texts.map(Cow::Borrowed).collect();
    if let Some(Prompt::Chat(messages)) = prompt {
        all.extend(messages.last().map(|last| last.content.clone().into()));
    }
    let plain = prompt.map(Prompt::plain).filter(|plain| !all.iter().any(|known| known == plain));
    all.extend(plain.map(Cow::Owned));
    all
}

/// Whether the completion stands elsewhere than under a key of its own.
fn has_other(value: &Value) -> bool {
    get(value, "choices").is_some() || ends_with_answer(chat_of(value)) || error_of(value).is_some()
}

/// The keys of a record, the first few, as messages name them.
pub(super) fn keys_of(value: &Value) -> String {
    let keys = value.as_object().into_iter().flat_map(|map| map.keys());
    let shown: Vec<String> =
        keys.take(12).map(|key| format!("`{}`", short(key).escape_debug())).collect();
    if shown.is_empty() { "no key".into() } else { shown.join(", ") }
}

/// What a record says of a request that failed; false and an empty text say that none did.
fn error_of(value: &Value) -> Option<&Value> {
    get(value, "error").filter(|error| !error.is_null() && **error != false && **error != "")
}

/// How many completions a request that failed was to have.
fn requests(found: &Value) -> usize {
    found.as_array().map_or(1, Vec::len).clamp(1, MAX_ANSWERS)
}

/// Whether there is no text where a completion would be.
fn is_empty(found: &Value) -> bool {
    match found {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        _ => false,
    }
}

/// What a record asks: the first of its prompts, and behind it the texts of the others that it does not contain, such
/// as the question beside an instruction.
fn asked(value: &Value) -> Option<Prompt> {
    let mut prompts = PROMPTS.iter().filter_map(|key| prompt_of(get(value, key)?));
    let mut first = prompts.find(|prompt| !prompt.plain().trim().is_empty())?;
    let words = |prompt: &Prompt| prompt.plain().split_whitespace().collect::<Vec<_>>().join(" ");
    for other in prompts {
        let (Prompt::Text(text), one, two) = (&other, words(&first), words(&other)) else {
            continue;
        };
        match &mut first {
            _ if one.contains(&two) => {}
            Prompt::Text(whole) if two.contains(&one) => *whole = text.clone(),
            Prompt::Text(whole) => *whole = format!("{whole}\n{text}"),
            Prompt::Chat(_) => {}
        }
    }
    Some(first)
}

/// The record of a rollout of the library `verifiers`, whose `answer` is the gold one although it is judged.
pub(super) fn verifiers(value: &Value) -> Result<Line> {
    let mut line = own(value, None)?;
    line.set_golds(first_golds(value, &["answer", "info.answer", "info.ground_truth"]));
    Ok(line)
}

/// The completions in `found`, a list of them where the record says `several`; else one, or a list.
fn completions(line: &mut Line, value: &Value, found: &Value, several: bool) -> Result<()> {
    let count = tokens(&value["tokens"])?;
    let printed = list_in_text(line, found, several)?;
    let mut items = Vec::new();
    flatten(printed.as_ref().unwrap_or(found), &mut items);
    refuse_tokens(line, found, several)?;
    note_turns(line, &items);
    let of_each = Each::of(value, items.len()).with_context(|| line.shown())?;
    for (index, item) in items.into_iter().take(MAX_ANSWERS + 1).enumerate() {
        let own = Ending::reasons(item).map_or(Ending::Unknown, Ending::from_reason);
        let ending = if own == Ending::Unknown { of_each.ending(index) } else { own };
        let mut reading = Reading::new(content(item)?, ending);
        let one = &mut reading.completion;
        if let Some(is_finished) = of_each.is_finished(index) {
            (one.is_finished, one.is_end_unknown) = (one.is_finished && is_finished, false);
        }
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

/// The conversation that a record is.
fn chat_of(value: &Value) -> &Value {
    get(value, "messages").or(get(value, "conversations")).unwrap_or(&Value::Null)
}

/// Whether a conversation ends with a turn of the assistant.
fn ends_with_answer(messages: &Value) -> bool {
    messages.as_array().and_then(|messages| role_of(messages.last()?)) == Some("assistant")
}

/// The role of the last turn of a conversation in which the assistant had one.
fn last_role(messages: &Value) -> Option<&str> {
    let all = messages.as_array()?;
    let has_answer = all.iter().any(|message| role_of(message) == Some("assistant"));
    role_of(all.last().filter(|_| has_answer)?)
}

/// What a completion holds: a text, a number, a conversation, parts, or an object with one of them.
fn content(item: &Value) -> Result<Content> {
    Ok(match item {
        Value::Array(messages) if messages.iter().any(is_message) => last_answer(messages),
        Value::Null | Value::Array(_) => Content::read(item),
        Value::Object(map) => {
            let keys = ["content", "text", "completion", "output", "generated_text"];
            let message = map.get("message").unwrap_or(item);
            let name = keys.iter().find(|key| message.get(**key).is_some());
            let name =
                name.context("a completion that is an object without `content` or `text`: write the text in its place")?;
            let content = match *name {
                "content" => Content::of_message(message),
                other => Content::read(&message[other]),
            };
            if content == Content::default() && !message[*name].is_null() {
                bail!("a completion whose `{name}` is no text");
            }
            content
        }
        other => {
            let text = text_of(other).context("a completion that is no text")?;
            Content { text: Some(text), ..Content::default() }
        }
    })
}
