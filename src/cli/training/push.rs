//! `tealight push`.

use anyhow::Result;
use clap::ArgMatches;

use crate::app::push::{self, PushOptions, Pushed};
use crate::cli::config_merge;
use crate::telemetry::print;

/// The options of this command; `--dry-run` is for the command line alone.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<PushOptions> {
    let mut options: PushOptions = config_merge::resolve(matches, None)?;
    options.dry_run = matches.get_flag("dry_run");
    Ok(options)
}

pub(in crate::cli) fn run(options: &PushOptions) -> Result<()> {
    match push::run(options)? {
        Pushed::At(address) => print(address)?,
        Pushed::WouldSend(files) => {
            for (name, bytes) in files {
                print(format_args!("{bytes:>12} {name}"))?;
            }
        }
    }
    Ok(())
}
