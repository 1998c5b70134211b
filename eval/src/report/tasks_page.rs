//! A study on several tasks as one page: the comparison over tasks, every task's curves, then what each task's own
//! page has.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_core::{names, regular};

use super::samples::{Sampled, place};
use super::steps::StepFile;
use super::study_page::{courses, footer, lead, samples, sections};
use super::training::Followed;
use super::view::{Chart, Document, Recipe, Section, Table};
use super::{Study, curve, greedy_warnings, page, titles};
use crate::curve::tasks::{AcrossTasks, PAIRS_NOTE, TASKS_NOTE, TaskCurves, pair_rows, task_rows};
use crate::curve::{ONE_SEED, plain};
use crate::store;

/// A study on several tasks as data: the contents of its `results.json`. Each task's own results are in a folder of its
/// name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TasksStudy {
    /// The version of Tealight that made it.
    pub tealight: String,
    /// The curves of each task, in order.
    pub tasks: Vec<TaskCurves>,
    /// The comparison over tasks; none where fewer than two tasks have curves.
    pub across: Option<AcrossTasks>,
    /// The same by distinct correct answers, which are not tested.
    #[serde(default)]
    pub distinct: Option<AcrossTasks>,
    /// Wall time, in seconds.
    pub seconds: f64,
}

/// Writes `report.html` into the folder of a study on several tasks, with the samples in the tasks' folders.
///
/// # Errors
/// A task without results, samples that cannot be read, a folder that cannot be written.
pub fn write_tasks(all: &TasksStudy, folder: &Path) -> Result<()> {
    let names: BTreeSet<&str> = all.tasks.iter().map(|one| one.task.as_str()).collect();
    if names.len() < all.tasks.len() {
        bail!("{}: results.json names a task twice", folder.display());
    }
    let studies: Vec<(&str, Study)> = all
        .tasks
        .iter()
        .map(|one| Ok((one.task.as_str(), results(&one.task, folder)?)))
        .collect::<Result<_>>()?;
    let (mut sets, mut stored, mut followed) = (Vec::new(), Vec::new(), Vec::new());
    for (task, study) in &studies {
        let own = regular::own(folder, &names::inside(folder, task)?)?;
        let sampled: Result<Vec<Sampled<'_>>> =
            study.datasets.iter().map(|set| samples(study, set, &own)).collect();
        sets.extend(sampled?);
        let (course, completions) = courses(study, &own);
        let named = |file: StepFile| StepFile { run: format!("{task}: {}", file.run), ..file };
        stored.extend(completions.into_iter().map(named));
        followed.push(course);
    }
    let labels = shared_labels(&studies);
    let mut placed = place(&runs(&studies, &labels), &sets, folder)?;
    let steps = page::embed_steps(&mut placed, stored)?;
    let mut document = Document { steps, ..document(all, &studies, &followed) };
    document.models.extend(labels);
    document.made = titles::made(folder, "study");
    document.reproduce.push(Recipe::of_folder("study", folder, ""));
    document.footer.push(placed.note.clone());
    document.samples.clone_from(&placed.placement);
    let page = page::html(&document, &placed)?;
    store::write_whole(&folder.join("report.html"), page.as_bytes())
}

/// The results of one task.
fn results(task: &str, folder: &Path) -> Result<Study> {
    let own = names::inside(folder, task)?;
    regular::own(folder, &own.join("results.json"))
        .with_context(|| format!("{}: cannot be read", own.display()))?;
    Study::load(&own)
}

/// One name for each objective: that of its tables where it is the same on every task, or else the part before the
/// settings of the configuration, of which each task may show another.
fn shared_labels(studies: &[(&str, Study)]) -> Vec<String> {
    let Some(((_, first), others)) = studies.split_first() else { return Vec::new() };
    let shared = |(index, label): (usize, &str)| {
        let other = |(_, study): &(&str, Study)| study.labels().get(index).map(ToString::to_string);
        let common = others.iter().fold(label.to_owned(), |common, study| {
            let other = other(study).unwrap_or_default();
            let same = common.chars().zip(other.chars()).take_while(|(one, two)| one == two);
            same.map(|(one, _)| one).collect()
        });
        if others.iter().all(|study| other(study).as_deref() == Some(label)) {
            return label.to_owned();
        }
        let cut = common.find('@').or(common.rfind(':')).unwrap_or(common.len());
        // A variant of an objective, such as its best checkpoint, is another model.
        let variant = label.find(" +").map_or("", |at| &label[at..]);
        format!("{}{variant}", &common[..cut])
    };
    first.labels().into_iter().enumerate().map(shared).collect()
}

/// The base and every run that tables show, in the order of the counts of [`samples`].
fn runs(studies: &[(&str, Study)], labels: &[String]) -> Vec<String> {
    let mut runs = vec!["base".to_owned()];
    let Some((study, set)) =
        studies.first().and_then(|(_, study)| Some((study, study.datasets.first()?)))
    else {
        return runs;
    };
    let several = study.seeds().len() > 1;
    for (label, own) in labels.iter().zip(study.labels()) {
        runs.extend(set.runs_of(own).map(|run| match several {
            true => format!("{label} seed {}", run.seed),
            false => label.clone(),
        }));
    }
    runs
}

/// Everything but the samples and the models' names.
fn document(
    all: &TasksStudy,
    studies: &[(&str, Study)],
    followed: &[Vec<(String, Followed)>],
) -> Document {
    let tasks: Vec<&str> = studies.iter().map(|(task, _)| *task).collect();
    let top = all.tasks.iter().filter_map(|one| {
        let chart = curve::chart(one.curves.as_ref()?);
        Some(Chart { title: format!("{}: {}", one.task, chart.title), ..chart })
    });
    let plainly = |one: &TaskCurves| Some(format!("{}: {}", one.task, plain(one.curves.as_ref()?)));
    let verdict: Vec<String> = all.tasks.iter().filter_map(plainly).collect();
    let mut statistics: Vec<String> = all.across.iter().map(|across| across.text.clone()).collect();
    statistics.extend(all.distinct.iter().map(|distinct| distinct.text.clone()));
    let own = |one: &TaskCurves| {
        let text = &one.curves.as_ref()?.verdict.text;
        Some(format!("{}, with p-values for its own tests: {text}", one.task))
    };
    statistics.extend(all.tasks.iter().filter_map(own));
    let without = |one: &TaskCurves| {
        Some(format!("No curves on {}: {}", one.task, one.without_curves.as_ref()?))
    };
    let mut warnings: Vec<String> = match &all.across {
        // Its text names them.
        Some(_) => Vec::new(),
        None => all.tasks.iter().filter_map(without).collect(),
    };
    for (task, study) in studies {
        warnings.extend(greedy_warnings(study).into_iter().map(|text| format!("{task}, {text}")));
    }
    let names_one_seed = statistics.iter().any(|text| text.contains(ONE_SEED));
    if !names_one_seed && studies.iter().any(|(_, study)| study.seeds().len() == 1) {
        warnings.push(ONE_SEED.to_owned());
    }
    Document {
        title: studies.first().map_or(String::new(), |(_, study)| titles::study(study, &tasks)),
        lead: studies.first().map(|(_, study)| lead(study)).into_iter().collect(),
        verdict,
        statistics,
        warnings,
        models: vec!["base".to_owned()],
        top: top.collect(),
        sections: all_sections(all, studies, followed),
        footer: vec![footer(all.seconds)],
        ..Document::default()
    }
}

/// The tables over tasks, then every task's sections: its table of models open, all others folded.
fn all_sections(
    all: &TasksStudy,
    studies: &[(&str, Study)],
    followed: &[Vec<(String, Followed)>],
) -> Vec<Section> {
    let mut table =
        Section::new("Tasks").table(Table::new(task_rows(&all.tasks)).titled("", TASKS_NOTE));
    if let Some(across) = &all.across {
        let pairs = Table::new(pair_rows(across)).titled("Differences", PAIRS_NOTE);
        table = table.table(pairs.folded());
    }
    if let Some(distinct) = &all.distinct {
        let pairs =
            Table::new(pair_rows(distinct)).titled("Differences of distinct answers", PAIRS_NOTE);
        table = table.table(pairs.folded());
    }
    let mut made = vec![table];
    for ((task, study), courses) in studies.iter().zip(followed) {
        let reported = study.reported();
        let open = reported.map(|set| format!("{} (", set.title(study)));
        made.extend(sections(study, None, courses).into_iter().map(|section| {
            let is_open = open.as_ref().is_some_and(|title| section.heading.starts_with(title));
            Section {
                heading: format!("{task}: {}", section.heading),
                is_folded: !is_open && !section.is_training,
                ..section
            }
        }));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(objectives: &[&str]) -> Study {
        let objectives: Vec<[&str; 2]> = objectives.iter().map(|label| [*label, ""]).collect();
        let study = serde_json::json!({
            "model": "tasks", "n": 4, "ks": [1], "grid": [1], "temperature": 1.0, "prompts": 1,
            "prompts_per_step": 1, "num_generations": 1, "learning_rate": 1e-4, "matched": "tokens",
            "objectives": objectives, "datasets": [], "training": [], "seconds": 1.0,
        });
        serde_json::from_value(study).unwrap()
    }

    #[test]
    fn an_objective_has_one_name_whichever_configuration_a_task_shows() {
        let studies = [
            (
                "one",
                study(&["grpo@lr=5e-5", "grpo@lr=5e-5 +best", "kl-full:0.1", "js:2.4", "none"]),
            ),
            (
                "two",
                study(&["grpo@lr=1e-4", "grpo@lr=1e-4 +best", "kl-full:0.3", "js:2.4", "none"]),
            ),
        ];
        assert_eq!(shared_labels(&studies), ["grpo", "grpo +best", "kl-full", "js:2.4", "none"]);
        assert_eq!(shared_labels(&[]), Vec::<String>::new());
    }
}
