//! `tealight push`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, FromArgMatches};
use serde::{Deserialize, Serialize};

use crate::app::push::{self, PushOptions};
use crate::cli::config_merge;
use crate::system::telemetry::print;

/// The settings of this command, and what a settings file may name too: a run and a repository.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct Settings {
    /// A run's directory, whose final/ is pushed, or a folder with a model or an adapter.
    #[arg(value_name = "RUN|DIR")]
    place: Option<PathBuf>,
    /// Repository, owner/name; a missing repository is created.
    #[arg(long, alias = "repo-id", alias = "hub-model-id")]
    repo: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    push: PushOptions,
}

/// The flags of this command.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Flags {
    /// Write the card, list the files that would be sent with size in bytes and kind, and stop.
    #[arg(long)]
    dry_run: bool,
}

pub(in crate::cli) fn run(matches: &ArgMatches) -> Result<()> {
    let Settings { place, repo, push } = config_merge::resolve_plain(matches)?;
    let run = place.context("name a run's directory or a model's")?;
    let repository = repo.context("--repo OWNER/NAME is needed")?;
    if Flags::from_arg_matches(matches)?.dry_run {
        for file in push::dry_run(&push, &run, &repository)? {
            print(format_args!("{:>12} {:<10} {}", file.bytes, file.kind(), file.name))?;
        }
        return Ok(());
    }
    Ok(print(push::run(&push, &run, &repository)?)?)
}
