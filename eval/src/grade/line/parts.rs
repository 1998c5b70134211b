//! What tells a record's problem apart beside its id and its prompt, and how its sample was made.

use serde_json::Value;
use tealight_core::names::list;

use super::choices::is_response;
use super::fields::{first_id, get, text_of};
use super::names::{ONE, PROMPTS, SEVERAL};
use super::origin::model_of;
use super::words::{self, Kind};
use super::{Line, hash, short};
use crate::Completion;

/// Least bytes of a text by which it is found in a completion.
const LEAST: usize = 12;
/// Most bytes of the name of a subset, and of a value that names a setting.
const MOST: usize = 200;

/// The id that names the problem where `id` numbers the records.
pub(super) fn group_of(value: &Value) -> Option<String> {
    const NAMES: [&str; 16] = list(
        "prompt_id|doc_id|group_id|item_id|instance_id|query_id|qid|prompt_idx|prompt_index|question_idx|question_index|\
        problem_index|doc_idx|group_idx|group|uid",
    );
    first_id(value, &NAMES)
}

/// Whether a value is what a completion says, or has it.
fn is_said(value: &Value, answers: &[Completion]) -> bool {
    match value {
        Value::String(text) => answers.iter().any(|one| {
            let (text, said) = (text.trim(), one.text.trim());
            text == said
                || text.len() >= LEAST && said.contains(text)
                || said.len() >= LEAST && text.contains(said)
        }),
        Value::Array(items) => items.iter().any(|item| is_said(item, answers)),
        Value::Object(map) => map.values().any(|item| is_said(item, answers)),
        _ => false,
    }
}

/// The models that an object names: under each key one, `model` first.
pub(super) fn models_of(object: &Value) -> impl Iterator<Item = String> {
    let entries = object.as_object().into_iter().flatten();
    let named = entries.filter(|(name, _)| words::kind(name) == Kind::Model);
    let mut named: Vec<(&String, &Value)> = named.collect();
    named.sort_by_key(|(name, _)| *name != "model");
    named.into_iter().filter_map(|(_, found)| text_of(found))
}

/// The model that a record names, also in an object of its settings: its path and its version are parts of its name.
pub(super) fn models_in(value: &Value) -> Option<String> {
    // The one in `metadata` may be whoever wrote the problem.
    let inner = get(value, "config").and_then(|config| text_of(&config["model"]));
    let mut models: Vec<String> = models_of(value).chain(inner).collect();
    models.dedup();
    (!models.is_empty()).then(|| models.join(", "))
}

/// Notes what tells the problem of a line apart, and its model: of one without an id every part of the question, of
/// others what the problem belongs to. `is_question` says that its id is its question, `completion` is the key of its
/// completions.
pub(super) fn set(line: &mut Line, value: &Value, is_question: bool, completion: Option<&str>) {
    let is_named = line.id.is_some() && !is_question;
    let is_read = |name: &str| {
        completion == Some(name)
            || PROMPTS.contains(&name)
            || ONE.contains(&name)
            || SEVERAL.contains(&name)
    };
    let is_short = |value: &Value| {
        words::is_scalar(value) && value.as_str().is_none_or(|text| text.len() <= MOST)
    };
    let (mut parts, mut names, mut subsets) = (Vec::new(), Vec::new(), Vec::new());
    for (name, found) in value.as_object().into_iter().flatten() {
        if found.is_null() || is_read(name) {
            continue;
        }
        if line.id.is_some()
            && line.prompt.is_none()
            && (found.is_string() || found.is_object())
            && words::may_ask(name)
        {
            line.unread.push((name.clone(), hash([found.to_string().as_str()])));
        }
        let entry = || format!("{name}={found}");
        let mut part = || {
            parts.push(entry());
            names.push(short(name));
        };
        match words::kind(name) {
            Kind::Part if name == "context" && found.is_string() => {}
            Kind::Part if !is_named && !is_response(found) => part(),
            Kind::PartOrSaid if !is_named && !is_said(found, &line.answers) => part(),
            Kind::System if !is_named => part(),
            Kind::Model if found.is_array() => {
                line.models.extend(found.as_array().into_iter().flatten().filter_map(text_of));
            }
            Kind::Subset if is_short(found) => subsets.push(entry()),
            Kind::Condition | Kind::System if words::is_scalar(found) => {
                line.conditions.push((name.clone(), found.to_string()));
            }
            _ => {}
        }
    }
    line.model = model_of(value);
    let sampling = line.sampling.iter().filter(|(key, _)| get(value, key).is_none());
    line.conditions.extend(sampling.map(|(key, value)| ((*key).to_owned(), value.clone())));
    let joined = |all: &mut [String]| {
        all.sort_unstable();
        (!all.is_empty()).then(|| hash(all.iter().map(String::as_str)))
    };
    line.part_keys = names.join(", ");
    let of_subsets = joined(&mut subsets);
    parts.append(&mut subsets);
    line.parts = joined(&mut parts);
    let own = if is_named { of_subsets } else { line.parts };
    let prompt = line.prompt.as_ref().map(|prompt| hash([prompt.plain().trim()]));
    line.variant = match (prompt, own) {
        (None, None) => None,
        (Some(prompt), None) => Some(prompt),
        (prompt, Some(own)) => Some(hash([format!("{prompt:?} {own}").as_str()])),
    };
}
