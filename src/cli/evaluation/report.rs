//! `tealight report DIR`: the report of a folder again, also of a run or study that still goes on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tealight_core::json_file::{self, JsonFileError};
use tealight_core::run_folder::METRICS;
use tealight_eval::report::{self, Study};
use tealight_eval::results::{MAX_RESULTS, Results};

use crate::app::directory::as_argument;
use tealight_system::files::{MAX_SETTINGS, read_text};

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ReportOptions {
    /// Directory of an evaluation, a training run or a study.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(in crate::cli) fn run(options: &ReportOptions) -> Result<()> {
    let Some(directory) = &options.directory else { bail!("name the DIR of a run") };
    if !directory.is_dir() {
        bail!("{}: no such directory", directory.display());
    }
    if let Some(study) = study_of(directory) {
        bail!(
            "{} is a part of a study: its report is `tealight report {}`",
            directory.display(),
            as_argument(study)
        );
    }
    write(directory)?;
    tracing::info!("{}", directory.join("report.html").display());
    Ok(())
}

/// How the names of files begin that have the samples of a study's model.
const STUDY_SAMPLES: &str = "samples-";

/// The study of a folder that has the samples of one of its models, and no results or metrics of its own.
fn study_of(directory: &Path) -> Option<&Path> {
    let is_there = |name: &str| directory.join(name).exists();
    let mut entries = std::fs::read_dir(directory).ok()?.flatten();
    let is_sampled = entries.any(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(STUDY_SAMPLES))
    });
    let has_own_report = is_there("results.json") || is_there(METRICS);
    directory
        .parent()
        .filter(|study| is_sampled && !has_own_report && study.join("config.toml").exists())
}

/// Whether a folder has the settings of a study.
fn is_study(directory: &Path) -> bool {
    let settings = read_text(&directory.join("config.toml"), MAX_SETTINGS).unwrap_or_default();
    let settings: toml::Table = settings.parse().unwrap_or_default();
    settings.contains_key("objectives")
}

/// Writes the report of a study, an evaluation or a training run again, by what its folder holds.
fn write(directory: &Path) -> Result<()> {
    let path = directory.join("results.json");
    if !path.exists() && !directory.join(METRICS).is_file() && is_study(directory) {
        bail!(
            "{}: this study is not finished; continue it with `tealight study --resume {}`, or write the \
             report of one of its runs",
            directory.display(),
            as_argument(directory)
        );
    }
    if !path.exists() && directory.join(METRICS).is_file() {
        return report::write_training(directory);
    }
    for (file, command) in [("audit.json", "audit"), ("compare.json", "compare")] {
        if !path.exists() && directory.join(file).is_file() {
            bail!(
                "{}: the page of `tealight {command}`, which is written by that command alone: run it again with \
                 --overwrite",
                directory.display()
            );
        }
    }
    /// The field that tells a study from an evaluation.
    #[derive(Default, Deserialize)]
    struct Kind {
        objectives: Option<IgnoredAny>,
    }
    let kind: Kind = match json_file::read_own(directory, &path, MAX_RESULTS) {
        Err(JsonFileError::Json(_)) => Kind::default(),
        kind => kind.with_context(|| format!("{}: cannot be read", path.display()))?,
    };
    if kind.objectives.is_some() {
        return report::write_study(&Study::load(directory)?, directory);
    }
    let results = Results::load(directory)?;
    report::write(&[(directory, &results)], std::slice::from_ref(&results.model), None, directory)
}
