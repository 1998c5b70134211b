//! `tealight sft`.

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches};

use super::resume::{self, RunFlags, RunSettings};
use crate::app::training::sft::{self, SftOptions};
use tealight_system::stop::Stop;
use tealight_system::telemetry::print;

/// The settings of this command.
pub(in crate::cli) type Settings = RunSettings<SftOptions>;
/// The flags of this command.
pub(in crate::cli) type Flags = RunFlags;

/// Reads the options, and no more.
pub(in crate::cli) fn check(matches: &ArgMatches) -> Result<()> {
    resume::resolve::<SftOptions>(matches).map(drop)
}

pub(in crate::cli) fn run(matches: &ArgMatches, stop: &Stop) -> Result<()> {
    let (options, directory) = resume::resolve::<SftOptions>(matches)?;
    if Flags::from_arg_matches(matches)?.dry_run {
        return Ok(print(options.dry_run(directory.as_ref())?)?);
    }
    sft::run(&options, &resume::directory(matches, directory)?, stop)
}
