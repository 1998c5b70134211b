//! Evaluations side by side, the first as the base.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tealight_core::display::shortened;
use tealight_core::run_folder::{FINAL, METRICS};
use tealight_eval::inference::{Tested, TestedFamily};
use tealight_eval::results::Results;
use tealight_eval::transition::{Aligned, Change, align};
use tealight_eval::{Summary, comparable, report};

use crate::app::directory::{self, Destination, Existing};
use tealight_system::files::write_atomic;

/// Characters of a setting that a name or a note shows.
const SHOWN: usize = 40;

/// Options of `tealight compare`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct CompareOptions {
    /// Directories that `eval` or `grade` wrote; the first is the base.
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The base evaluated again with another --seed, which shows how many problems are lost and gained by chance alone.
    #[arg(long, value_name = "DIR")]
    pub second_draw: Option<PathBuf>,
    /// Compare only the problems that all runs have; without --intersect, runs on different problems are refused.
    #[arg(long)]
    pub intersect: bool,
    /// Settings in which the runs may differ.
    #[arg(long, value_delimiter = ',', value_name = "KEY",
          help = format!("Settings in which the runs may differ: {}", comparable::keys().join(", ")))]
    pub across: Vec<String>,
    /// Directory for compare.json and report.html; without --output nothing is written.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Replace an earlier result in --output: only files that Tealight wrote are removed.
    #[arg(long)]
    pub overwrite: bool,
    /// Print JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Evaluations side by side.
#[derive(Serialize)]
pub struct Comparison {
    /// The names of the runs.
    #[serde(rename = "runs")]
    pub names: Vec<String>,
    /// The sets that they have in common.
    pub sets: Vec<ComparedSet>,
}

/// The comparison of the runs on one set of problems.
#[derive(Serialize)]
pub struct ComparedSet {
    /// Name of the set.
    pub name: String,
    /// The problems that all runs have.
    pub problems: usize,
    /// The numbers of each run on these problems.
    pub summaries: Vec<Summary>,
    /// Every run against every other.
    pub matrix: Vec<Vec<Option<Tested>>>,
    /// What became of the first run under each other, in words.
    pub verdicts: Vec<String>,
    /// The changes from the first run to each other.
    pub changes: Vec<Change>,
    /// The k of the numbers.
    #[serde(skip)]
    pub ks: Vec<usize>,
    /// The differences that are shown.
    #[serde(skip)]
    pub tested: TestedFamily,
}

impl From<Aligned<'_>> for ComparedSet {
    fn from(set: Aligned<'_>) -> Self {
        let changes: Vec<Change> = (1..set.runs.len()).map(|run| set.change(run)).collect();
        let tested = report::contrast::tested(&set, &changes);
        Self {
            problems: set.runs[0].len(),
            matrix: report::contrast::matrix(&set, &tested),
            verdicts: report::contrast::verdicts(&set.ks, &changes, &tested),
            changes,
            tested,
            name: set.name,
            summaries: set.summaries,
            ks: set.ks,
        }
    }
}

/// Compares evaluations, the first as the base, and writes compare.json and a report where a folder is named.
pub fn run(options: &CompareOptions) -> Result<Comparison> {
    if options.runs.len() < 2 {
        bail!("name at least two directories that `tealight eval` or `tealight grade` wrote");
    }
    let existing = Existing::from_flag(options.overwrite);
    Destination::check(options.output.as_deref(), existing)?;
    options.check_output(existing)?;
    for run in &options.runs {
        if run.join(METRICS).exists() && !run.join("results.json").exists() {
            let shown = run.display();
            bail!(
                "{shown} is a training run: evaluate it first, tealight eval --model {shown}/final ... --output {shown}/eval"
            );
        }
    }
    let loaded: Vec<Results> =
        options.runs.par_iter().map(|path| Results::load(path)).collect::<Result<_>>()?;
    let names = options.names(&loaded)?;
    let named: Vec<(String, &Results)> = names.iter().cloned().zip(&loaded).collect();
    let second = options.second_draw.as_deref().map(Results::load).transpose()?;
    let label = |path: &PathBuf| path.display().to_string();
    let second = options.second_draw.as_ref().map(label).zip(second.as_ref());
    if let Some((name, draw)) = &second {
        comparable::check_second_draw((name.as_str(), *draw), &named)
            .map_err(anyhow::Error::msg)?;
    }
    let (sets, notes) = align(&named, second.as_ref(), options.intersect)?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    comparable::identical(&named).iter().for_each(|note| tracing::info!("{note}"));
    let sets = sets.into_iter().map(ComparedSet::from).collect();
    let comparison = Comparison { names, sets };
    if let Some(output) = &options.output {
        let claim = directory::fresh(output, existing)?;
        directory::begin(Some(&claim), output, existing)?;
        let runs: Vec<_> = options.runs.iter().map(PathBuf::as_path).zip(&loaded).collect();
        let second = options.second_draw.as_deref().zip(second.as_ref().map(|(_, draw)| *draw));
        report::write(&runs, &comparison.names, second, output)
            .context("the report cannot be written")?;
        let json = serde_json::to_string_pretty(&comparison)?;
        write_atomic(&output.join("compare.json"), json.as_bytes())?;
        tracing::info!("compare.json and report.html in {}", output.display());
    }
    Ok(comparison)
}

impl CompareOptions {
    /// Refuses an output that would be lost, or that holds what is compared.
    fn check_output(&self, existing: Existing) -> Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        directory::refuse_run(output, existing)?;
        let inputs = self.runs.iter().chain(&self.second_draw);
        if directory::first_inside(output, inputs.map(PathBuf::as_path)).is_some() {
            bail!(
                "{}: contains an evaluation that is being compared; choose another --output",
                output.display()
            );
        }
        directory::check(output, existing)
    }

    /// The names of the runs: the parts of their paths that tell them apart, and the settings that they differ in on
    /// purpose.
    fn names(&self, loaded: &[Results]) -> Result<Vec<String>> {
        let across: Vec<String> = self.across.iter().map(|key| key.replace('-', "_")).collect();
        if let Some(key) = across.iter().find(|key| !comparable::keys().contains(&key.as_str())) {
            bail!("--across {key}: no such setting; choose from {}", comparable::keys().join(", "));
        }
        // Prompts differ where what makes them does.
        let makes = |key: &String| comparable::PROMPTING.contains(&key.as_str());
        let allows = |key: &str| across.iter().any(|k| k == key || key == "prompts" && makes(k));
        let mut names = short_names(&self.runs);
        let Some((first, others)) = loaded.split_first() else { return Ok(names) };
        let (mut refused, mut keys, mut seen) = (Vec::new(), BTreeSet::new(), HashSet::new());
        let mut labels: Vec<BTreeMap<&str, String>> = vec![BTreeMap::new(); loaded.len()];
        for (index, run) in others.iter().enumerate() {
            for (set, other) in comparable::shared(first, run) {
                for difference in comparable::differences((first, set), (run, other)) {
                    let [a, b] = difference.values;
                    if allows(difference.key) {
                        seen.insert(difference.key);
                        labels[0].insert(difference.key, a);
                        labels[index + 1].insert(difference.key, b);
                        continue;
                    }
                    let (a, b) = (shortened(&a, SHOWN), shortened(&b, SHOWN));
                    keys.insert(difference.key);
                    refused.push(format!(
                        "{}: {} is {a} in {}, {b} in {}",
                        set.name,
                        difference.key,
                        self.runs[0].display(),
                        self.runs[index + 1].display()
                    ));
                }
            }
        }
        if !refused.is_empty() {
            bail!(
                "these runs are not comparable: {}; evaluate them alike, or compare across a difference on purpose with {}",
                refused.join("; "),
                keys.iter().map(|key| format!("--across {key}")).collect::<Vec<_>>().join(" ")
            );
        }
        if let Some(key) = across.iter().find(|key| !seen.contains(key.as_str())) {
            bail!("--across {key} has no effect: the runs do not differ in it");
        }
        for (name, label) in names.iter_mut().zip(labels) {
            for (key, value) in label.iter().filter(|(key, _)| **key != "prompts") {
                name.push_str(&format!(" ({key} {})", shortened(value, SHOWN)));
            }
        }
        Ok(names)
    }
}

/// Short names of folders: without the folders that all of them lie in, and without a last `eval` or `final`, as long
/// as they differ.
fn short_names(paths: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<String>> = paths
        .iter()
        .map(|path| path.components().map(|part| part.as_os_str().display().to_string()).collect())
        .collect();
    let are_different = |names: &[Vec<String>]| {
        let different: HashSet<&Vec<String>> = names.iter().collect();
        different.len() == names.len() && names.iter().all(|name| !name.is_empty())
    };
    let mut names = parts;
    for shorten in [without_first as fn(&[Vec<String>]) -> Vec<Vec<String>>, without_last] {
        while let shorter = shorten(&names)
            && shorter != names
            && are_different(&shorter)
        {
            names = shorter;
        }
    }
    names.iter().map(|name| name.join("/")).collect()
}

/// Without the first part, where all have the same.
fn without_first(names: &[Vec<String>]) -> Vec<Vec<String>> {
    let is_shared = names.iter().all(|name| name.first() == names[0].first());
    names.iter().map(|name| name[usize::from(is_shared && !name.is_empty())..].to_vec()).collect()
}

/// Without a last part that only says which folder of a run it is.
fn without_last(names: &[Vec<String>]) -> Vec<Vec<String>> {
    let is_generic = |name: &[String]| {
        name.len() > 1 && name.last().is_some_and(|last| last == "eval" || last == FINAL)
    };
    names.iter().map(|name| name[..name.len() - usize::from(is_generic(name))].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_parts_of_paths_that_differ() {
        let shortened = |paths: &[&str]| {
            short_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(shortened(&["base", "grpo/eval", "js/eval"]), "base grpo js");
        assert_eq!(shortened(&["/tmp/a/base", "/tmp/a/run/final"]), "base run");
        assert_eq!(shortened(&["run/eval", "run/final"]), "eval final");
        assert_eq!(shortened(&["a", "a/eval"]), "a a/eval");
        assert_eq!(shortened(&["same", "same"]), "same same");
    }
}
