//! `tealight export`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, FromArgMatches};
use serde::{Deserialize, Serialize};

use crate::app::directory::Existing;
use crate::app::export::{self, ExportOptions};
use crate::cli::{NO_OUTPUT, config_merge};

/// The settings of this command, and the directory that a settings file may name too.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct Settings {
    #[command(flatten)]
    #[serde(flatten)]
    export: ExportOptions,
    /// Directory for the model.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// The flags of this command.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Flags {
    /// Write over files in --output.
    #[arg(long)]
    overwrite: bool,
}

pub(in crate::cli) fn run(matches: &ArgMatches) -> Result<()> {
    let settings: Settings = config_merge::resolve_plain(matches)?;
    let existing = match Flags::from_arg_matches(matches)?.overwrite {
        true => Existing::Replace,
        false => Existing::Keep,
    };
    export::run(&settings.export, &settings.output.context(NO_OUTPUT)?, existing)
}
