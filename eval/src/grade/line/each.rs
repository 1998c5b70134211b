//! What a record says of each of its completions: how it ended, its class.

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_core::names::list;

use super::fields::{get, printed_list, text_of, truth};
use super::names::CLASSES;
use super::words::{self, Kind};
use crate::completion::{Completion, Ending, TEXTS};
use crate::number::counted;

/// A value for all completions, or one for each.
enum Of {
    All(Value),
    Each(Vec<Value>),
}

impl Of {
    fn read(value: &Value, (what, of): (&str, &str), completions: usize) -> Result<Self> {
        let printed = value.as_str().filter(|text| text.trim_start().starts_with('['));
        let printed = printed.and_then(|text| {
            let of_flags = || serde_json::from_str::<Value>(&text.to_lowercase()).ok();
            printed_list(value).or_else(of_flags).filter(Value::is_array)
        });
        let value = printed.as_ref().unwrap_or(value);
        if !value.is_array() {
            return Ok(Self::All(value.clone()));
        }
        let mut all = Vec::new();
        flatten(value, &mut all);
        if all.len() != completions {
            bail!(
                "{} and {}{of}: give one for each",
                counted(completions, "completion"),
                counted(all.len(), what)
            );
        }
        Ok(Self::Each(all))
    }

    fn at(&self, index: usize) -> Option<&Value> {
        match self {
            Self::All(value) => Some(value),
            Self::Each(all) => all.get(index),
        }
    }
}

/// The items of a list, also of lists in it, as completions may stand.
fn flatten(value: &Value, all: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| flatten(item, all)),
        one => all.push(one.clone()),
    }
}

/// The finish reasons in a list of details, one for each of several completions, such as SGLang's `meta_info`.
fn of_details(value: &Value, completions: usize) -> Option<Value> {
    /// Other lists of objects are of tools and judges.
    const NAMES: [&str; 5] = list("meta_info|meta|details|metadata|infos");
    let is_one = |all: &&Vec<Value>| {
        let is_details = |one: &Value| TEXTS.iter().all(|key| one.get(*key).is_none());
        completions > 1
            && all.len() == completions
            && all.iter().all(is_details)
            && all.iter().any(|one| Ending::reasons(one).is_some())
    };
    let all = NAMES.iter().filter_map(|key| get(value, key)?.as_array()).find(is_one)?;
    Some(all.iter().map(|one| Ending::reasons(one).cloned().unwrap_or_default()).collect())
}

/// Whether a value is yes or no, or a list of these: a number may be a count, a time or a threshold.
fn is_flag(value: &Value) -> bool {
    const FLAGS: [&str; 6] = list("true|false|yes|no|none|null");
    match value {
        Value::Bool(_) => true,
        Value::Array(all) => !all.is_empty() && all.iter().all(|one| one.is_null() || is_flag(one)),
        Value::String(text) => {
            let words = text.split(|letter: char| !letter.is_alphanumeric());
            let mut words = words.filter(|word| !word.is_empty()).map(str::to_lowercase).peekable();
            words.peek().is_some() && words.all(|word| FLAGS.contains(&word.as_str()))
        }
        _ => false,
    }
}

/// What a record says of its completions.
pub(super) struct Each {
    reasons: Option<Of>,
    /// With what each says of a completion that ended by itself.
    ends: Vec<(Of, bool)>,
    class: Option<Of>,
}

impl Each {
    pub(super) fn of(value: &Value, completions: usize) -> Result<Self> {
        Self::read(value, completions, false)
    }

    /// The same for a harness's record: reasons in nested objects (such as the dataset's row), and values that are not
    /// one for each completion, are ignored.
    pub(super) fn of_harness(value: &Value, completions: usize) -> Result<Self> {
        Self::read(value, completions, true)
    }

    fn read(value: &Value, completions: usize, is_harness: bool) -> Result<Self> {
        let read = |value: &Value, what: (&str, &str), may_be_other: bool| {
            let read = Of::read(value, what, completions);
            if may_be_other || is_harness { Ok(read.ok()) } else { read.map(Some) }
        };
        let of_key = |value: &Value, key: &str, may_be_other: bool| {
            read(value, ("value", &format!(" of `{key}`")), may_be_other)
        };
        let there = |key: &str| get(value, key).filter(|found| !found.is_null());
        let reasons = if is_harness { Ending::own_reasons } else { Ending::reasons };
        let reasons = reasons(value).cloned().or_else(|| of_details(value, completions));
        // llama.cpp says by `truncated` that the prompt was cut.
        let is_of_prompt = |key: &str| key == "truncated" && there("stop_type").is_some();
        let ends = value.as_object().into_iter().flatten().filter_map(|(key, found)| {
            let when = match words::kind(key) {
                Kind::Ended => true,
                Kind::Cut if !is_of_prompt(key) => false,
                _ => return None,
            };
            let is_read = !found.is_null() && (words::is_sure_end(key) || is_flag(found));
            is_read.then_some((key, found, when))
        });
        let class = CLASSES.iter().find_map(|key| Some((key, there(key)?)));
        // One class of several completions is the topic of their problem.
        let class = class.map(|(key, class)| of_key(class, key, false)).transpose()?.flatten();
        let is_topic = |class: &Of| completions != 1 && matches!(class, Of::All(_));
        Ok(Self {
            reasons: reasons
                .map(|found| read(&found, ("finish reason", ""), false))
                .transpose()?
                .flatten(),
            ends: ends
                .filter_map(|(key, found, when)| {
                    let read = of_key(found, key, !words::is_sure_end(key)).transpose()?;
                    Some(read.map(|of| (of, when)))
                })
                .collect::<Result<_>>()?,
            class: class.filter(|class| !is_topic(class)),
        })
    }

    /// How the completion of this index ended: by its own reason, or else by the record's, and by the keys that say
    /// whether it ended by itself, of which one that says no decides.
    pub(super) fn ending(&self, index: usize, own: Ending) -> Ending {
        let reason = self.reasons.as_ref().and_then(|reasons| reasons.at(index));
        let ending = match (own, reason) {
            (Ending::Unknown, Some(reason)) => Ending::from_reason(reason),
            (own, _) => own,
        };
        let ends = self.ends.iter();
        let said = ends.filter_map(|(ends, when)| Some(truth(ends.at(index)?)? == *when));
        match (said.reduce(|all, one| all && one), &ending) {
            (Some(false), Ending::Normal | Ending::Unknown | Ending::Other(_)) => Ending::Truncated,
            (Some(true), Ending::Unknown) => Ending::Normal,
            _ => ending,
        }
    }

    /// Puts the ends into completions that do not say theirs, as harnesses write no end and users add one.
    pub(super) fn end(&self, answers: &mut [Completion]) {
        let answers = answers.iter_mut().enumerate();
        for (index, answer) in answers.filter(|(_, one)| one.is_end_unknown) {
            match self.ending(index, Ending::Unknown) {
                Ending::Unknown => continue,
                Ending::Truncated => answer.is_finished = false,
                Ending::Failed(why) => _ = answer.failure.get_or_insert(why),
                Ending::Normal | Ending::Other(_) => {}
            }
            answer.is_end_unknown = false;
        }
    }

    /// Its solution class.
    pub(super) fn class(&self, index: usize) -> Option<String> {
        text_of(self.class.as_ref()?.at(index)?)
    }
}
