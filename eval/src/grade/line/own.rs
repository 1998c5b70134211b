//! Tealight's own input and samples, and files that have about the same keys: TRL's completions, OpenRLHF's, vLLM's,
//! and what people write by hand.

use std::borrow::Cow;
use std::collections::HashMap;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use tealight_core::Prompt;
use tealight_core::display::one_spaced;
use tealight_datasets::read::{IDS, VERDICTS};

use super::choices;
use super::completions::{CHATS, CompletionKeys, chat_key, ends_with_answer, read_answers};
use super::fields::{first, first_golds, first_id, get, prompt_of, text_of};
use super::golds::{About, Golds, golds_of};
use super::lists::{is_message, refuse_answers, refuse_collection};
use super::names::{GOLDS, ONE, ONE_ELSE, PROMPTS, SAMPLES, SEVERAL, SEVERAL_ELSE, VERDICT_LIST};
use super::origin::sampling_of;
use super::parts;
use super::remarks::{EXTRACTED_FROM, TWO_GOLDS, TWO_TEXTS};
use super::words;
use super::{Line, hash, plausible_logp, short};
use crate::Sample;
use crate::completion::{Completion, last_answer};

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
    let CompletionKeys { one, several, other, extracted } =
        CompletionKeys::of(value, prompt.is_some())?;
    let is_solution = other == Some("solution");
    let is_several = several.is_some();
    let choices = choices::of(value);
    let about = About {
        prompt: prompt.as_ref(),
        choices: choices.as_deref(),
        is_judged,
        is_solution,
        is_several,
    };
    let Golds { golds, is_answer, is_said, refusal, conflict, hint } = golds_of(value, about);
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
        sampling: sampling_of(value),
        keys: if golds.is_empty() { keys_of(value) + hint } else { String::new() },
        golds,
        sample: sample_of(value),
        ..Line::default()
    };
    let completion_key = one.or(several).or(other);
    read_answers(&mut line, value, completion_key, is_several)?;
    refuse_answers(&mut line, value)?;
    line.remarks.extend(conflict.map(|which| (TWO_GOLDS, which)));
    match (extracted, completion_key) {
        (Some(answer), Some(key)) => {
            line.remarks.push((EXTRACTED_FROM, format!("`{}`, and not `{answer}`", short(key))));
        }
        _ => {
            let read = completion_key.or_else(|| chat_key(value));
            let other = read.and_then(|key| unread(value, key));
            line.remarks.extend(other.map(|which| (TWO_TEXTS, which)));
        }
    }
    let is_whole = completion_key.is_some_and(|key| key.starts_with("generated_text"));
    let mut prompts = prompts_of(value, line.prompt.as_ref());
    prompts.retain(|prompt| is_whole || !is_code(prompt));
    line.cut_prompts(&prompts);
    let is_question = line.id.is_some() && line.id == first_id(value, &["problem"]);
    parts::set(&mut line, value, is_question, completion_key);
    Ok(line)
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

/// Another completion than what stands under `key`, which is no part of that: under a key of completions, or one whose
/// words say that a model wrote it, where that holds more than an answer that was taken out.
fn unread(value: &Value, key: &str) -> Option<String> {
    let read = said(get(value, key)?);
    let is_long =
        |text: &Cow<'_, str>| text.contains("\\boxed") || text.split_whitespace().nth(3).is_some();
    let is_other = |(name, found): &(&String, &Value)| {
        let name = name.as_str();
        let is_sure = match found.is_array() {
            true => SEVERAL.contains(&name) || CHATS.contains(&name),
            false => ONE.contains(&name),
        };
        let is_else = name != "text" && (ONE_ELSE.contains(&name) || SEVERAL_ELSE.contains(&name));
        let texts = said(found);
        let is_part = |text: &Cow<'_, str>| {
            read.iter().any(|one| one.contains(&**text) || text.contains(&**one))
        };
        name != key
            && !texts.is_empty()
            && (is_sure || (is_else || words::is_written(name)) && texts.iter().all(is_long))
            && !texts.iter().any(is_part)
    };
    let (other, _) = value.as_object().filter(|_| !read.is_empty())?.iter().find(is_other)?;
    Some(format!("`{key}` is read, and `{}` is not", short(other)))
}

/// The texts of a completion, of a list of them, or of the last turn of a conversation.
fn said(found: &Value) -> Vec<Cow<'_, str>> {
    let items = match found {
        Value::Array(turns) if turns.iter().any(is_message) => {
            return match ends_with_answer(found) {
                true => last_answer(turns).text.into_iter().map(Cow::Owned).collect(),
                false => Vec::new(),
            };
        }
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let texts = texts.unwrap_or_default().into_iter();
    texts.filter(|text| !text.is_empty()).map(Cow::Borrowed).collect()
}

/// A hash of what says which sample of its problem a record is.
pub(super) fn sample_of(value: &Value) -> Option<u64> {
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

/// The keys of a record, the first few, as messages name them.
pub(super) fn keys_of(value: &Value) -> String {
    let keys = value.as_object().into_iter().flat_map(|map| map.keys());
    let shown: Vec<String> =
        keys.take(12).map(|key| format!("`{}`", short(key).escape_debug())).collect();
    if shown.is_empty() { "no key".into() } else { shown.join(", ") }
}

/// What a record asks: the first of its prompts, and behind it the texts of the others that it does not contain, such
/// as the question beside an instruction.
fn asked(value: &Value) -> Option<Prompt> {
    let mut prompts = PROMPTS.iter().filter_map(|key| prompt_of(get(value, key)?));
    let mut first = prompts.find(|prompt| !prompt.plain().trim().is_empty())?;
    let words = |prompt: &Prompt| one_spaced(&prompt.plain());
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
