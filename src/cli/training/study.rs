//! `tealight study`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{ArgMatches, Args, FromArgMatches};
use tealight_datasets::task;

use crate::app::directory::Start;
use crate::app::study::{self, StudyOptions, tasks};
use crate::cli::{config_merge, table};
use crate::formats::hub;
use crate::system::process::Process;
use crate::system::telemetry::print;

/// The settings of the default study: the embedded model on Countdown in a few minutes on two cores. Any flag or
/// `--config` overrides these; see `recipes/countdown-study.toml`.
const DEFAULTS: (&str, &str) =
    ("recipes/countdown-study.toml", include_str!("../../../recipes/countdown-study.toml"));

/// The settings of a study of generated tasks other than Countdown, or of several tasks.
const TASKS_DEFAULTS: (&str, &str) =
    ("recipes/tasks-study.toml", include_str!("../../../recipes/tasks-study.toml"));

/// The options of this command. Below files and flags lie [`TASKS_DEFAULTS`] for generated tasks, and [`DEFAULTS`] for
/// the embedded model of Countdown and other tasks.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<StudyOptions> {
    let given: StudyOptions = config_merge::resolve(matches, None)?;
    let is_plan = Flags::from_arg_matches(matches)?.plan;
    if !given.tasks.is_empty() && given.task.is_some() {
        bail!("--task {} and --tasks: name one of them", given.task.unwrap_or_default());
    }
    if !given.tasks.is_empty() {
        if given.plan_rate.is_some() || is_plan {
            bail!("--plan is for one task: name it with --task");
        }
        return config_merge::resolve(matches, Some(TASKS_DEFAULTS));
    }
    let is_generated = given.task.as_deref().is_some_and(|task| task::find(task).is_some());
    let mut options = match (is_generated, &given.task) {
        (true, _) => {
            let one: StudyOptions = config_merge::resolve(matches, Some(TASKS_DEFAULTS))?;
            StudyOptions { tasks: Vec::new(), ..one }
        }
        (false, None) if given.model.model != hub::EMBEDDED => given.clone(),
        (false, _) => config_merge::resolve(matches, Some(DEFAULTS))?,
    };
    let held_out = &mut options.held_out;
    if given.held_out.eval_dataset.is_none() {
        if is_generated && held_out.eval_steps > 0 {
            held_out.eval_dataset = given.task.as_ref().map(|task| format!("{task}/valid"));
        } else if is_other_data(&given) || held_out.eval_steps == 0 {
            // The recipe's problems to choose on go with the recipe's data.
            (held_out.eval_dataset, held_out.eval_steps) = (None, given.held_out.eval_steps);
        }
    }
    if let Some(task) = &options.task {
        let is_untrained = options.model.model == hub::EMBEDDED && task != hub::EMBEDDED;
        if is_untrained && is_generated {
            bail!(
                "--task {task}: the model `countdown` is trained on Countdown only; use --model tasks"
            );
        }
        if is_untrained {
            bail!(
                "no embedded model is trained on {task}: make a base (tealight sft --config recipes/{task}-base.toml \
                 --output {task}-base) and name it, --model {task}-base/final"
            );
        }
        (options.data.dataset, options.sets.test_dataset) =
            (format!("{task}/train"), vec![format!("{task}/test")]);
    }
    if options.plan_rate.is_some() && !is_plan {
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
    DEFAULTS.1.parse().expect("the recipe that comes with the program is TOML")
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
    if !options.tasks.is_empty() {
        let Some(done) = tasks::run(&options, &start, process)? else { return Ok(()) };
        print(table::tasks(&done))?;
        for one in &done.studies {
            tracing::info!("open {}", one.output.join("report.html").display());
        }
        tracing::info!("{:.0} s; results in {}", done.seconds, done.output.display());
        return Ok(());
    }
    let Some(done) = study::run(&options, &start, process)? else { return Ok(()) };
    print(table::study(&done.study))?;
    let page = done.output.join("report.html");
    tracing::info!("{:.0} s; open {}", done.study.seconds, page.display());
    Ok(())
}
