//! The settings that a command records where it writes, which a command that goes on there must share.

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

/// Settings of a command and the directory that it writes to, as its `config.toml` has them.
#[derive(Serialize)]
pub(crate) struct WithOutput<'a, T> {
    #[serde(flatten)]
    pub(crate) settings: &'a T,
    pub(crate) output: &'a Path,
}

/// What the first line of recorded settings says: `# tealight 0.1.0, revision 1a2b3c4`.
const MARK: &str = "# tealight ";
const REVISION: &str = ", revision ";

/// Saves the resolved settings beside the run's results and says where they are; their text.
pub(crate) fn record_config(options: &impl Serialize, output: &Path) -> Result<String> {
    let (version, revision) = (env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION"));
    let text = format!("{MARK}{version}{REVISION}{revision}\n{}", toml::to_string(options)?);
    let file = output.join("config.toml");
    tealight_system::files::write_atomic(&file, text.as_bytes())?;
    tracing::info!("all settings in {}", file.display());
    Ok(text)
}

/// Whether settings are those that a command recorded.
pub(crate) fn is_record(settings: &[u8]) -> bool {
    let first = settings.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    first.starts_with(MARK) && first.contains(REVISION)
}
