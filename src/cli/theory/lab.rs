//! `tealight lab WORLD`.

use anyhow::{Result, bail};
use clap::ArgMatches;

use crate::app::lab::{self, LabOptions, paper};
use crate::cli::{config_merge, table};
use tealight_lab::prove::{fixed_point, prove};
use tealight_system::telemetry::print;

/// Options that ask for something else than optima, with the options that count with each alone, and the others that
/// count.
const MODES: [(&str, &[&str], &[&str]); 2] = [
    (
        "paper",
        &["seed", "target_validity", "output", "overwrite"],
        &["paper", "world", "class", "json"],
    ),
    ("prove", &["claim", "num_generations"], &["prove", "json"]),
];

/// The options of this command: most of them mean nothing with `--paper` and `--prove`.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<LabOptions> {
    let files = config_merge::files(matches)?;
    let options: LabOptions = config_merge::resolve_with(matches, None, &files)?;
    let given = config_merge::given::<LabOptions>(matches, &files)?;
    let mode = MODES.iter().find(|(mode, ..)| given.contains(*mode));
    for id in given.iter().map(String::as_str) {
        let of = MODES.iter().find(|(_, own, _)| own.contains(&id));
        let why = match (mode, of) {
            (None, Some((other, ..))) => format!("without --{other}"),
            (Some((mode, own, others)), _) if !own.contains(&id) && !others.contains(&id) => {
                format!("with --{mode}")
            }
            _ => continue,
        };
        match id {
            "world" => bail!("WORLD has no effect {why}"),
            _ => bail!("--{} has no effect {why}", id.replace('_', "-")),
        }
    }
    Ok(options)
}

pub(in crate::cli) fn run(options: &LabOptions) -> Result<()> {
    if let Some(objective) = &options.prove {
        let mut proof = prove(objective, options.claim.as_deref(), options.num_generations)?;
        proof.fixed_point = fixed_point(&objective.plan)?;
        return Ok(print(match options.json {
            true => serde_json::to_string(&proof)?,
            false => format!("{}\n  {}", proof.objective, proof.sentences().join("\n  ")),
        })?);
    }
    if let Some(number) = &options.paper {
        let report = paper::run(options, number)?;
        if options.json {
            return Ok(print(&report.json)?);
        }
        for claim in &report.tables {
            let cells = table::plain(&claim.cells);
            print(format!("{}\n\n{}\n\n{cells}\n", claim.heading, claim.claim))?;
        }
        return Ok(print(&report.summary)?);
    }
    let printed = lab::run(options)?;
    if options.json {
        return Ok(printed.json.iter().try_for_each(print)?);
    }
    Ok(print(format!("{}\n{}", table::plain(&printed.cells), printed.note))?)
}
