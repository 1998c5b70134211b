//! A run's directory from flags: `--output`, `--overwrite` and `--resume RUN`, which brings the run's settings below
//! files and flags, and the checkpoint that is continued.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::app::directory::{RunDirectory, Start, as_argument};
use crate::cli::config_merge;
use crate::system::files::{MAX_SMALL, read_text};

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
    /// Continue a run. With a run's directory: that run, with the settings in the directory. With a checkpoint's
    /// name, or without a value: the run in --output, from that checkpoint or the newest one; without any checkpoint
    /// the run starts from the beginning.
    #[arg(long, value_name = "RUN|CHECKPOINT", num_args = 0..=1, default_missing_value = "",
          alias = "resume-from-checkpoint")]
    resume: Option<String>,
    /// Replace the run in --output: the files that Tealight wrote there are removed.
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
        let text = read_text(&file, MAX_SMALL)?;
        refuse_programs(&text, &file, matches)?;
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

/// Refuses settings of a run that start a program or ask a server, unless the command line says the same: the folder
/// of a run may be untrusted.
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
    let asks = [
        ("verifier", "starts the program"),
        ("engine", "asks the server"),
        ("report_to", "reports to"),
    ];
    for (option, what) in asks {
        let all = texts(option);
        let program = all.iter().find(|value| match option {
            "verifier" => value.starts_with("program:") || value.starts_with("python:"),
            "report_to" => !["tensorboard", "none"].contains(&value.as_str()),
            _ => true,
        });
        if let Some(value) = program.filter(|_| !given(option)) {
            // Flags take the place of the whole list.
            let name = option.replace('_', "-");
            let flag = |value: &String| format!(" --{name} {}", as_argument(Path::new(value)));
            let flags: String = all.iter().map(flag).collect();
            bail!(
                "{}: this run {what} `{value}`; if that is yours, say so: add{flags}",
                file.display()
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
