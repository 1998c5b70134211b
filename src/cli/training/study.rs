//! `tealight study`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{ArgMatches, Args, FromArgMatches};

use crate::app::directory::Start;
use crate::app::study::{self, StudyOptions};
use crate::cli::{config_merge, table};
use crate::formats::hub;
use crate::system::process::Process;
use crate::system::telemetry::print;

/// The settings of the default study: the embedded model on Countdown in a few minutes on two cores. Any flag or
/// `--config` overrides these; see `recipes/countdown-study.toml`.
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
    if options.plan_rate.is_some() && !Flags::from_arg_matches(matches)?.plan {
        bail!("--plan-rate has no effect without --plan");
    }
    Ok(options)
}

/// The flags of this command.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Flags {
    /// Print the planned runs, their duration and the minimum detectable difference, and stop. A few samples and
    /// training steps are timed and discarded.
    #[arg(long, conflicts_with_all = ["resume", "overwrite"])]
    plan: bool,
    /// Earlier study, a folder or its results.json, whose variances --plan assumes.
    #[arg(long, requires = "plan", value_name = "STUDY")]
    plan_from: Option<PathBuf>,
    /// Continue the study in --output (default: `study`) after a stop or a crash.
    #[arg(long)]
    resume: bool,
    /// Replace the study in --output: the files that Tealight wrote there are removed.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
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

pub(in crate::cli) fn run(matches: &ArgMatches, process: &Process) -> Result<()> {
    let (options, flags) = (resolve(matches)?, Flags::from_arg_matches(matches)?);
    if flags.plan {
        let plan = study::planned(&options, flags.plan_from.as_deref(), process)?;
        return Ok(print(table::plan(&plan))?);
    }
    let start = match (flags.resume, flags.overwrite) {
        (true, _) => Start::Resume(String::new()),
        (false, true) => Start::Replace,
        (false, false) => Start::New,
    };
    let Some(done) = study::run(&options, &start, process)? else { return Ok(()) };
    print(table::study(&done.study))?;
    let page = done.output.join("report.html");
    tracing::info!("{:.0} s; open {}", done.study.seconds, page.display());
    Ok(())
}
