//! A run while it goes: what its metrics, samples and completions say so far, as a document.
//!
//! Files are read on from where the last look ended, so a look costs what is new.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tealight_datasets::guard;

use super::steps::{MAX_REFUSED, StepFile, completions, rows};
use super::training::{Followed, charts};
use super::view::{Document, Section, Table};

/// Deepest folder below the run's that is looked into: a checkpoint of a run of a task of a study.
const MAX_DEPTH: usize = 4;

/// A directory's results so far.
pub struct Live {
    directory: PathBuf,
    files: BTreeMap<PathBuf, Followed>,
    steps: Vec<StepFile>,
    /// Files of completions that were refused: each keeps the memory that it took.
    refused: usize,
}

impl Live {
    /// Looks at `directory`, from its beginning.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            files: BTreeMap::new(),
            steps: Vec::new(),
            refused: 0,
        }
    }

    /// Reads what is new, and shows all there is: a document for the viewer, as JSON.
    pub fn look(&mut self) -> Result<String> {
        for path in found(&self.directory, MAX_DEPTH)? {
            // A file that is being replaced is read at the next look.
            drop(self.files.entry(path.clone()).or_default().follow(&self.directory, &path));
        }
        let runs = self.files.keys().filter(|path| path.ends_with("metrics.jsonl"));
        let run_steps = |path: &PathBuf| {
            let run = path.parent().unwrap_or(&self.directory);
            completions(run, &self.name(run))
        };
        self.steps = runs.flat_map(run_steps).collect();
        let mut shown = serde_json::to_value(self.document())?;
        // Only what is there is linked: a folder of runs has no report of its own.
        let report = self.directory.join("report.html");
        shown["report"] = json!(report.symlink_metadata().is_ok_and(|kind| kind.is_file()));
        let step = |one: &StepFile| json!({"run": one.run, "step": one.step});
        shown["steps"] = self.steps.iter().map(step).collect();
        Ok(shown.to_string())
    }

    /// The completions of the step at this position of the last look's list, as JSON.
    pub fn step(&mut self, index: usize) -> Result<Value> {
        if self.refused == MAX_REFUSED {
            bail!("several files of completions here could not be read: no other is tried");
        }
        let read = rows(self.steps.get(index).context("no such step")?);
        self.refused += usize::from(read.as_ref().is_err_and(|error| error.is::<guard::Refused>()));
        read
    }

    /// A path's label: its part below the directory, or the directory itself.
    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.directory).unwrap_or(path).display().to_string();
        if below.is_empty() { "this run".to_owned() } else { below }
    }

    fn document(&self) -> Document {
        let training: Vec<(String, &Followed)> = self
            .files
            .iter()
            .filter(|(_, file)| file.has_metrics())
            .map(|(path, file)| (self.name(path.parent().unwrap_or(path)), file))
            .collect();
        let mut document =
            Document { title: "Tealight, live".into(), live: true, ..Document::default() };
        if self.files.is_empty() {
            document.lead.push("Nothing has been written yet.".into());
        }
        let header = ["run", "step", "reward", "entropy", "KL"].map(str::to_owned).to_vec();
        let row = |(name, file): &(String, &Followed)| {
            let step = file.last("reward").or(file.last("loss"));
            let mut row = vec![name.clone(), step.map_or("".into(), |at| format!("{:.0}", at.0))];
            let last = |key| file.last(key).map_or(String::new(), |at| format!("{:.3}", at.1));
            row.extend(["reward", "entropy", "kl"].map(last));
            row
        };
        let runs = training.iter().filter(|(_, file)| file.is_training()).map(row);
        let table = Table::new(std::iter::once(header).chain(runs).collect());
        document
            .sections
            .push(Section::of_training("Training").table(table).charts(charts(&training)));
        document
            .sections
            .push(Section::of_training("Samples so far").table(Table::new(self.samples())));
        document.sections.retain(|section| !section.blocks.is_empty());
        document
    }

    /// A row a file of samples, under a header.
    fn samples(&self) -> Vec<Vec<String>> {
        let header =
            ["file", "problems", "samples", "correct so far", "problems solved"].map(str::to_owned);
        let sampling = self.files.iter().filter(|(_, file)| !file.problems.is_empty());
        let row = |(path, file): (&PathBuf, &Followed)| {
            let counts = file.problems.values();
            let (all, correct) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            vec![
                self.name(path),
                file.problems.len().to_string(),
                all.to_string(),
                format!("{:.4}", correct as f64 / all.max(1) as f64),
                file.problems.values().filter(|one| one.1 > 0).count().to_string(),
            ]
        };
        std::iter::once(header.to_vec()).chain(sampling.map(row)).collect()
    }
}

/// The files of metrics and samples below a directory.
fn found(directory: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Links are not followed, nor are pipes opened.
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        if kind.is_dir() && depth > 0 && name != "lm-eval" && !name.starts_with("checkpoint") {
            paths.extend(found(&path, depth - 1)?);
        } else if !kind.is_file() {
            continue;
        } else if name == "metrics.jsonl"
            || name == "evals.jsonl"
            || (name.ends_with(".jsonl")
                && (name.starts_with("samples") || directory.ends_with("samples")))
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_run_is_followed_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut live = Live::new(folder.path());
        assert!(live.look().unwrap().contains("Nothing"));
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":1,\"loss\":1.0,\"reward\":0.25}\n{\"step\":2,\"rew")
            .unwrap();
        assert!(live.look().unwrap().contains("0.250"));
        let rows =
            "{\"step\":1,\"loss\":1.0,\"reward\":0.25}\n{\"step\":2,\"loss\":1.0,\"reward\":0.5}\n";
        std::fs::write(&path, rows).unwrap();
        let held_out = "{\"step\":0,\"pass@1\":0.2}\n{\"step\":2,\"pass@1\":0.3}\n";
        std::fs::write(folder.path().join("evals.jsonl"), held_out).unwrap();
        let shown = live.look().unwrap();
        assert!(shown.contains("0.500") && shown.contains("[[1.0,0.25],[2.0,0.5]]"), "{shown}");
        assert!(shown.contains("Held-out pass@1"), "{shown}");
        std::fs::create_dir(folder.path().join("samples")).unwrap();
        let line = "{\"problem\":\"a\",\"sample\":0,\"completion\":\"x\",\"verdict\":\"correct\",\"class\":\"x\",\"is_finished\":true,\"tokens\":1,\"logp\":-1.0}\n";
        std::fs::write(folder.path().join("samples/s.jsonl"), line).unwrap();
        assert!(live.look().unwrap().contains("1.0000"));
        let link = "\"report\":true";
        assert!(!live.look().unwrap().contains(link));
        std::fs::write(folder.path().join("report.html"), "").unwrap();
        assert!(live.look().unwrap().contains(link), "linked as soon as it is there");
    }
}
