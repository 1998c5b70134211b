//! A run while it goes: what its metrics and samples say so far, as a piece of a page.
//!
//! Files are read on from where the last look ended, so a look costs what is new.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Result;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use tealight_datasets::regular;

use super::chart::{Axes, Line, draw};
use crate::Sample;

/// Deepest folder below the run's that is looked into.
const MAX_DEPTH: usize = 3;
/// What is drawn of a training run: the metric's key and what the axis says.
const DRAWN: [(&str, &str); 8] = [
    ("reward", "mean reward"),
    ("entropy", "entropy per token (nats)"),
    ("kl", "KL to the base (nats)"),
    ("loss", "loss"),
    ("frac_reward_zero_std", "groups that teach nothing"),
    ("clipped_ratio", "cut off"),
    ("pass@1", "held-out pass@1"),
    ("distinct", "held-out distinct right answers"),
];

/// What is known of a directory so far.
pub struct Live {
    directory: PathBuf,
    files: BTreeMap<PathBuf, Followed>,
}

/// One file that grows.
#[derive(Default)]
struct Followed {
    read: u64,
    /// By metric: step and value.
    metrics: BTreeMap<&'static str, Vec<(f64, f64)>>,
    /// By problem: samples and right ones.
    problems: BTreeMap<String, (usize, usize)>,
}

impl Live {
    /// Looks at `directory`, from its beginning.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: BTreeMap::new() }
    }

    /// Reads what is new, and shows all there is.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn look(&mut self) -> Result<String> {
        for path in found(&self.directory, MAX_DEPTH)? {
            // A file that is being replaced is read at the next look.
            drop(self.files.entry(path.clone()).or_default().follow(&path));
        }
        Ok(self.markup()?.into_string())
    }

    fn markup(&self) -> Result<Markup> {
        let name =
            |path: &Path| path.strip_prefix(&self.directory).unwrap_or(path).display().to_string();
        let training: Vec<(String, &Followed)> = self
            .files
            .iter()
            .filter(|(_, file)| !file.metrics.is_empty())
            .map(|(path, file)| (name(path.parent().unwrap_or(path)), file))
            .collect();
        let sampling = self.files.iter().filter(|(_, file)| !file.problems.is_empty());
        // Only what is there is linked: a folder of runs has no report of its own.
        let report = self.directory.join("report.html");
        Ok(html! {
            @if report.symlink_metadata().is_ok_and(|kind| kind.is_file()) {
                p { a href="report.html" { "The full report" } }
            }
            @if !training.is_empty() {
                h2 { "Training" }
                table {
                    thead { tr { th { "run" } th { "step" } th { "reward" } th { "entropy" } th { "KL" } } }
                    tbody { @for (name, file) in training.iter().filter(|(_, file)| file.is_training()) { tr {
                        td { (if name.is_empty() { "this run" } else { name }) }
                        td { (file.last("reward").or(file.last("loss")).map_or(String::new(), |(step, _)| format!("{step:.0}"))) }
                        @for metric in ["reward", "entropy", "kl"] {
                            td { (file.last(metric).map_or(String::new(), |(_, value)| format!("{value:.3}"))) }
                        }
                    } } }
                }
                div.charts { @for (key, title) in DRAWN { (chart(&training, key, title)?) } }
            }
            @if self.files.values().any(|file| !file.problems.is_empty()) {
                h2 { "Samples" }
                table {
                    thead { tr { th { "file" } th { "problems" } th { "samples" } th { "right so far" } th { "problems solved" } } }
                    tbody { @for (path, file) in sampling {
                        @let (all, right) = file.problems.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                        tr {
                            td { (name(path)) } td { (file.problems.len()) } td { (all) }
                            td { (format!("{:.4}", right as f64 / all.max(1) as f64)) }
                            td { (file.problems.values().filter(|one| one.1 > 0).count()) }
                        }
                    } }
                }
            }
            @if self.files.is_empty() { p { "Nothing has been written yet." } }
        })
    }
}

/// The training curves of models whose runs left their metrics beside them: `RUN/metrics.jsonl` for the
/// model `RUN/final`.
pub(super) fn trainings(models: &[(&str, &str)]) -> Result<Markup> {
    let mut followed: Vec<(String, Followed)> = Vec::new();
    for (name, model) in models {
        let metrics = Path::new(model).parent().map(|run| run.join("metrics.jsonl"));
        let mut run = Followed::default();
        if metrics.is_some_and(|path| path.is_file() && run.follow(&path).is_ok()) {
            followed.push(((*name).to_owned(), run));
        }
    }
    let training: Vec<(String, &Followed)> =
        followed.iter().map(|(name, run)| (name.clone(), run)).collect();
    Ok(html! {
        @if !training.is_empty() {
            h2 { "Training" }
            div.charts { @for (key, title) in DRAWN { (chart(&training, key, title)?) } }
        }
    })
}

fn chart(training: &[(String, &Followed)], key: &str, title: &str) -> Result<Markup> {
    let line = |(index, (name, file)): (usize, &(String, &Followed))| {
        let points = file.metrics.get(key)?.clone();
        (points.len() > 1).then(|| Line {
            name: name.clone(),
            colour: index + 1,
            is_bold: false,
            points,
            mark: None,
            band: vec![],
        })
    };
    let lines: Vec<Line> = training.iter().enumerate().filter_map(line).collect();
    if lines.is_empty() {
        return Ok(html! {});
    }
    let axes = Axes { x: "step", y: title, is_log: false, y_range: None };
    Ok(html! { figure { (PreEscaped(draw(&axes, &lines)?)) } })
}

impl Followed {
    fn last(&self, metric: &str) -> Option<(f64, f64)> {
        self.metrics.get(metric)?.last().copied()
    }

    /// Whether these are the metrics of steps, not evaluations on the way.
    fn is_training(&self) -> bool {
        self.last("reward").or(self.last("loss")).is_some()
    }

    /// Reads whole lines from where the last look ended; a file that became shorter from its start.
    fn follow(&mut self, path: &Path) -> Result<()> {
        let mut file = regular::open(path)?;
        if file.metadata()?.len() < self.read {
            *self = Self::default();
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.read += line.len() as u64;
            self.add(&line);
            line.clear();
        }
        Ok(())
    }

    fn add(&mut self, line: &[u8]) {
        if let Ok(sample) = serde_json::from_slice::<Sample>(line) {
            let right = usize::from(sample.is_correct());
            let counts = self.problems.entry(sample.problem).or_default();
            *counts = (counts.0 + 1, counts.1 + right);
            return;
        }
        let Ok(row) = serde_json::from_slice::<Value>(line) else { return };
        let Some(step) = row["step"].as_f64().filter(|step| step.abs() < 1e15) else { return };
        for (key, _) in DRAWN {
            // Beyond it the axis of a chart has no end.
            if let Some(value) = row[key].as_f64().filter(|value| value.abs() < 1e30) {
                self.metrics.entry(key).or_default().push((step, value));
            }
        }
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
        assert!(shown.contains("0.500") && shown.contains("<svg"), "{shown}");
        assert!(shown.contains("held-out pass@1"), "{shown}");
        std::fs::create_dir(folder.path().join("samples")).unwrap();
        let line = "{\"problem\":\"a\",\"sample\":0,\"completion\":\"x\",\"verdict\":\"correct\",\"class\":\"x\",\"is_finished\":true,\"tokens\":1,\"logp\":-1.0}\n";
        std::fs::write(folder.path().join("samples/s.jsonl"), line).unwrap();
        assert!(live.look().unwrap().contains("1.0000"));
        let link = "href=\"report.html\"";
        assert!(!live.look().unwrap().contains(link) && !super::super::live_page().contains(link));
        std::fs::write(folder.path().join("report.html"), "").unwrap();
        assert!(live.look().unwrap().contains(link), "linked as soon as it is there");
    }
}
