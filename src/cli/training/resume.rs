//! `--resume RUN`: a run's directory to its settings, below files and flags, and the checkpoint that is continued.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::app::place::{MAX_SETTINGS, as_argument};
use crate::cli::config_merge;
use crate::files::read_text;

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
    let text = read_text(&file, MAX_SETTINGS)?;
    refuse_programs(&text, &file, matches)?;
    options = config_merge::resolve(matches, Some((&file.display().to_string(), &text)))?;
    *output(&mut options) = Some(run);
    Ok((options, Some(checkpoint)))
}

/// Refuses settings of a run that start a program or ask a server, unless the command line says the same: the folder of a
/// run may come from a stranger.
fn refuse_programs(text: &str, file: &Path, matches: &ArgMatches) -> Result<()> {
    let settings: toml::Table =
        text.parse().with_context(|| format!("{}: not TOML", file.display()))?;
    let given = |option: &str| {
        matches!(matches.try_get_raw(option), Ok(Some(_)))
            && matches.value_source(option) == Some(ValueSource::CommandLine)
    };
    let texts = |key: &str| -> Vec<String> {
        match settings.get(key) {
            Some(toml::Value::String(text)) => vec![text.clone()],
            Some(toml::Value::Array(values)) => {
                values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    };
    for (option, what) in [("verifier", "starts the program"), ("engine", "asks the server")] {
        let found = texts(option).into_iter().find(|value| {
            option == "engine" || value.starts_with("program:") || value.starts_with("python:")
        });
        if let Some(value) = found.filter(|_| !given(option)) {
            bail!(
                "{}: this run {what} `{value}`; if that is yours, say so: add --{option} {}",
                file.display(),
                as_argument(Path::new(&value))
            );
        }
    }
    Ok(())
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
