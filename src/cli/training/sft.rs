//! `tealight sft`.

use anyhow::Result;
use clap::ArgMatches;

use crate::app::training::sft::SftOptions;
pub(in crate::cli) use crate::app::training::sft::run;
use crate::cli::config_merge;

/// The options of this command; `--resume` and `--overwrite` are for the command line alone.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<SftOptions> {
    let mut options: SftOptions = config_merge::resolve_plain(matches)?;
    options.resume = matches.get_one("resume").cloned();
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}
