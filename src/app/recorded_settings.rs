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

/// Whether settings are those that a command recorded: `# tealight 0.1.0, revision 1a2b3c4`.
pub(crate) fn is_record(settings: &[u8]) -> bool {
    let first = settings.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    first.starts_with("# tealight ") && first.contains(", revision ")
}
