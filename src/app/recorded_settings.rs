//! The settings that a folder was begun with, which a command that goes on there must share.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::app::folder_settings;

/// Refuses to go on in `output` with other settings than it was begun with; nothing there yet is fine.
pub(crate) fn refuse_other_settings(options: &impl Serialize, output: &Path) -> Result<()> {
    let Some(text) = folder_settings::read(output)? else { return Ok(()) };
    let shown = || output.join("config.toml").display().to_string();
    let before: toml::Table = text.parse().with_context(shown)?;
    let now = toml::Table::try_from(options)?;
    let shown = |value: Option<&toml::Value>| value.map_or("unset".into(), ToString::to_string);
    let changed: Vec<String> = before
        .keys()
        .chain(now.keys().filter(|key| !before.contains_key(*key)))
        .filter(|key| !["output", "quiet"].contains(&key.as_str()))
        .filter(|key| before.get(*key) != now.get(*key))
        .filter(|key| before.contains_key(*key) || !now.get(*key).is_some_and(is_off))
        .map(|key| format!("{key} was {}, is {}", shown(before.get(key)), shown(now.get(key))))
        .collect();
    match changed.is_empty() {
        true => Ok(()),
        false => bail!(
            "{} was begun with other settings: {}; continue with those, or choose another --output",
            output.display(),
            changed.join(", ")
        ),
    }
}

/// Whether an option with this value does nothing. An option that is newer than the folder is absent from its settings.
fn is_off(value: &toml::Value) -> bool {
    match value {
        toml::Value::Boolean(is_on) => !is_on,
        toml::Value::Integer(number) => *number == 0,
        toml::Value::Float(number) => *number == 0.0,
        toml::Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_newer_than_the_folder_are_no_change_while_they_are_off() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.toml"), "seed = 1\n").unwrap();
        let with = |extra: &str| {
            let options: toml::Table = format!("seed = 1\n{extra}").parse().unwrap();
            refuse_other_settings(&options, folder.path())
        };
        with("limit = 0\nshare = 0.0\nlog = false\nnames = []").unwrap();
        let error = with("limit = 2").unwrap_err().to_string();
        assert!(error.contains("limit was unset, is 2"), "{error}");
    }
}
