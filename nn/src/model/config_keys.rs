//! Which keys of a `config.json` a family honours, and what an absent key stands for: the table `config_keys.json`.
//!
//! A key that is not in the table and says something may change what transformers computes, and is refused by its
//! name. `scripts/check-config-keys` compares the defaults with transformers' classes. Rows of `own` are of the
//! families that are trained, rows of `candle` of candle-transformers' decoders. In a row, `keys` are honoured, with
//! the value that an absent key stands for; keys of `only` may have the listed values; keys of `free` change nothing
//! in this family; keys of `refused` are read by transformers and not here. A key that other rows have, and neither
//! this one nor what transformers' families `share`, is ignored by transformers too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::keys::Keys;

/// Whose decoder computes a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// Tealight's.
    Own,
    /// One of candle-transformers.
    Candle,
}

#[derive(Deserialize)]
struct Table {
    harmless: BTreeSet<String>,
    /// Keys that code of all families may read.
    shared: BTreeSet<String>,
    own: BTreeMap<String, Row>,
    candle: BTreeMap<String, Row>,
}

#[derive(Deserialize)]
struct Row {
    keys: Map<String, Value>,
    #[serde(default)]
    only: BTreeMap<String, Vec<Value>>,
    #[serde(default)]
    free: BTreeSet<String>,
    #[serde(default)]
    refused: BTreeSet<String>,
}

impl Row {
    fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key) || self.only.contains_key(key) || self.free.contains(key)
    }
}

impl Table {
    /// Whether other families have the key, and this one computes the same with it in transformers.
    fn is_of_others(&self, row: &Row, key: &str) -> bool {
        let is_known = || self.own.values().chain(self.candle.values()).any(|row| row.has(key));
        !row.has(key)
            && !ROPES.contains(&key)
            && !row.refused.contains(key)
            && !self.shared.contains(key)
            && !self.harmless.contains(key)
            && is_known()
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("config_keys.json")).expect("the table is JSON of this form")
});

/// The objects that describe positions; the first wins, as in transformers.
pub(super) const ROPES: [&str; 2] = ["rope_scaling", "rope_parameters"];
/// Heads of keys and values, which may be fewer than those of queries.
const KV_HEADS: &str = "num_key_value_heads";
/// The share of a head that positions turn.
const SHARE: &str = "partial_rotary_factor";
/// Keys of those objects that say nothing beside a plain rotation.
const PLAIN_ROPE: [&str; 4] = ["rope_type", "type", "rope_theta", "max_position_embeddings"];
/// Keys of the scalings that Tealight's decoder knows.
const SCALINGS: [&str; 12] = [
    "factor",
    ORIGINAL,
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "short_factor",
    "long_factor",
    "truncate",
];
/// Keys of scalings that transformers ignores.
const IGNORED_SCALINGS: [&str; 2] = ["attn_factor", "finetuned"];
/// Layers of both kinds, where each has a rotation of its own: in these families.
const NESTED: [&str; 2] = ["full_attention", "sliding_attention"];
const NESTED_FAMILIES: [&str; 2] = ["gemma3_text", "olmo3"];
/// The context before a scaling; transformers reads it beside the scaling too.
const ORIGINAL: &str = "original_max_position_embeddings";

/// A configuration that was checked, with a value for every key that the family honours.
pub(crate) fn completed(config: &Value, decoder: Decoder) -> Result<Value> {
    let family = config["model_type"].as_str().context("no text at key `model_type`")?;
    let rows = if decoder == Decoder::Own { &TABLE.own } else { &TABLE.candle };
    let row = rows.get(family).with_context(|| format!("`{family}` is not in the table"))?;
    let fields = config.as_object().context("config.json is no object")?;
    let whose = match decoder {
        Decoder::Own => String::new(),
        Decoder::Candle => " by candle-transformers' decoder".to_owned(),
    };
    let refuse = |key: &str, value: &Value| -> Result<()> {
        bail!(
            "key `{key}` = {value} of a `{family}` model is not honoured{whose}, and may change what the model computes; if \
             it does not, delete the key from config.json"
        )
    };
    for (key, value) in fields {
        if ROPES.contains(&key.as_str()) {
            row.check_rope(value, key, (decoder, family))
                .or_else(|name| refuse(&name.key, &name.value))?;
        } else if key == "quantization_config" && !(value.is_null() || value.is_object()) {
            bail!("key `{key}` must be an object, not {value}");
        } else if !row.allows(key, value)
            && !is_usual_size(fields, key)
            && !row.is_neutral(fields, key)
            && !TABLE.is_of_others(row, key)
        {
            refuse(key, value)?;
        }
    }
    let has_kv_heads = fields.contains_key(KV_HEADS);
    let mut fields = fields.clone();
    fields.retain(|key, _| !TABLE.is_of_others(row, key));
    row.complete(&mut fields);
    // A default that fits no model of so many heads.
    let heads =
        ["num_attention_heads", KV_HEADS].map(|key| fields.get(key).and_then(Value::as_u64));
    if let ([Some(heads), Some(shared)], false) = (heads, has_kv_heads)
        && shared > 0
        && !heads.is_multiple_of(shared)
    {
        fields.insert(KV_HEADS.into(), json!(heads));
    }
    if decoder == Decoder::Own {
        resolve(family, row, &mut fields)?;
    }
    Ok(Value::Object(fields))
}

/// A key that is refused, with its value.
struct Refused {
    key: String,
    value: Value,
}

impl Row {
    fn allows(&self, key: &str, value: &Value) -> bool {
        if let Some(values) = self.only.get(key) {
            let is_equal = |known: &Value| match (known.as_f64(), value.as_f64()) {
                (Some(known), Some(value)) => known == value,
                _ => known == value,
            };
            return value.is_null() || values.iter().any(is_equal);
        }
        is_nothing(value)
            || self.has(key)
            || TABLE.harmless.contains(key)
            || (key == SHARE && value.as_f64() == Some(1.0))
    }

    /// Refuses what is not honoured of an object that describes positions.
    fn check_rope(
        &self,
        value: &Value,
        key: &str,
        (decoder, family): (Decoder, &str),
    ) -> std::result::Result<(), Refused> {
        let refused =
            |key: &str, value: &Value| Err(Refused { key: key.to_owned(), value: value.clone() });
        if value.is_null() {
            return Ok(());
        }
        let Some(fields) = value.as_object() else { return refused(key, value) };
        let kind = rope_kind(value);
        let is_plain = kind.is_none_or(|kind| kind == "default");
        let knows_scalings = match decoder {
            Decoder::Own => true,
            // The only one of them that reads a scaling.
            Decoder::Candle => family == "llama" && kind == Some("llama3"),
        };
        if !is_plain && !knows_scalings {
            return refused(key, value);
        }
        for (name, inner) in fields {
            let name = name.as_str();
            let whole = || format!("{key}.{name}");
            if NESTED.contains(&name) && NESTED_FAMILIES.contains(&family) {
                self.check_rope(inner, &whole(), (decoder, family))?;
                continue;
            }
            let is_known = match name {
                SHARE => self.keys.contains_key(SHARE) || inner.as_f64() == Some(1.0),
                "llama_4_scaling_beta" => family == "ministral3" && decoder == Decoder::Own,
                // Positions of text are the same in all three sections.
                "mrope_section" | "mrope_interleaved" => family == "qwen3_5_text",
                _ if NESTED.contains(&name) => false,
                _ if IGNORED_SCALINGS.contains(&name) => is_plain || decoder == Decoder::Own,
                _ => PLAIN_ROPE.contains(&name) || is_plain || SCALINGS.contains(&name),
            };
            if !is_known && !is_nothing(inner) {
                return refused(&whole(), inner);
            }
        }
        Ok(())
    }

    /// Whether a key says nothing beside the others: an original context without a scaling, layers that all see
    /// everything in a family without windows.
    fn is_neutral(&self, fields: &Map<String, Value>, key: &str) -> bool {
        let is_full = |kind: &Value| *kind == NESTED[0];
        match key {
            ORIGINAL => {
                let given = ROPES
                    .iter()
                    .filter_map(|name| fields.get(*name))
                    .find(|rope| !is_nothing(rope));
                given.or(self.keys.get(ROPES[1])).is_none_or(is_plain_rotation)
            }
            "layer_types" if !self.keys.contains_key("sliding_window") => {
                fields[key].as_array().is_some_and(|kinds| kinds.iter().all(is_full))
            }
            _ => false,
        }
    }

    /// Gives every absent key the value that it stands for.
    fn complete(&self, fields: &mut Map<String, Value>) {
        let is_object = |name: &&str| fields.get(*name).is_some_and(Value::is_object);
        let rope = ROPES.iter().find(|name| is_object(name)).map(|name| &fields[*name]);
        // Rotations by kind of layer have one in each.
        let says_theta = |rope: &Value| {
            let inner = NESTED.iter().find_map(|kind| rope.get(*kind)).unwrap_or(rope);
            inner.get("rope_theta").is_some()
        };
        let (has_rope, has_theta) = (rope.is_some(), rope.is_some_and(says_theta));
        for (key, value) in self.keys.iter().filter(|(_, value)| !value.is_null()) {
            let is_said = match key.as_str() {
                "rope_theta" => has_theta,
                "rope_parameters" => has_rope,
                _ => false,
            };
            let is_absent = match ROPES.contains(&key.as_str()) {
                true => fields.get(key).is_none_or(Value::is_null),
                false => !fields.contains_key(key),
            };
            if !is_said && is_absent {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The kind of a rotation, where it has one.
pub(super) fn rope_kind(rope: &Value) -> Option<&str> {
    ["rope_type", "type"].iter().find_map(|name| rope.get(*name)?.as_str())
}

/// Whether a rotation has no scaling, in layers of any kind.
fn is_plain_rotation(rope: &Value) -> bool {
    rope_kind(rope).is_none_or(|kind| kind == "default")
        && NESTED.iter().filter_map(|kind| rope.get(*kind)).all(is_plain_rotation)
}

/// Whether a value is absent, false or empty: new keys that are off.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whether the key is a width that follows from others, and it is the usual one: of a head, of Falcon's feed-forward
/// layer.
fn is_usual_size(fields: &Map<String, Value>, key: &str) -> bool {
    let number = |key: &str| fields.get(key).and_then(Value::as_u64);
    let Some(width) = number("hidden_size") else { return false };
    let usual = match key {
        "head_dim" => number("num_attention_heads").and_then(|heads| width.checked_div(heads)),
        "ffn_hidden_size" => width.checked_mul(4),
        _ => None,
    };
    usual.is_some() && usual == number(key)
}

/// Values that follow from others, written out as transformers computes them.
fn resolve(family: &str, row: &Row, fields: &mut Map<String, Value>) -> Result<()> {
    let config = Value::Object(fields.clone());
    let keys = Keys(&config);
    let count = keys.size("num_hidden_layers")?;
    let (hidden, heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
    let mut fill = |key: &str, value: Value| {
        if row.keys.contains_key(key) && fields.get(key).is_none_or(Value::is_null) {
            fields.insert(key.to_owned(), value);
        }
    };
    fill(KV_HEADS, json!(heads));
    fill("head_dim", json!(hidden / heads));
    let interval = keys.size_or("no_rope_layer_interval", 4)?;
    let turns = |layer: usize| !(layer + 1).is_multiple_of(interval);
    fill("no_rope_layers", (0..count).map(|layer| json!(u8::from(turns(layer)))).collect());
    let turns = match keys.numbers("no_rope_layers", count)? {
        Some(given) => given.iter().map(|flag| *flag != 0.0).collect(),
        None => (0..count).map(turns).collect::<Vec<bool>>(),
    };
    let has_window = keys.flag("use_sliding_window")? && keys.present("sliding_window").is_some();
    let first = keys.number_or("max_window_layers", 0.0)?;
    let pattern = keys.size_or("sliding_window_pattern", 4)?;
    let full_interval = keys.size_or("full_attention_interval", 4)?;
    let kind = |layer: usize| match family {
        "qwen2" | "qwen3" if has_window && layer as f64 >= first => "sliding_attention",
        "smollm3" if has_window && !turns[layer] => "sliding_attention",
        "gemma3_text" | "olmo3" if !(layer + 1).is_multiple_of(pattern) => "sliding_attention",
        "qwen3_5_text" if !(layer + 1).is_multiple_of(full_interval) => "linear_attention",
        "granitemoehybrid" => "mamba",
        _ => "full_attention",
    };
    fill("layer_types", (0..count).map(kind).collect());
    Ok(())
}

#[cfg(test)]
#[path = "config_keys_tests.rs"]
mod tests;
