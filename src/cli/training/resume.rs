//! A run's directory from flags: `--output`, `--overwrite` and `--resume RUN`, which brings the run's settings below
//! files and flags, and the checkpoint that is continued.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, FromArgMatches};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::app::directory::{RunDirectory, Start};
use crate::cli::config_merge;

/// The settings of a command that trains, and the directory that a settings file may name too.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct RunSettings<S: Args> {
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) settings: S,
    /// Directory for the model, the metrics and the checkpoints.
    #[arg(long, alias = "output-dir")]
    output: Option<PathBuf>,
}

/// Flags of a command that trains.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct RunFlags {
    /// Continue a run. Without a value, or with a checkpoint's name: the run in --output, from its newest checkpoint or
    /// the one named, or from the start where the run has none. With a run's directory in place of --output: that run,
    /// with the settings that it was begun with.
    #[arg(long, value_name = "RUN|CHECKPOINT", num_args = 0..=1, default_missing_value = "",
          alias = "resume-from-checkpoint")]
    resume: Option<String>,
    /// Begin anew where --output holds a run: the files that Tealight wrote there are removed.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
}

/// The settings of a run and its directory, where one is named.
///
/// # Errors
/// A file that cannot be read, is not TOML, has an unknown key or a value of the wrong kind.
pub(super) fn resolve<S>(matches: &ArgMatches) -> Result<(S, Option<RunDirectory>)>
where
    S: Args + FromArgMatches + Serialize + DeserializeOwned,
{
    let flags = RunFlags::from_arg_matches(matches)?;
    let mut run: RunSettings<S> = config_merge::resolve_plain(matches)?;
    let mut checkpoint = flags.resume.clone();
    let named = flags.resume.as_ref().and_then(|name| run_of(Path::new(name)));
    if let (Some((directory, name)), None) = (named, &run.output) {
        let file = directory.join("config.toml");
        let text = std::fs::read_to_string(&file).with_context(|| {
            format!("{}: the settings of the run cannot be read", file.display())
        })?;
        run = config_merge::resolve(matches, Some((&file.display().to_string(), &text)))?;
        (run.output, checkpoint) = (Some(directory), Some(name));
    }
    let start = match (checkpoint, flags.overwrite) {
        (Some(checkpoint), _) => Start::Resume(checkpoint),
        (None, true) => Start::Replace,
        (None, false) => Start::New,
    };
    Ok((run.settings, run.output.map(|path| RunDirectory { path, start })))
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
