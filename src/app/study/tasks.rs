//! One study on several generated tasks: the same objectives and settings on each, and where the tasks agree.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tealight_core::similar::nearest;
use tealight_datasets::{suite, task};
use tealight_eval::curve::tasks::{
    PAIRS_NOTE, TASKS_NOTE, TaskCurves, across_tasks, pair_rows, task_rows,
};
use tealight_eval::report::{self, TasksStudy, tables};

use super::{
    Finished, Plan, Prepared, StudyOptions, TestMeasure, in_folder, plan, say_how_to_continue,
};
use crate::app::directory::Start;
use crate::formats::hub;
use crate::system::files::write_atomic;
use crate::system::process::Process;

/// A study on several tasks that is done.
pub struct FinishedTasks {
    /// The study of each task, in order.
    pub studies: Vec<Finished>,
    /// Their curves and the comparison over tasks: `results.json`.
    pub all: TasksStudy,
    /// The folder of all.
    pub output: PathBuf,
}

impl StudyOptions {
    /// The study of each task of --tasks.
    ///
    /// # Errors
    /// Fewer than two tasks, one that is not among the generated ones or is named twice; other datasets beside them; a
    /// model that was trained on one task alone.
    fn by_task(&self) -> Result<Vec<(String, Self)>> {
        // `config.toml` records the default of --dataset, and of earlier versions that of --test-dataset.
        let tests = &self.sets.test_dataset;
        let is_other = self.data.dataset != "countdown"
            || !(tests.is_empty() || tests[..] == ["countdown/test"]);
        if is_other
            || self.task.is_some()
            || self.sets.test_suite.is_some()
            || self.held_out.eval_dataset.is_some()
        {
            bail!(
                "--tasks studies the splits train, valid and test of each task: leave --task, --dataset, \
                 --test-dataset, --test-suite and --eval-dataset out, here and in --config files"
            );
        }
        if self.settings.presamples.is_some() {
            bail!("--presamples is of one task's prompts: study each task alone, with --task");
        }
        if self.test_measure != TestMeasure::PassAtK {
            bail!("--test-measure is of a study of one task; with --tasks the test is of pass@k");
        }
        let is_known = |name: &String| name == hub::EMBEDDED || task::find(name).is_some();
        if let Some(name) = self.tasks.iter().find(|name| !is_known(name)) {
            bail!("--tasks {name}: {}", unknown(name));
        }
        if let [name] = self.tasks.as_slice() {
            bail!("--tasks names {name} alone, which leaves nothing to compare: use --task {name}");
        }
        let mut studies: Vec<(String, Self)> = Vec::new();
        for name in &self.tasks {
            check_model(&self.model.model, name).with_context(|| format!("--tasks {name}"))?;
            if studies.iter().any(|(other, _)| other == name) {
                bail!("--tasks names {name} twice");
            }
            let mut one = Self { tasks: Vec::new(), ..self.clone() };
            one.data.dataset = format!("{name}/train");
            one.sets.test_dataset = vec![format!("{name}/test")];
            if one.held_out.eval_steps > 0 {
                one.held_out.eval_dataset = Some(format!("{name}/valid"));
            }
            studies.push((name.clone(), one));
        }
        Ok(studies)
    }
}

/// Refuses a task that does not exist, or that the model is not trained on, as far as the model is an embedded one.
///
/// # Errors
/// Such a task.
pub fn check_model(model: &str, task: &str) -> Result<()> {
    if !hub::is_embedded(model) || task == hub::EMBEDDED {
        return Ok(());
    }
    match task::find(task) {
        None => bail!("{}", unknown(task)),
        Some(kind) if !kind.in_embedded_model => {
            bail!("no embedded model is trained on it; name one that is, with --model")
        }
        Some(_) if model == hub::EMBEDDED => bail!(
            "the model `{}` is trained on countdown only; use --model {}",
            hub::EMBEDDED,
            hub::TASKS
        ),
        Some(_) => Ok(()),
    }
}

/// The message about a name that no generated task has.
fn unknown(name: &str) -> String {
    let known = task::TASKS.iter().map(|kind| kind.name);
    if let Some(meant) = nearest(name, known.chain([hub::EMBEDDED])) {
        return format!("no such task; did you mean `{meant}`?");
    }
    match suite::instead_of(name) {
        Some(fix) => format!("no generated task; {fix}"),
        None => "no such task; `tealight tasks` lists them, and countdown is one too".into(),
    }
}

/// What the study of every task would run.
///
/// # Errors
/// As for [`run`].
pub fn dry_run(options: &StudyOptions, process: &Process) -> Result<String> {
    let all = options.by_task()?;
    let texts = all.iter().map(|(_, one)| super::dry_run(one, process));
    Ok(texts.collect::<Result<Vec<_>>>()?.join("\n"))
}

/// The plan of every task's study. `earlier` is a study of one task, or of several: then each task has the variances of
/// its own study there.
///
/// # Errors
/// As for [`run`] and [`super::planned`].
pub fn planned(
    options: &StudyOptions,
    earlier: Option<&Path>,
    process: &Process,
) -> Result<Vec<(String, Plan)>> {
    let studies = options.by_task()?;
    let tasks = studies.len();
    let of_task = |(task, one): (String, StudyOptions)| {
        Ok((task, plan::planned_among(&one, earlier, process, tasks)?))
    };
    studies.into_iter().map(of_task).collect()
}

/// Runs the study of every task in a folder of its own, and writes the comparison over tasks.
///
/// # Errors
/// As for [`super::run`]. Every task's settings are checked before the first one begins.
pub fn run(
    options: &StudyOptions,
    start: &Start,
    process: &Process,
) -> Result<Option<FinishedTasks>> {
    let ranks = &process.ranks;
    let started = Instant::now();
    let studies = options.by_task()?;
    // What is wrong with the last task's settings is found before the first task is studied.
    for (_, one) in &studies {
        let (settings, configurations) = one.checked()?;
        Prepared::open(settings, configurations, ranks)?;
    }
    let (output, claim) = options.take_output(start, ranks)?;
    options.begin_in(&output, (claim.as_ref(), start), ranks)?;
    let (mut done, mut curves, mut distinct) = (Vec::new(), Vec::new(), Vec::new());
    for (task, mut one) in studies {
        tracing::info!("task {task} ({} of {})", done.len() + 1, options.tasks.len());
        one.output = Some(output.join(&task));
        let (settings, configurations) = one.checked()?;
        let (folder, claim) = one.take_output(start, ranks)?;
        let place = (folder, claim.as_ref(), start);
        let finished = in_folder(settings, configurations, place, process);
        if let Err(error) = &finished {
            say_how_to_continue(error, options, &output, ranks);
        }
        let Some(finished) = finished? else { continue };
        let study = &finished.study;
        // Pass@k first, then distinct answers.
        let task_curves = |place: usize| TaskCurves {
            task: task.clone(),
            curves: study.curves.get(place).cloned(),
            without_curves: study.without_curves.clone(),
        };
        curves.push(task_curves(0));
        distinct.push(task_curves(1));
        done.push(finished);
    }
    if !ranks.is_first() {
        return Ok(None);
    }
    let all = TasksStudy {
        tealight: env!("CARGO_PKG_VERSION").to_owned(),
        across: across_tasks(&curves),
        distinct: across_tasks(&distinct),
        tasks: curves,
        seconds: started.elapsed().as_secs_f64(),
    };
    write_atomic(&output.join("results.json"), serde_json::to_string(&all)?.as_bytes())?;
    write_atomic(&output.join("results.md"), markdown(&all).as_bytes())?;
    report::write_tasks(&all, &output)?;
    Ok(Some(FinishedTasks { studies: done, all, output }))
}

/// The comparison as tables, with the reports of the tasks.
fn markdown(all: &TasksStudy) -> String {
    let mut text = String::from("# The same objectives on several tasks\n");
    if let Some(across) = &all.across {
        text.push_str(&format!("\n**{}**\n", across.text));
    }
    let mut add = |note: &str, rows: &[Vec<String>]| {
        text.push_str(&format!("\n{note}\n\n{}", tables::markdown(rows)));
    };
    add(TASKS_NOTE, &task_rows(&all.tasks));
    if let Some(across) = &all.across {
        add(PAIRS_NOTE, &pair_rows(across));
    }
    if let Some(distinct) = &all.distinct {
        add(&format!("**{}**\n\n{PAIRS_NOTE}", distinct.text), &pair_rows(distinct));
    }
    text.push('\n');
    for TaskCurves { task, .. } in &all.tasks {
        text.push_str(&format!(
            "- {task}: [results]({task}/results.md), [page]({task}/report.html)\n"
        ));
    }
    text
}
