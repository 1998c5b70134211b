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

/// The options of this command. With the embedded model, [`DEFAULTS`] lie below files and flags.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<StudyOptions> {
    let given: StudyOptions = config_merge::resolve(matches, None)?;
    let mut options = given.clone();
    if options.model.model == hub::EMBEDDED || options.task.is_some() {
        options = config_merge::resolve(matches, Some(("recipes/countdown-study.toml", DEFAULTS)))?;
        let held_out = &mut options.held_out;
        if given.held_out.eval_dataset.is_none()
            && (is_other_data(&given) || held_out.eval_steps == 0)
        {
            // The recipe's problems to choose on go with the recipe's data.
            (held_out.eval_dataset, held_out.eval_steps) = (None, given.held_out.eval_steps);
        }
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
    }
    options.resume = matches.get_flag("resume");
    options.overwrite = matches.get_flag("overwrite");
    options.plan = matches.get_flag("plan");
    options.plan_from = matches.get_one("plan_from").cloned();
    Ok(options)
}

/// The settings that [`DEFAULTS`] give to a study of the embedded model.
pub(in crate::cli) fn recipe() -> toml::Table {
    DEFAULTS.parse().expect("the recipe that comes with the program is TOML")
}

/// Whether problems are others than those of [`DEFAULTS`].
fn is_other_data(given: &StudyOptions) -> bool {
    given.task.as_ref().is_some_and(|task| task != "countdown")
        || !["countdown", "countdown/train"].contains(&given.data.dataset.as_str())
        || given.sets.test_dataset != ["countdown/test"]
        || given.sets.test_suite.is_some()
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
