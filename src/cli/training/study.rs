//! `tealight study`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{ArgMatches, Args, FromArgMatches};
use tealight_datasets::task;

use super::foreign::refuse_foreign;
use crate::app::directory::Start;
use crate::app::study::{self, StudyOptions, TestMeasure, tasks};
use crate::cli::{config_merge, table};
use crate::formats::hub;
use crate::system::process::Process;
use crate::system::telemetry::print;

/// The settings of a study of Countdown with the embedded model trained on it. Any flag or `--config` overrides these.
const COUNTDOWN: (&str, &str) =
    ("recipes/countdown-study.toml", include_str!("../../../recipes/countdown-study.toml"));

/// The settings of the default study, some minutes on two cores, and of studies of generated tasks but Countdown. Any
/// flag or `--config` overrides these.
const DEFAULT: (&str, &str) =
    ("recipes/default-study.toml", include_str!("../../../recipes/default-study.toml"));

/// The settings of studies of several tasks. Any flag or `--config` overrides these.
const TASKS: (&str, &str) =
    ("recipes/tasks-study.toml", include_str!("../../../recipes/tasks-study.toml"));

/// The options that say what is studied; without any of them it is [`DEFAULT`].
const SUBJECT: [&str; 9] = [
    "model",
    "dataset",
    "test_dataset",
    "test_suite",
    "eval_dataset",
    "ood_dataset",
    "presamples",
    "task",
    "tasks",
];

/// What a study is of. Each has its recipe below files and flags.
enum Subject {
    /// Nothing is named, or only the model `tasks`: [`DEFAULT`].
    Default,
    /// A task that `tealight tasks` lists: [`DEFAULT`] with that task.
    ListedTask,
    /// Several tasks: [`TASKS`].
    Tasks,
    /// Countdown, or other data for the embedded model of Countdown: [`COUNTDOWN`].
    Countdown,
    /// A model and data of the user's: no recipe.
    Own,
}

impl Subject {
    /// The subject of what files and flags give, where `set` has the options that are given.
    fn new(given: &StudyOptions, set: &BTreeSet<String>) -> Result<Self> {
        refuse_second_subject(given, set)?;
        if !given.tasks.is_empty() {
            return Ok(Self::Tasks);
        }
        let model = &given.model.model;
        let mut named = SUBJECT.iter().filter(|id| set.contains(**id));
        if named.all(|id| *id == "model" && model == hub::TASKS) {
            return Ok(Self::Default);
        }
        let is_ours = model == hub::EMBEDDED;
        match &given.task {
            Some(task) if task::find(task).is_some() => Ok(Self::ListedTask),
            Some(_) => Ok(Self::Countdown),
            None if is_ours => Ok(Self::Countdown),
            None if set.contains("dataset") => Ok(Self::Own),
            None => bail!(
                "--model {model}: name what it is trained on: --dataset, or a generated task with --task"
            ),
        }
    }

    /// The recipe below files and flags.
    fn recipe(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Default | Self::ListedTask => Some(DEFAULT),
            Self::Tasks => Some(TASKS),
            Self::Countdown => Some(COUNTDOWN),
            Self::Own => None,
        }
    }
}

/// Refuses a task beside other data. A file may name one and a flag the other; a study records the sets of its task
/// beside it.
fn refuse_second_subject(given: &StudyOptions, set: &BTreeSet<String>) -> Result<()> {
    let Some(task) = &given.task else { return Ok(()) };
    let (data, tests) = (&given.data.dataset, &given.sets.test_dataset);
    let others = [
        ("tasks", !given.tasks.is_empty()),
        ("dataset", set.contains("dataset") && *data != format!("{task}/train")),
        ("test-dataset", !tests.is_empty() && *tests != [format!("{task}/test")]),
        ("test-suite", set.contains("test_suite")),
    ];
    if let Some((other, _)) = others.iter().find(|(_, is_given)| *is_given) {
        bail!("--task {task} and --{other}: name one of them");
    }
    Ok(())
}

/// The options of this command: those of the subject's recipe, of files and of flags.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<StudyOptions> {
    // A file may be a pipe, which can be read once.
    let files = config_merge::files(matches)?;
    let given: StudyOptions = config_merge::resolve_with(matches, None, &files)?;
    let flags = Flags::from_arg_matches(matches)?;
    if flags.resume {
        let folder = given.output.as_deref().unwrap_or(Path::new("study"));
        refuse_foreign(matches, &files, folder, &given)?;
    }
    if given.plan_rate.is_some() && !flags.plan {
        bail!("--plan-rate has no effect without --plan");
    }
    let set = config_merge::given::<StudyOptions>(matches, &files)?;
    let subject = Subject::new(&given, &set)?;
    let mut options: StudyOptions = config_merge::resolve_with(matches, subject.recipe(), &files)?;
    match_k_to_n(&mut options, &set);
    if matches!(subject, Subject::Tasks) {
        return Ok(options);
    }
    // The recipe's test set goes with the recipe's data.
    if set.contains("dataset") && !set.contains("test_dataset") {
        options.sets.test_dataset.clear();
    }
    settle_held_out(&mut options, &given, &subject)?;
    if let Some(task) = options.task.clone() {
        tasks::check_model(&options.model.model, &task)
            .with_context(|| format!("--task {task}"))?;
        (options.data.dataset, options.sets.test_dataset) =
            (format!("{task}/train"), vec![format!("{task}/test")]);
    }
    Ok(options)
}

/// The problems to choose checkpoints on, which go with the data, and the measure that needs them.
fn settle_held_out(
    options: &mut StudyOptions,
    given: &StudyOptions,
    subject: &Subject,
) -> Result<()> {
    let held_out = &mut options.held_out;
    let is_listed = matches!(subject, Subject::Default | Subject::ListedTask);
    if given.held_out.eval_dataset.is_none() {
        if is_listed && held_out.eval_steps > 0 {
            held_out.eval_dataset = options.task.as_ref().map(|task| format!("{task}/valid"));
        } else if is_other_data(given) || held_out.eval_steps == 0 {
            (held_out.eval_dataset, held_out.eval_steps) = (None, given.held_out.eval_steps);
        }
    }
    if held_out.eval_steps == 0 {
        if given.test_measure != TestMeasure::default() {
            bail!(
                "--test-measure needs --eval-steps and --eval-dataset: checkpoints make the curves"
            );
        }
        options.test_measure = TestMeasure::default();
    }
    Ok(())
}

/// The recipe's k go with the recipe's -n: another -n has the k that follow from it, unless they are given too.
fn match_k_to_n(options: &mut StudyOptions, set: &BTreeSet<String>) {
    if set.contains("n") && !set.contains("k") {
        options.k.clear();
    }
}

/// The flags of this command.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Flags {
    /// Print the planned runs, their duration and the minimum detectable difference, and stop. A few samples and
    /// training steps are timed and discarded.
    #[arg(long, conflicts_with_all = ["resume", "overwrite"], help_heading = "Output")]
    plan: bool,
    /// Print the resolved settings, the data and the runs, and stop. Nothing is sampled: --plan measures the time.
    #[arg(long, conflicts_with_all = ["resume", "overwrite", "plan"], help_heading = "Output")]
    dry_run: bool,
    /// Earlier study, a folder or its results.json, whose variances --plan assumes.
    #[arg(long, requires = "plan", value_name = "STUDY", help_heading = "Output")]
    plan_from: Option<PathBuf>,
    /// Continue the study in --output (default: `study`) after a stop or a crash.
    #[arg(long, help_heading = "Checkpoints")]
    resume: bool,
    /// Replace the study in --output: the files that Tealight wrote there are removed.
    #[arg(long, conflicts_with = "resume", help_heading = "Output")]
    overwrite: bool,
}

/// The settings of the default study.
pub(in crate::cli) fn recipe() -> toml::Table {
    DEFAULT.1.parse().expect("the recipe that comes with the program is TOML")
}

/// Whether problems are others than those of [`COUNTDOWN`].
fn is_other_data(given: &StudyOptions) -> bool {
    given.task.as_ref().is_some_and(|task| task != "countdown")
        || !["countdown", "countdown/train"].contains(&given.data.dataset.as_str())
        || !(given.sets.test_dataset.is_empty() || given.sets.test_dataset == ["countdown/test"])
        || given.sets.test_suite.is_some()
}

pub(in crate::cli) fn run(matches: &ArgMatches, process: &Process) -> Result<()> {
    let (options, flags) = (resolve(matches)?, Flags::from_arg_matches(matches)?);
    if flags.plan {
        let earlier = flags.plan_from.as_deref();
        let text = match options.tasks.is_empty() {
            true => table::plan(&study::planned(&options, earlier, process)?),
            false => table::plans(&tasks::planned(&options, earlier, process)?),
        };
        return Ok(print(text)?);
    }
    if flags.dry_run {
        return Ok(print(match options.tasks.is_empty() {
            true => study::dry_run(&options, process)?,
            false => tasks::dry_run(&options, process)?,
        })?);
    }
    let start = match (flags.resume, flags.overwrite) {
        (true, _) => Start::Resume(String::new()),
        (false, true) => Start::Replace,
        (false, false) => Start::New,
    };
    if !options.tasks.is_empty() {
        let Some(done) = tasks::run(&options, &start, process)? else { return Ok(()) };
        print(table::tasks(&done))?;
        let page = done.output.join("report.html");
        tracing::info!("{:.0} s; open {}", done.all.seconds, page.display());
        return Ok(());
    }
    let Some(done) = study::run(&options, &start, process)? else { return Ok(()) };
    print(table::study(&done.study))?;
    let page = done.output.join("report.html");
    tracing::info!("{:.0} s; open {}", done.study.seconds, page.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands;

    #[test]
    fn k_follow_n_unless_they_are_given() {
        let k = |arguments: &[&str]| {
            let words = [&["tealight", "study"], arguments].concat();
            let matches = commands::command().try_get_matches_from(words).expect("valid");
            resolve(matches.subcommand().expect("study").1).expect("valid").k
        };
        // Without any, a study takes those that -n allows.
        let none: [usize; 0] = [];
        assert_eq!(k(&[]), [1, 8, 32]);
        assert_eq!(k(&["-n", "8"]), none);
        assert_eq!(k(&["--tasks", "colouring,paths", "-n", "4"]), none);
        assert_eq!(k(&["-n", "8", "-k", "1,2"]), [1, 2]);
    }
}
