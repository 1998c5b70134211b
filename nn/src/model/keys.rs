//! Typed access to the keys of a `config.json`; errors name the key.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::architecture::Growth;
use super::config_keys::ROPES;

/// The most that sizes may be; they are far above every model there is, and far below what a machine can hold.
const LIMITS: [(&str, u64); 13] = [
    ("num_hidden_layers", 1024),
    ("vocab_size", 1 << 23),
    ("hidden_size", 1 << 17),
    ("intermediate_size", 1 << 20),
    ("num_attention_heads", 1 << 12),
    ("num_key_value_heads", 1 << 12),
    ("max_position_embeddings", 1 << 32),
    ("sliding_window", 1 << 32),
    ("linear_num_key_heads", 1 << 12),
    ("linear_num_value_heads", 1 << 12),
    ("linear_key_head_dim", 1 << 12),
    ("linear_value_head_dim", 1 << 12),
    ("linear_conv_kernel_dim", 64),
];

/// A JSON object.
pub(super) struct Keys<'a>(pub(super) &'a Value);

impl<'a> Keys<'a> {
    pub(super) fn text(&self, key: &str) -> Result<&'a str> {
        self.0.get(key).and_then(Value::as_str).with_context(|| format!("no text at key `{key}`"))
    }

    pub(super) fn present(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn size(&self, key: &str) -> Result<usize> {
        let value = self.present(key).with_context(|| format!("no key `{key}`"))?;
        let most = LIMITS.iter().find(|(name, _)| *name == key).map_or(1 << 20, |(_, most)| *most);
        match value.as_u64() {
            Some(size) if size > 0 && size <= most => Ok(size as usize),
            Some(size) if size > most => {
                bail!("key `{key}` is {size}, above {most}, the most that is supported")
            }
            _ => bail!("key `{key}` must be a positive whole number, not {value}"),
        }
    }

    pub(super) fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.present(key).is_some() { self.size(key) } else { Ok(default) }
    }

    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        match self.present(key) {
            None => Ok(default),
            Some(value) => number(value, key),
        }
    }

    pub(super) fn needed_number(&self, key: &str) -> Result<f64> {
        number(self.0.get(key).unwrap_or(&Value::Null), key)
    }

    /// False where the key is absent.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.present(key) {
            None => Ok(false),
            Some(value) => value
                .as_bool()
                .with_context(|| format!("key `{key}` must be true or false, not {value}")),
        }
    }

    /// A list with an entry a layer, where there is one.
    fn list(&self, key: &str, count: usize) -> Result<Option<&'a [Value]>> {
        let Some(value) = self.present(key) else { return Ok(None) };
        match value.as_array() {
            Some(list) if list.len() == count => Ok(Some(list)),
            _ => bail!("key `{key}` must be a list of {count} entries, one a layer"),
        }
    }

    pub(super) fn texts(&self, key: &str, count: usize) -> Result<Option<Vec<&'a str>>> {
        let Some(list) = self.list(key, count)? else { return Ok(None) };
        let texts: Option<_> = list.iter().map(Value::as_str).collect();
        texts.map(Some).with_context(|| format!("key `{key}` must be a list of texts"))
    }

    pub(super) fn numbers(&self, key: &str, count: usize) -> Result<Option<Vec<f64>>> {
        let Some(list) = self.list(key, count)? else { return Ok(None) };
        list.iter().map(|value| number(value, key)).collect::<Result<_>>().map(Some)
    }

    /// The object that describes positions.
    pub(super) fn rope_parameters(&self) -> Option<&'a Value> {
        let says = |value: &&Value| value.as_object().is_none_or(|fields| !fields.is_empty());
        ROPES.iter().find_map(|key| self.present(key).filter(says))
    }

    /// A number that belongs to the rotary embedding, from either layout.
    pub(super) fn rope_number(&self, key: &str) -> Result<Option<f64>> {
        let inside = self.rope_parameters().and_then(|parameters| parameters.get(key));
        let value = inside.or(self.present(key));
        value.map(|value| number(value, key)).transpose()
    }

    /// How queries grow with their position, where they do.
    pub(super) fn growth(&self) -> Result<Option<Growth>> {
        let Some(beta) = self.rope_number("llama_4_scaling_beta")? else { return Ok(None) };
        let period = self.rope_number("original_max_position_embeddings")?;
        match period.filter(|period| *period >= 1.0 && beta >= 0.0) {
            Some(period) => Ok(Some(Growth { beta, period: period as usize })),
            None => {
                bail!("llama_4_scaling_beta = {beta} without its original_max_position_embeddings")
            }
        }
    }
}

pub(super) fn number(value: &Value, key: &str) -> Result<f64> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number.with_context(|| format!("key `{key}` must be a number, not {value}"))
}
