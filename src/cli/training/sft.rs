//! `tealight sft`.

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches};

use super::resume::{self, RunFlags, RunSettings};
use crate::app::directory::RunDirectory;
use crate::app::training::sft::{self, SftOptions};
use tealight_system::stop::Stop;
use tealight_system::telemetry::print;

/// The settings of this command.
pub(in crate::cli) type Settings = RunSettings<SftOptions>;
/// The flags of this command.
pub(in crate::cli) type Flags = RunFlags;

pub(in crate::cli) fn run(
    (options, directory): (SftOptions, Option<RunDirectory>),
    matches: &ArgMatches,
    stop: &Stop,
) -> Result<()> {
    if Flags::from_arg_matches(matches)?.dry_run {
        return Ok(print(options.dry_run(directory.as_ref())?)?);
    }
    sft::run(&options, &resume::directory(matches, directory)?, stop)
}
