//! `--resume RUN`: a run's directory to its settings, below files and flags, and the checkpoint that is continued.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::config_merge;

/// The options of a command that trains, and what its `--resume` names. Where that is a run's directory, or a
/// checkpoint in one, and no `--output` is given, the run's settings lie below files and flags and its directory is the
/// `output`.
///
/// # Errors
/// See [`config_merge::resolve`]; settings of a run that cannot be read.
pub(super) fn resolve<T>(
    matches: &ArgMatches,
    output: fn(&mut T) -> &mut Option<PathBuf>,
) -> Result<(T, Option<String>)>
where
    T: Args + FromArgMatches + Serialize + DeserializeOwned,
{
    let mut options: T = config_merge::resolve_plain(matches)?;
    let named: Option<&String> = matches.get_one("resume");
    let run = named.and_then(|name| run_of(Path::new(name)));
    let (Some((run, checkpoint)), None) = (run, output(&mut options)) else {
        return Ok((options, named.cloned()));
    };
    let file = run.join("config.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("{}: the settings of the run cannot be read", file.display()))?;
    options = config_merge::resolve(matches, Some((&file.display().to_string(), &text)))?;
    *output(&mut options) = Some(run);
    Ok((options, Some(checkpoint)))
}

/// The directory of a run and the name of a checkpoint, empty for the newest; none where `named` is neither.
fn run_of(named: &Path) -> Option<(PathBuf, String)> {
    let is_run = |path: &Path| path.join("config.toml").is_file();
    if named.as_os_str().is_empty() {
        return None;
    }
    if is_run(named) {
        return Some((named.to_owned(), String::new()));
    }
    let name = named.file_name()?.to_str()?.to_owned();
    let run = named.parent().filter(|run| named.is_dir() && is_run(run))?;
    Some((run.to_owned(), name))
}
