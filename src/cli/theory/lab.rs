//! `tealight lab WORLD`.

use anyhow::{Result, bail};
use clap::ArgMatches;

use crate::app::lab::{self, LabOptions, paper};
use crate::cli::{config_merge, table};
use tealight_system::telemetry::print;

/// The options that count with `--paper`, and those that count with it alone.
const OF_PAPERS: [&str; 8] =
    ["paper", "world", "class", "json", "seed", "target_validity", "output", "overwrite"];
const OF_PAPERS_ALONE: &[&str] = OF_PAPERS.split_at(4).1;

/// The options of this command: most of them mean nothing with `--paper`.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<LabOptions> {
    let files = config_merge::files(matches)?;
    let options: LabOptions = config_merge::resolve_with(matches, None, &files)?;
    let given = config_merge::given::<LabOptions>(matches, &files)?;
    let (is_idle, how): (fn(&str) -> bool, _) = match options.paper {
        Some(_) => (|id| !OF_PAPERS.contains(&id), "with"),
        None => (|id| OF_PAPERS_ALONE.contains(&id), "without"),
    };
    if let Some(id) = given.iter().find(|id| is_idle(id)) {
        bail!("--{} has no effect {how} --paper", id.replace('_', "-"));
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
            let cells = table::plain(&claim.cells);
            print(format!("{}\n\n{}\n\n{cells}\n", claim.heading, claim.claim))?;
        }
        return Ok(print(&report.summary)?);
    }
    let printed = lab::run(&options)?;
    if options.json {
        return Ok(printed.json.iter().try_for_each(print)?);
    }
    Ok(print(format!("{}\n{}", table::plain(&printed.cells), printed.note))?)
}
