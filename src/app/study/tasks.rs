//! One study on several generated tasks: the same objectives and settings on each, and where the tasks agree.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::json;
use tealight_datasets::task;
use tealight_eval::front::tasks::{self, AcrossTasks, TaskFronts, across_tasks};

use super::{Finished, Prepared, StudyOptions, in_folder, say_how_to_continue};
use crate::app::directory::Start;
use crate::formats::hub;
use crate::system::files::write_atomic;
use crate::system::process::Process;

/// A study on several tasks that is done.
pub struct FinishedTasks {
    /// The study of each task, in order.
    pub studies: Vec<Finished>,
    /// Their fronts, by task.
    pub fronts: Vec<TaskFronts>,
    /// The comparison over tasks; none where fewer than two tasks have fronts.
    pub across: Option<AcrossTasks>,
    /// The folder of all.
    pub output: PathBuf,
    /// Wall time.
    pub seconds: f64,
}

impl StudyOptions {
    /// The study of each task of --tasks.
    ///
    /// # Errors
    /// Fewer than two tasks, one that is not among the generated ones or is named twice; other datasets beside them; a
    /// model that was trained on one task alone.
    fn by_task(&self) -> Result<Vec<(String, Self)>> {
        if self.task.is_some()
            || self.sets.test_suite.is_some()
            || self.held_out.eval_dataset.is_some()
        {
            bail!(
                "--tasks studies the splits train, valid and test of each task: leave --task, --test-suite and \
                 --eval-dataset out, here and in --config files"
            );
        }
        if let [name] = self.tasks.as_slice() {
            bail!("--tasks names {name} alone, which leaves nothing to compare: use --task {name}");
        }
        let mut studies: Vec<(String, Self)> = Vec::new();
        for name in &self.tasks {
            if name != hub::EMBEDDED && task::find(name).is_none() {
                bail!(
                    "--tasks {name}: no such task; `tealight tasks` lists them, and countdown is one too"
                );
            }
            if self.model.model == hub::EMBEDDED && name != hub::EMBEDDED {
                bail!(
                    "--tasks {name}: the model `{}` is trained on countdown only; use --model {}",
                    hub::EMBEDDED,
                    hub::TASKS
                );
            }
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
    let (output, _claim) = options.take_output(start, ranks)?;
    options.begin_in(&output, start, ranks)?;
    let (mut done, mut fronts) = (Vec::new(), Vec::new());
    for (task, mut one) in studies {
        tracing::info!("task {task} ({} of {})", done.len() + 1, options.tasks.len());
        one.output = Some(output.join(&task));
        let (settings, configurations) = one.checked()?;
        let (folder, _claim) = one.take_output(start, ranks)?;
        let finished = in_folder(settings, configurations, (folder, start), process);
        if let Err(error) = &finished {
            say_how_to_continue(error, &output, ranks);
        }
        let Some(finished) = finished? else { continue };
        fronts.push(TaskFronts {
            task,
            fronts: finished.study.fronts.first().cloned(),
            without_fronts: finished.study.without_fronts.clone(),
        });
        done.push(finished);
    }
    if !ranks.is_first() {
        return Ok(None);
    }
    let across = across_tasks(&fronts);
    let seconds = started.elapsed().as_secs_f64();
    let results = json!({
        "tealight": env!("CARGO_PKG_VERSION"),
        "tasks": fronts,
        "across": across,
        "seconds": seconds,
    });
    write_atomic(&output.join("results.json"), serde_json::to_string(&results)?.as_bytes())?;
    let all = FinishedTasks { studies: done, fronts, across, output, seconds };
    write_atomic(&all.output.join("results.md"), all.markdown().as_bytes())?;
    Ok(Some(all))
}

impl FinishedTasks {
    /// The comparison as tables, with the reports of the tasks.
    fn markdown(&self) -> String {
        let mut text = String::from("# The same objectives on several tasks\n");
        if let Some(across) = &self.across {
            text.push_str(&format!("\n**{}**\n", across.text));
        }
        let mut add = |note: &str, rows: &[Vec<String>]| {
            let Some((header, rows)) = rows.split_first() else { return };
            let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            text.push_str(&format!("\n{note}\n\n{}", line(header)));
            text.push_str(&format!("|{}\n", "---|".repeat(header.len())));
            rows.iter().for_each(|row| text.push_str(&line(row)));
        };
        add(TASKS_NOTE, &tasks::task_rows(&self.fronts));
        if let Some(across) = &self.across {
            add(PAIRS_NOTE, &tasks::pair_rows(across));
        }
        text.push('\n');
        for TaskFronts { task, .. } in &self.fronts {
            text.push_str(&format!(
                "- {task}: [results]({task}/results.md), [page]({task}/report.html)\n"
            ));
        }
        text
    }
}

/// What a row of the first table is.
pub const TASKS_NOTE: &str = "Each task by itself: the base, and the comparison of the task's verdict at the highest \
level of Pass@1 that all objectives reach, or that two reach where there is none.";
/// What a row of the second table is.
pub const PAIRS_NOTE: &str = "Each pair of objectives: the first minus the second, mean over the levels of Pass@1 \
that both reach in every seed of a task, with 95 % intervals over seeds and problems that are not adjusted for the \
number of pairs. * p < .05 after Holm's adjustment for all pairs of all tasks. Levels differ between tasks. The last \
column is the average over the tasks that compare the pair, and over no other tasks.";
