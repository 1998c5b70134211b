//! What a record says of each of its completions: how it ended, its class.

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_core::names::list;

use super::fields::{get, printed_list, text_of, truth};
use super::names::CLASSES;
use crate::completion::Ending;
use crate::number::counted;

/// Keys that say whether a completion ended by itself, and whether it was cut off.
const ENDED: [&str; 7] =
    list("is_finished|finished|is_complete|completed|is_reasoning_complete|has_eos|ended_with_eos");
const CUT: [&str; 11] = list(
    "is_truncated|truncated|was_truncated|stopped_limit|hit_limit|hit_max_tokens|cut_off|clipped|is_clipped|\
    hit_length_limit|reached_max_tokens",
);

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

/// What a record says of its completions.
pub(super) struct Each {
    reasons: Option<Of>,
    /// With what each says of a completion that ended by itself.
    ends: Vec<(Of, bool)>,
    class: Option<Of>,
}

impl Each {
    pub(super) fn of(value: &Value, completions: usize) -> Result<Self> {
        let read = |value: &Value, what: (&str, &str)| Of::read(value, what, completions);
        let of_key = |value: &Value, key: &str| read(value, ("value", &format!(" of `{key}`")));
        let there = |key: &str| get(value, key).filter(|found| !found.is_null());
        let reasons = Ending::reasons(value);
        // llama.cpp says by `truncated` that the prompt was cut.
        let is_of_prompt = |key: &str| key == "truncated" && there("stop_type").is_some();
        let ends = ENDED.map(|key| (key, true)).into_iter().chain(CUT.map(|key| (key, false)));
        let ends = ends.filter(|(key, _)| !is_of_prompt(key));
        let ends = ends.filter_map(|(key, when)| Some((key, there(key)?, when)));
        let class = CLASSES.iter().find_map(|key| Some((key, there(key)?)));
        // One class of several completions is the topic of their problem.
        let class = class.map(|(key, class)| of_key(class, key)).transpose()?;
        let is_topic = |class: &Of| completions != 1 && matches!(class, Of::All(_));
        Ok(Self {
            reasons: reasons.map(|found| read(found, ("finish reason", ""))).transpose()?,
            ends: ends
                .map(|(key, found, when)| Ok((of_key(found, key)?, when)))
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

    /// Its solution class.
    pub(super) fn class(&self, index: usize) -> Option<String> {
        text_of(self.class.as_ref()?.at(index)?)
    }
}
