//! `tealight export`.

use anyhow::Result;
use clap::ArgMatches;

use crate::app::export::ExportOptions;
pub(in crate::cli) use crate::app::export::run;
use crate::cli::config_merge;

/// The options of this command; `--overwrite` is for the command line alone.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<ExportOptions> {
    let mut options: ExportOptions = config_merge::resolve_plain(matches)?;
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}
