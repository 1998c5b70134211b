//! `tealight lab WORLD`.

use std::io::Write;

use anyhow::{Result, bail};
use clap::ArgMatches;

use crate::app::lab::{self, LabOptions, paper};
use crate::cli::{config_merge, table};
use crate::system::telemetry::out;

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
    let mut stdout = out();
    if let Some(number) = &options.paper {
        let report = paper::run(&options, number)?;
        if options.json {
            return Ok(writeln!(stdout, "{}", report.json)?);
        }
        for claim in &report.tables {
            writeln!(stdout, "{}\n", claim.heading)?;
            for sentence in &claim.sentences {
                writeln!(stdout, "{sentence}\n")?;
            }
            writeln!(stdout, "{}\n", table::plain(&claim.cells))?;
        }
        return Ok(writeln!(stdout, "{}", report.summary)?);
    }
    let printed = lab::run(&options)?;
    if options.json {
        return Ok(printed.json.iter().try_for_each(|row| writeln!(stdout, "{row}"))?);
    }
    Ok(writeln!(stdout, "{}\n{}", table::plain(&printed.cells), printed.note)?)
}
