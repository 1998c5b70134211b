//! `tealight schema`: the options of settings files as a JSON schema, which editors complete and check against.

use std::io::Write;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, Args, Command};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::commands;
use crate::cli::evaluation::eval;
use crate::cli::ranges::{self, NumberKind};
use crate::cli::training::{export, push, sft, study, train};
use crate::system::one_or_many::OneOrMany;
use crate::system::range::{Bound, Range};
use crate::system::telemetry::out;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct SchemaOptions {
    /// Command whose settings are described, such as train. Default: the settings of all commands.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(in crate::cli) fn run(options: &SchemaOptions) -> Result<()> {
    let schema = match &options.command {
        Some(name) => of_command(name)?,
        None => of_all(),
    };
    Ok(writeln!(out(), "{}", serde_json::to_string_pretty(&schema)?)?)
}

/// The schema of a command's settings files.
pub(in crate::cli) fn of_command(name: &str) -> Result<Value> {
    let known = || commands::names().collect::<Vec<_>>().join(", ");
    let entry = commands::entry(name)
        .with_context(|| format!("no command `{name}`; choose {}", known()))?;
    let mut properties = Map::new();
    let mut spellings = Map::new();
    for option in settings(name, &entry.plain()) {
        let id = option.get_id().to_string();
        let reference = json!({"$ref": format!("#/properties/{id}")});
        let aliases = option.get_all_aliases().unwrap_or_default();
        let aliases =
            aliases.into_iter().flat_map(|alias| [alias.to_owned(), alias.replace('-', "_")]);
        for other in aliases.chain([id.replace('_', "-")]).filter(|other| *other != id) {
            spellings.insert(format!("^{other}$"), reference.clone());
        }
        properties.insert(id, property(&option));
    }
    properties.insert(
        "quiet".into(),
        json!({
            "type": "boolean",
            "description": "Show nothing but the result, warnings and errors",
        }),
    );
    Ok(document(&format!("Settings of tealight {name}"), properties, spellings))
}

/// One schema for the settings files of all commands: an option that differs among them may be any of its kinds.
pub(in crate::cli) fn of_all() -> Value {
    let (mut properties, mut spellings) = (Map::new(), Map::new());
    for name in commands::names() {
        let Ok(Value::Object(mut one)) = of_command(name) else { continue };
        if let Some(Value::Object(others)) = one.remove("patternProperties") {
            spellings.extend(others);
        }
        let Some(Value::Object(own)) = one.remove("properties") else { continue };
        for (id, property) in own {
            match properties.get_mut(&id) {
                None => {
                    properties.insert(id, property);
                }
                Some(known) => merge(known, property),
            }
        }
    }
    document("Settings of tealight", properties, spellings)
}

/// Adds a further kind of an option.
fn merge(known: &mut Value, further: Value) {
    if kind(known) == kind(&further) {
        return;
    }
    if let Some(kinds) = known.get_mut("anyOf").and_then(Value::as_array_mut)
        && kinds.iter().any(|one| one.get("description").is_some())
    {
        if kinds.iter().all(|one| kind(one) != kind(&further)) {
            kinds.push(further);
        }
        return;
    }
    let first = known.take();
    let description = first.get("description").cloned().unwrap_or_default();
    *known = json!({"description": description, "anyOf": [first, further]});
}

/// A property without what is said of it.
fn kind(property: &Value) -> Value {
    let mut kind = property.clone();
    if let Some(fields) = kind.as_object_mut() {
        fields.remove("description");
        fields.remove("default");
    }
    kind
}

fn document(title: &str, properties: Map<String, Value>, spellings: Map<String, Value>) -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        "type": "object",
        "properties": properties,
        "patternProperties": spellings,
        "additionalProperties": false,
    })
}

/// The options of a command that settings files may have: all but its flags.
pub(super) fn settings(name: &str, command: &Command) -> Vec<Arg> {
    let none = Command::new("flags");
    let flags = match name {
        "study" => study::Flags::augment_args(none),
        "train" => train::Flags::augment_args(none),
        "eval" | "grade" => eval::Flags::augment_args(none),
        "sft" => sft::Flags::augment_args(none),
        "export" => export::Flags::augment_args(none),
        "push" => push::Flags::augment_args(none),
        _ => none,
    };
    let is_flag = |option: &Arg| flags.get_arguments().any(|flag| flag.get_id() == option.get_id());
    let is_read = |option: &Arg| {
        !option.is_hide_set() && !["config", "quiet", "help"].contains(&option.get_id().as_str())
    };
    let all = command.get_arguments().filter(|option| !is_flag(option) && is_read(option));
    all.cloned().collect()
}

/// The schema of an option.
fn property(option: &Arg) -> Value {
    let mut item = item(option);
    let is_list =
        matches!(option.get_action(), ArgAction::Append) || option.get_value_delimiter().is_some();
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    if is_list {
        let list = json!({"type": "array", "items": item});
        item = match option.get::<OneOrMany>() {
            Some(OneOrMany) => json!({"anyOf": [item, list]}),
            None => list,
        };
    }
    if let Some(fields) = item.as_object_mut() {
        fields.insert("description".into(), help.into());
        if let Some(default) = default(option, is_list) {
            fields.insert("default".into(), default);
        }
    }
    item
}

/// The schema of one value of an option.
fn item(option: &Arg) -> Value {
    let id = option.get_id().as_str();
    if id == "seeds" {
        return json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]});
    }
    if matches!(option.get_action(), ArgAction::SetTrue | ArgAction::SetFalse) {
        return json!({"type": "boolean"});
    }
    let is_bool = option.get_value_parser().type_id() == clap::value_parser!(bool).type_id();
    if is_bool {
        return json!({"type": "boolean"});
    }
    if let Some(kind) = ranges::number_kind(option) {
        return number(kind, option.get());
    }
    let values: Vec<String> =
        option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    match values.is_empty() {
        true => json!({"type": "string"}),
        false => json!({"type": "string", "enum": values}),
    }
}

/// The schema of a number with its range.
fn number(kind: NumberKind, range: Option<&Range>) -> Value {
    let kind = if kind == NumberKind::Whole { "integer" } else { "number" };
    let mut schema = Map::from_iter([("type".to_owned(), kind.into())]);
    let bounds = range.map(|range| (Some(range.least), range.most)).unwrap_or_default();
    for (bound, at, beyond) in
        [(bounds.0, "minimum", "exclusiveMinimum"), (bounds.1, "maximum", "exclusiveMaximum")]
    {
        let (key, bound) = match bound {
            None => continue,
            Some(Bound::At(bound)) => (at, bound),
            Some(Bound::Beyond(bound)) => (beyond, bound),
        };
        // Whole bounds are written as whole numbers.
        let is_whole = bound.fract() == 0.0 && bound.abs() < 1e15;
        schema.insert(key.into(), if is_whole { json!(bound as i64) } else { json!(bound) });
    }
    schema.into()
}

/// The default of an option, as a settings file writes it.
fn default(option: &Arg, is_list: bool) -> Option<Value> {
    let values: Vec<String> = option
        .get_default_values()
        .iter()
        .filter_map(|value| value.to_str())
        .map(str::to_owned)
        .collect();
    let kind = item(option);
    let one = |text: &str| match kind["type"].as_str() {
        Some("integer") => text.parse::<u64>().ok().map(Value::from),
        Some("number") => text.parse::<f64>().ok().map(Value::from),
        Some("boolean") => text.parse::<bool>().ok().map(Value::from),
        _ => Some(Value::from(text)),
    };
    match is_list {
        false => one(values.first()?),
        true if values.is_empty() => None,
        true => {
            let parts = values.iter().flat_map(|text| match option.get_value_delimiter() {
                Some(delimiter) => text.split(delimiter).collect::<Vec<_>>(),
                None => vec![text.as_str()],
            });
            parts.map(one).collect::<Option<Vec<_>>>().map(Value::from)
        }
    }
}

#[cfg(test)]
mod tests;
