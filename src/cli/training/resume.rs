//! A run's directory from flags: `--output`, `--overwrite` and `--resume RUN`, which brings the run's settings below
//! files and flags, and the checkpoint that is continued.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::foreign::refuse_foreign;
use crate::app::NO_OUTPUT;
use crate::app::directory::{RunDirectory, Start};
use crate::app::folder_settings;
use crate::cli::config_merge;
use tealight_learn::train::checkpoint;

/// The settings of a command that trains, and the directory that a settings file may name too.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct RunSettings<S: Args> {
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) settings: S,
    /// Directory for the model, the metrics and the checkpoints.
    #[arg(long, alias = "output-dir", help_heading = "Output")]
    output: Option<PathBuf>,
}

/// Flags of a command that trains.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct RunFlags {
    /// Continue a run. With a run's directory: that run, with the settings in the directory. With a checkpoint's
    /// name, or without a value: the run in --output, from that checkpoint or the newest one; without any checkpoint
    /// the run starts from the beginning.
    #[arg(long, value_name = "RUN|CHECKPOINT", num_args = 0..=1, default_missing_value = "",
          alias = "resume-from-checkpoint", help_heading = "Checkpoints")]
    resume: Option<String>,
    /// Replace the run in --output: the files that Tealight wrote there are removed.
    #[arg(long, conflicts_with = "resume", help_heading = "Output")]
    overwrite: bool,
    /// Print the resolved settings, the data, the first prompts and the plan of memory or of steps, and stop.
    #[arg(long, conflicts_with = "resume", help_heading = "Output")]
    pub(super) dry_run: bool,
}

/// The settings of a run and its directory, where one is named.
pub(in crate::cli) fn resolve<S>(matches: &ArgMatches) -> Result<(S, Option<RunDirectory>)>
where
    S: Args + FromArgMatches + Serialize + DeserializeOwned,
{
    let flags = RunFlags::from_arg_matches(matches)?;
    let files = config_merge::files(matches)?;
    let mut run: RunSettings<S> = config_merge::resolve_with(matches, None, &files)?;
    let mut checkpoint = flags.resume.clone();
    let named = flags.resume.as_ref().and_then(|name| run_of(Path::new(name)));
    // The command line alone says which run: a file's `output` does not replace the one that is named there.
    let is_typed = matches.value_source("output") == Some(ValueSource::CommandLine);
    let mut recorded = None;
    if let (Some((directory, name)), false) = (named, is_typed) {
        recorded = settings_file(&directory)?;
        let below = recorded.as_ref().map(|(file, text)| (file.as_str(), text.as_str()));
        run = config_merge::resolve_with(matches, below, &files)?;
        (run.output, checkpoint) = (Some(directory), Some(name));
    }
    if let (Some(_), Some(directory)) = (&flags.resume, &run.output) {
        let recorded = recorded.as_ref().map(|(file, text)| (file.as_str(), text.as_str()));
        refuse_foreign(matches, &files, directory, recorded, &run)?;
    }
    let start = match (checkpoint, flags.overwrite) {
        (Some(checkpoint), _) => Start::Resume(checkpoint),
        (None, true) => Start::Replace,
        (None, false) => Start::New,
    };
    Ok((run.settings, run.output.map(|path| RunDirectory { path, start })))
}

/// The settings file of a run or a study and its text, where its directory has one.
pub(super) fn settings_file(directory: &Path) -> Result<Option<(String, String)>> {
    let text = folder_settings::read(directory)?;
    Ok(text.map(|text| (directory.join("config.toml").display().to_string(), text)))
}

/// The directory of a command that needs one.
pub(super) fn directory(matches: &ArgMatches, named: Option<RunDirectory>) -> Result<RunDirectory> {
    if let Some(directory) = named {
        return Ok(directory);
    }
    let resume = RunFlags::from_arg_matches(matches)?.resume.unwrap_or_default();
    let path = Path::new(&resume);
    let is_run = |run: &&Path| !run.as_os_str().is_empty() && run.join("config.toml").is_file();
    let run = path.parent().filter(is_run);
    if let (Some(run), Some(name)) = (run, path.file_name().and_then(OsStr::to_str)) {
        // It says which checkpoints there are.
        checkpoint::find(run, name)?;
    }
    match resume.as_str() {
        "" => bail!(NO_OUTPUT),
        _ if !path.exists() => bail!("--resume {resume}: there is no such directory"),
        _ => {}
    }
    let of_checkpoints = |folder: &&Path| !checkpoint::all(folder).is_empty();
    match [Some(path), path.parent()].into_iter().flatten().find(of_checkpoints) {
        Some(folder) => bail!(
            "--resume {resume}: config.toml, with the settings of the run, is missing in {0}: give the run's options \
             again, with --output {0} --resume",
            folder.display()
        ),
        None => {
            bail!("--resume {resume}: holds neither a run (config.toml) nor a checkpoint of one")
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::folder_settings::FREE;
    use crate::app::study::StudyOptions;
    use crate::app::training::TrainOptions;
    use crate::app::training::sft::SftOptions;
    use crate::cli::ranges::number_kind;
    use std::collections::BTreeSet;

    /// The names of all settings of a command but numbers.
    fn names<T: Args>() -> BTreeSet<String> {
        let command = T::augment_args(clap::Command::new("options"));
        let named = command.get_arguments().filter(|option| number_kind(option).is_none());
        named.map(|option| option.get_id().to_string()).collect()
    }

    #[test]
    fn every_setting_that_is_not_free_names_something_outside() {
        let mut all = names::<TrainOptions>();
        all.extend(names::<SftOptions>());
        all.extend(names::<StudyOptions>());
        let guarded: Vec<&str> =
            all.iter().map(String::as_str).filter(|name| !FREE.contains(name)).collect();
        let expected = [
            "adapter",
            "chat_template",
            "classes",
            "dataset",
            "engine",
            "engine_kwargs",
            "eval_dataset",
            "few_shot_dataset",
            "from_scratch",
            "initial_policy",
            "model",
            "objective",
            "objectives",
            "ood_dataset",
            "presamples",
            "prompt_template",
            "report_to",
            "task",
            "test_dataset",
            "tokenizer",
            "verifier",
        ];
        assert_eq!(guarded, expected);
        let unknown: Vec<_> = FREE.iter().filter(|name| !all.contains(**name)).collect();
        assert!(unknown.is_empty(), "no options: {unknown:?}");
    }
}
