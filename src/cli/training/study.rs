//! `tealight study`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{ArgMatches, Args, FromArgMatches};
use tealight_core::similar::nearest;
use tealight_datasets::{suite, task};

use super::foreign::refuse_foreign;
use super::resume;
use crate::app::directory::Start;
use crate::app::study::{self, StudyOptions};
use crate::cli::{config_merge, table};
use tealight_formats::hub;
use tealight_system::process::Process;
use tealight_system::telemetry::print;

/// The settings of a study of Countdown with the embedded model trained on it. Any flag or `--config` overrides these.
const COUNTDOWN: (&str, &str) =
    ("recipes/countdown-study.toml", include_str!("../../../recipes/countdown-study.toml"));

/// The settings of the default study, some minutes on two cores, and of studies of generated tasks but Countdown. Any
/// flag or `--config` overrides these.
const DEFAULT: (&str, &str) =
    ("recipes/default-study.toml", include_str!("../../../recipes/default-study.toml"));

/// The options that say what is studied; without any of them it is [`DEFAULT`].
const SUBJECT: [&str; 7] =
    ["model", "dataset", "test_dataset", "eval_dataset", "ood_dataset", "presamples", "task"];

/// What a study is of. Each has its recipe below files and flags.
enum Subject {
    /// Nothing is named, or only the model `tasks`: [`DEFAULT`].
    Default,
    /// A task that `tealight tasks` lists: [`DEFAULT`] with that task.
    ListedTask,
    /// Countdown, or the embedded model of Countdown without other data: [`COUNTDOWN`].
    Countdown,
    /// A model and data of the user's: no recipe.
    Own,
}

impl Subject {
    /// The subject of what files and flags give, where `set` has the options that are given.
    fn new(given: &StudyOptions, set: &BTreeSet<String>) -> Result<Self> {
        refuse_second_subject(given, set)?;
        refuse_sets_alone(given, set)?;
        let model = &given.model.model;
        let mut named = SUBJECT.iter().filter(|id| set.contains(**id));
        if named.all(|id| *id == "model" && model == hub::TASKS) {
            return Ok(Self::Default);
        }
        let dataset = &given.data.dataset;
        let is_countdown = dataset.split(['/', '-']).next() == Some(hub::EMBEDDED);
        let is_ours = model == hub::EMBEDDED && (is_countdown || !set.contains("dataset"));
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
            Self::Countdown => Some(COUNTDOWN),
            Self::Own => None,
        }
    }
}

/// Refuses held-out sets of other tasks than Countdown where nothing says what is trained on.
fn refuse_sets_alone(given: &StudyOptions, set: &BTreeSet<String>) -> Result<()> {
    if ["model", "dataset", "task"].iter().any(|id| set.contains(*id)) {
        return Ok(());
    }
    let (sets, valid) = (&given.sets, &given.eval_dataset);
    let named = [
        ("test-dataset", sets.test_dataset.iter().collect::<Vec<_>>()),
        ("ood-dataset", sets.ood_dataset.iter().collect()),
        ("eval-dataset", valid.iter().collect()),
    ];
    for (option, names) in named {
        let is_countdown = |name: &&String| name.split(['/', '-']).next() == Some(hub::EMBEDDED);
        if let Some(other) = names.into_iter().find(|name| !is_countdown(name)) {
            bail!(
                "--{option} {other}: name what is trained on: --dataset, or a generated task with --task"
            );
        }
    }
    Ok(())
}

/// Refuses a task beside other data. A file may name one and a flag the other; a study records the sets of its task
/// beside it.
fn refuse_second_subject(given: &StudyOptions, set: &BTreeSet<String>) -> Result<()> {
    let Some(task) = &given.task else { return Ok(()) };
    let (data, tests) = (&given.data.dataset, &given.sets.test_dataset);
    let others = [
        ("dataset", set.contains("dataset") && *data != format!("{task}/train")),
        ("test-dataset", !tests.is_empty() && *tests != [format!("{task}/test")]),
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
    let mut given: StudyOptions = config_merge::resolve_with(matches, None, &files)?;
    let flags = Flags::from_arg_matches(matches)?;
    let resumed = flags.resumed(given.output.as_deref())?;
    // The settings that the folder was begun with lie below files and flags.
    let recorded = resumed.as_deref().map(resume::settings_file).transpose()?.flatten();
    let recorded = recorded.as_ref().map(|(file, text)| (file.as_str(), text.as_str()));
    if let Some(folder) = &resumed {
        given = config_merge::resolve_with(matches, recorded, &files)?;
        refuse_foreign(matches, &files, folder, recorded, &given)?;
    }
    let set = config_merge::given::<StudyOptions>(matches, &files)?;
    let below = match recorded {
        Some(recorded) => Some(recorded),
        None => Subject::new(&given, &set)?.recipe(),
    };
    let mut options: StudyOptions = config_merge::resolve_with(matches, below, &files)?;
    options.output = resumed.or(options.output);
    match_k_to_n(&mut options, &set);
    // The recipe's test set goes with the recipe's data.
    if set.contains("dataset") && !set.contains("test_dataset") {
        options.sets.test_dataset.clear();
    }
    if let Some(task) = options.task.clone() {
        check_model(&options.model.model, &task).with_context(|| format!("--task {task}"))?;
        (options.data.dataset, options.sets.test_dataset) =
            (format!("{task}/train"), vec![format!("{task}/test")]);
    }
    Ok(options)
}

/// Refuses a task that does not exist, and the model of countdown for every other task.
fn check_model(model: &str, task: &str) -> Result<()> {
    if !hub::is_embedded(model) || task == hub::EMBEDDED {
        return Ok(());
    }
    match task::find(task) {
        None => {
            let known = task::TASKS.iter().map(|kind| kind.name);
            match (nearest(task, known.chain([hub::EMBEDDED])), suite::instead_of(task)) {
                (Some(meant), _) => bail!("no such task; did you mean `{meant}`?"),
                (None, Some(fix)) => bail!("no generated task; {fix}"),
                _ => bail!("no such task; `tealight tasks` lists them, and countdown is one too"),
            }
        }
        Some(_) if model == hub::EMBEDDED => bail!(
            "the model `{}` is trained on countdown only; use --model {}",
            hub::EMBEDDED,
            hub::TASKS
        ),
        Some(_) => Ok(()),
    }
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
    /// Continue a study after a stop or a crash, with the settings in its directory. Without a value: the study in
    /// --output (default: `study`).
    #[arg(long, value_name = "STUDY", num_args = 0..=1, default_missing_value = "", help_heading = "Checkpoints")]
    resume: Option<String>,
    /// Replace the study in --output: the files that Tealight wrote there are removed.
    #[arg(long, conflicts_with = "resume", help_heading = "Output")]
    overwrite: bool,
}

impl Flags {
    /// The folder of the study that is continued, where `output` is what --output says.
    fn resumed(&self, output: Option<&Path>) -> Result<Option<PathBuf>> {
        let named = self.resume.as_deref().filter(|named| !named.is_empty()).map(Path::new);
        if let Some(named) = named.filter(|named| !named.join("config.toml").is_file()) {
            bail!("--resume {}: holds no study (config.toml)", named.display());
        }
        Ok(match (named, output) {
            (Some(named), Some(output)) if named != output => bail!(
                "--resume {} and --output {}: name one study",
                named.display(),
                output.display()
            ),
            _ if self.resume.is_none() => None,
            _ => Some(named.or(output).unwrap_or(Path::new("study")).to_owned()),
        })
    }
}

pub(in crate::cli) fn run(
    options: &StudyOptions,
    matches: &ArgMatches,
    process: &Process,
) -> Result<()> {
    let flags = Flags::from_arg_matches(matches)?;
    if flags.plan {
        return Ok(print(table::plan(&study::planned(options, process)?))?);
    }
    if flags.dry_run {
        return Ok(print(study::dry_run(options, process)?)?);
    }
    let start = match (flags.resume.is_some(), flags.overwrite) {
        (true, _) => Start::Resume(String::new()),
        (false, true) => Start::Replace,
        (false, false) => Start::New,
    };
    let Some(done) = study::run(options, &start, process)? else { return Ok(()) };
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
        assert_eq!(k(&["-n", "8", "-k", "1,2"]), [1, 2]);
    }
}
