//! `tealight train`.

use std::io::Write;

use anyhow::Result;
use clap::ArgMatches;
use serde_json::Value;

use super::resume;
use crate::app::training::{self, DryRun, TrainOptions};
use crate::process::Process;
use crate::telemetry::{out, print};

/// The options of this command; `--resume` and `--dry-run` are for the command line alone.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<TrainOptions> {
    let (mut options, named) =
        resume::resolve(matches, |options: &mut TrainOptions| &mut options.output)?;
    options.resume = named;
    options.dry_run = matches.get_flag("dry_run");
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}

pub(in crate::cli) fn run(options: &TrainOptions, process: &Process) -> Result<()> {
    if options.dry_run {
        return show(&training::dry_run(options)?);
    }
    if !options.json {
        return training::run(options, process, None).map(drop);
    }
    let done = training::run(options, process, Some(&|row: &Value| Ok(print(row)?)))?;
    print(serde_json::to_string(&done)?)?;
    Ok(())
}

fn show(run: &DryRun) -> Result<()> {
    let mut out = out();
    writeln!(out, "{}", run.settings)?;
    for (tokens, text, answer) in &run.prompts {
        writeln!(out, "prompt ({tokens} tokens), answer `{answer}`:\n{text}\n")?;
    }
    writeln!(
        out,
        "a step: {} completions of up to {} tokens, prompts of up to {}",
        run.completions, run.completion_length, run.prompt_length
    )?;
    let plan = &run.memory;
    writeln!(out, "memory, planned for the longest sequences:")?;
    plan.lines().iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    if run.is_base_for_log {
        let megabytes = plan.base as f64 / 1e6;
        writeln!(
            out,
            "only the log reads the base: --log-kl off, without --log-divergences, saves its {megabytes:.1} MB"
        )?;
    } else if plan.base == 0 {
        writeln!(out, "nothing reads the base once it is trained: it is not held")?;
    }
    Ok(())
}
