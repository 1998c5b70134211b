//! `tealight sft`.

use anyhow::Result;
use clap::ArgMatches;

use super::resume;
use crate::app::training::sft::SftOptions;
pub(in crate::cli) use crate::app::training::sft::run;

/// The options of this command; `--resume` and `--overwrite` are for the command line alone.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<SftOptions> {
    let (mut options, named) =
        resume::resolve(matches, |options: &mut SftOptions| &mut options.output)?;
    options.resume = named;
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}
