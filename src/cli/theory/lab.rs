//! `tealight lab WORLD`.

use anyhow::{Result, bail};
use clap::ArgMatches;

use crate::app::lab::{self, LabOptions, paper};
use crate::cli::{config_merge, table};
use crate::system::telemetry::print;

/// The options that count with `--paper`.
const OF_PAPERS: [&str; 10] = [
    "paper",
    "world",
    "class",
    "seed",
    "target_validity",
    "iterations",
    "learning_rate",
    "output",
    "overwrite",
    "json",
];

/// The options of this command: most of them mean nothing with `--paper`.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<LabOptions> {
    let files = config_merge::files(matches)?;
    let options: LabOptions = config_merge::resolve_with(matches, None, &files)?;
    if options.paper.is_some() {
        let given = config_merge::given::<LabOptions>(matches, &files)?;
        if let Some(id) = given.iter().find(|id| !OF_PAPERS.contains(&id.as_str())) {
            bail!("--{} has no effect with --paper", id.replace('_', "-"));
        }
    }
    Ok(options)
}

pub(in crate::cli) fn run(matches: &ArgMatches) -> Result<()> {
    let options = resolve(matches)?;
    if let Some(number) = &options.paper {
        let report = paper::run(&options, number)?;
        if options.json {
            return Ok(print(&report.json)?);
        }
        for claim in &report.tables {
            let sentences = claim.sentences.join("\n\n");
            let cells = table::plain(&claim.cells);
            print(format!("{}\n\n{sentences}\n\n{cells}\n", claim.heading))?;
        }
        return Ok(print(&report.summary)?);
    }
    let printed = lab::run(&options)?;
    if options.json {
        return Ok(printed.json.iter().try_for_each(print)?);
    }
    Ok(print(format!("{}\n{}", table::plain(&printed.cells), printed.note))?)
}
