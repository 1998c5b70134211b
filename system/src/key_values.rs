//! The values of an option that takes texts KEY=VALUE.

use anyhow::{Result, bail};

/// The keys with their values; `option` and `example` are for messages.
///
/// # Errors
/// A text without a key or an equals sign, a key twice.
pub fn read<'t>(
    option: &str,
    example: &str,
    texts: &'t [String],
) -> Result<Vec<(&'t str, &'t str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for text in texts {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            bail!("{option} must be KEY=VALUE, such as {example}, not `{text}`");
        };
        if pairs.iter().any(|(known, _)| *known == key) {
            bail!("{option} sets `{key}` twice");
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}
