//! `tealight study`.

use anyhow::{Result, bail};
use clap::ArgMatches;

use crate::app::study::{self, StudyOptions};
use crate::cli::{config_merge, table};
use crate::hub;
use crate::process::Process;
use crate::telemetry::print;

/// What the default study is run with: the embedded model on Countdown in a few minutes on two
/// cores. Any flag or `--config` overrides these; see `recipes/countdown-study.toml`.
const DEFAULTS: &str = include_str!("../../../recipes/countdown-study.toml");

/// The set that checkpoints are chosen on in [`DEFAULTS`].
const VALID: &str = "countdown/valid";

/// The options of this command. With the embedded model, [`DEFAULTS`] lie below files and flags.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<StudyOptions> {
    let mut options: StudyOptions = config_merge::resolve(matches, None)?;
    if options.model.model == hub::EMBEDDED || options.task.is_some() {
        options = config_merge::resolve(matches, Some(("recipes/countdown-study.toml", DEFAULTS)))?;
    }
    if let Some(task) = &options.task {
        if options.model.model == hub::EMBEDDED && task != "countdown" {
            bail!(
                "the embedded model knows countdown alone: make a base of {task} (tealight sft --config \
                 recipes/{task}-base.toml --output {task}-base) and name it, --model {task}-base/final"
            );
        }
        (options.data.dataset, options.sets.test_dataset) =
            (format!("{task}/train"), vec![format!("{task}/test")]);
        if task != "countdown" && options.held_out.eval_dataset.as_deref() == Some(VALID) {
            // The recipe's is of another task.
            (options.held_out.eval_dataset, options.held_out.eval_steps) = (None, 0);
        }
    }
    options.resume = matches.get_flag("resume");
    options.overwrite = matches.get_flag("overwrite");
    options.plan = matches.get_flag("plan");
    options.plan_from = matches.get_one("plan_from").cloned();
    Ok(options)
}

pub(in crate::cli) fn run(options: &StudyOptions, process: &Process) -> Result<()> {
    if options.plan {
        return Ok(print(table::plan(&study::planned(options, process)?))?);
    }
    let Some(done) = study::run(options, process)? else { return Ok(()) };
    print(table::study(&done.study))?;
    let page = done.output.join("report.html");
    tracing::info!("{:.0} s; open {}", done.study.seconds, page.display());
    Ok(())
}
