//! The course of training runs: what their metrics say against steps, as charts, and completions by step.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use tealight_datasets::{read, regular};

use super::Training;
use super::view::{Chart, Kind, Line, Section};
use crate::Sample;

/// The charts of a training run: the metric's key, the chart's title and how to read it.
const DRAWN: [(&str, &str, &str); 9] = [
    ("reward", "Mean reward", "Mean reward of the completions of each step."),
    (
        "entropy",
        "Entropy per token (nats)",
        "Mean entropy of the policy's next-token distribution, over the sampled tokens.",
    ),
    ("kl", "KL to the base (nats)", "Estimate of KL(policy || base) per completion."),
    (
        "completions/mean_length",
        "Mean length (tokens)",
        "Mean length of the completions of each step.",
    ),
    ("grad_norm", "Gradient norm", "Norm of the gradient before clipping."),
    ("loss", "Loss", "Loss of each step; policy-gradient losses are near 0 by construction."),
    (
        "frac_reward_zero_std",
        "Zero-variance groups",
        "Share of groups whose completions all have the same reward, and which have no gradient.",
    ),
    (
        "completions/clipped_ratio",
        "Truncated",
        "Share of completions that reached the length limit.",
    ),
    (
        "distinct",
        "Held-out distinct correct answers",
        "Number of distinct correct answers among all samples of a problem, in evaluations during training.",
    ),
];
/// Most numbers of tries whose held-out Pass@k is drawn.
const MAX_KS: usize = 8;
/// Most points of a line; longer ones are thinned.
const MAX_POINTS: usize = 1500;
/// Most files of completions whose contents a page holds, and most completions of one.
const MAX_FILES: usize = 24;
const MAX_ROWS: usize = 256;
/// Longest text of such a completion, in characters.
const MAX_TEXT: usize = 8_000;

/// The content so far of a file that grows.
#[derive(Default)]
pub(super) struct Followed {
    read: u64,
    /// By metric: step and value.
    metrics: BTreeMap<String, Vec<(f64, f64)>>,
    /// By problem: samples and correct ones.
    pub(super) problems: BTreeMap<String, (usize, usize)>,
}

impl Followed {
    /// The training of a study's run.
    pub(super) fn of(run: &Training) -> Self {
        let mut course = Self::default();
        for point in &run.points {
            let values = [("reward", point.reward), ("entropy", point.entropy), ("kl", point.kl)];
            for (key, value) in values {
                course.push(key, point.step as f64, value);
            }
        }
        course.held_out(run);
        course
    }

    /// Adds what evaluations on the way found.
    pub(super) fn held_out(&mut self, run: &Training) {
        for at in &run.held_out {
            for (k, value) in at.pass_at_k.iter().take(MAX_KS) {
                self.push(&format!("pass@{k}"), at.step as f64, Some(*value));
            }
            self.push("distinct", at.step as f64, Some(at.distinct));
        }
    }

    fn push(&mut self, key: &str, step: f64, value: Option<f64>) {
        // Beyond it the axis of a chart has no end.
        if let Some(value) = value.filter(|value| value.abs() < 1e30) {
            self.metrics.entry(key.to_owned()).or_default().push((step, value));
        }
    }

    /// The last step of a metric, and its value there.
    pub(super) fn last(&self, metric: &str) -> Option<(f64, f64)> {
        self.metrics.get(metric)?.last().copied()
    }

    pub(super) fn has_metrics(&self) -> bool {
        !self.metrics.is_empty()
    }

    /// Whether these are the metrics of steps, not evaluations on the way.
    pub(super) fn is_training(&self) -> bool {
        self.last("reward").or(self.last("loss")).is_some()
    }

    /// Reads whole lines from where the last look ended; a file that became shorter from its start.
    pub(super) fn follow(&mut self, path: &Path) -> Result<()> {
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
            let correct = usize::from(sample.is_correct());
            let counts = self.problems.entry(sample.problem).or_default();
            *counts = (counts.0 + 1, counts.1 + correct);
            return;
        }
        let Ok(Value::Object(row)) = serde_json::from_slice::<Value>(line) else { return };
        let step = row.get("step").and_then(Value::as_f64).filter(|step| step.abs() < 1e15);
        let Some(step) = step else { return };
        let drawn = DRAWN.iter().map(|(key, ..)| (*key).to_owned());
        let ks = row.keys().filter(|key| tries(key).is_some()).take(MAX_KS).cloned();
        for key in drawn.chain(ks).collect::<Vec<_>>() {
            self.push(&key, step, row.get(&key).and_then(Value::as_f64));
        }
    }
}

/// The k of `pass@k`.
fn tries(key: &str) -> Option<usize> {
    key.strip_prefix("pass@")?.parse().ok()
}

/// Every chart that the metrics allow; runs of one name are drawn as mean and range.
pub(super) fn charts(runs: &[(String, &Followed)]) -> Vec<Chart> {
    let mut ks: Vec<usize> =
        runs.iter().flat_map(|(_, run)| run.metrics.keys().filter_map(|key| tries(key))).collect();
    ks.sort_unstable();
    ks.dedup();
    // The two that say what becomes of accuracy and of coverage.
    let ends = [ks.first(), ks.last().filter(|_| ks.len() > 1)];
    let held_out = ends.into_iter().flatten().map(|k| {
        let about = "Evaluations during training, on problems that are not trained on.".to_owned();
        (format!("pass@{k}"), format!("Held-out pass@{k}"), about)
    });
    let all = DRAWN.map(|(key, title, about)| (key.into(), title.into(), about.into()));
    held_out.chain(all).filter_map(|(key, title, about)| chart(runs, &key, &title, about)).collect()
}

fn chart(runs: &[(String, &Followed)], key: &str, title: &str, mut about: String) -> Option<Chart> {
    let points = |run: &Followed| run.metrics.get(key).filter(|points| points.len() > 1).cloned();
    let all: Vec<(String, Vec<(f64, f64)>)> =
        runs.iter().filter_map(|(name, run)| Some((name.clone(), points(run)?))).collect();
    let longest = all.iter().map(|(_, points)| points.len()).max()?;
    let stride = longest.div_ceil(MAX_POINTS);
    if stride > 1 {
        about.push_str(&format!(" One step in {stride} is drawn."));
    }
    let thinned = |(name, points): (String, Vec<(f64, f64)>)| {
        Line::new(name, points.into_iter().step_by(stride).collect())
    };
    let lines = all.into_iter().map(thinned).collect();
    Some(Chart::new(title, ("step", title), lines).kind(Kind::Runs).caption(about))
}

/// The training of models whose runs left their metrics beside them, `RUN/metrics.jsonl` for the model `RUN/final`:
/// their
/// charts, and the files of their completions.
pub(super) fn beside(models: &[(&str, &str)]) -> (Section, Vec<StepFile>) {
    let (mut followed, mut stored) = (Vec::new(), Vec::new());
    for (name, model) in models {
        let Some(run) = Path::new(model).parent() else { continue };
        let metrics = run.join("metrics.jsonl");
        let mut course = Followed::default();
        if metrics.is_file() && course.follow(&metrics).is_ok() {
            drop(course.follow_also(&run.join("evals.jsonl")));
            followed.push(((*name).to_owned(), course));
            stored.extend(completions(run, name));
        }
    }
    let runs: Vec<(String, &Followed)> =
        followed.iter().map(|(name, run)| (name.clone(), run)).collect();
    (Section::of_training("Training").charts(charts(&runs)), stored)
}

impl Followed {
    /// Reads another file into the same metrics, whole.
    pub(super) fn follow_also(&mut self, path: &Path) -> Result<()> {
        let mut other = Self::default();
        other.follow(path)?;
        for (key, points) in other.metrics {
            self.metrics.entry(key).or_insert(points);
        }
        Ok(())
    }
}

/// The completions of one training step in a file.
#[derive(Debug, Clone)]
pub(super) struct StepFile {
    /// The run's label.
    pub(super) run: String,
    pub(super) step: usize,
    pub(super) path: PathBuf,
}

/// The files of a run's completions, by step.
pub(super) fn completions(run: &Path, name: &str) -> Vec<StepFile> {
    let folder = run.join("completions");
    // Links are not followed.
    let is_own = folder.symlink_metadata().is_ok_and(|kind| kind.is_dir());
    let Some(entries) = is_own.then(|| std::fs::read_dir(&folder).ok()).flatten() else {
        return Vec::new();
    };
    let stored = |entry: std::fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let step = file.strip_prefix("completions_")?.strip_suffix(".parquet")?.parse().ok()?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file.then(|| StepFile { run: name.to_owned(), step, path: entry.path() })
    };
    let mut all: Vec<StepFile> = entries.flatten().filter_map(stored).collect();
    all.sort_by_key(|one| one.step);
    all
}

/// Some of these, at equal distances, the last among them: as many as a page holds.
pub(super) fn some(mut all: Vec<StepFile>) -> Vec<StepFile> {
    let count = all.len();
    if count <= MAX_FILES {
        return all;
    }
    let stride = count.div_ceil(MAX_FILES);
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        (count - index).is_multiple_of(stride)
    });
    all
}

/// The completions of a step as the viewer gets them: prompt, completion, reward, advantage, verdict, tokens, whether
/// it was
/// truncated.
pub(super) fn rows(stored: &StepFile) -> Result<Value> {
    let rows = read::table(&stored.path)?;
    let text = |value: Option<&Value>| -> String {
        value.and_then(Value::as_str).unwrap_or_default().chars().take(MAX_TEXT).collect()
    };
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let one = |row: &serde_json::Map<String, Value>| {
        json!([
            text(row.get("prompt")),
            text(row.get("completion")),
            number(row.get("reward")),
            number(row.get("advantage")),
            text(row.get("verdict"))
                .replace("wrong", "incorrect")
                .replace("no-answer", "no answer"),
            number(row.get("tokens")),
            u8::from(number(row.get("is_finished")) == Some(0.0)),
        ])
    };
    Ok(Value::Array(rows.iter().take(MAX_ROWS).map(one).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TrainingPoint;

    #[test]
    fn training_curves_show_what_was_logged_step_by_step() {
        let point = |step: usize, kl: f64| TrainingPoint {
            step,
            reward: None,
            entropy: None,
            kl: Some(kl),
            updates: step,
            tokens: step,
        };
        let run = Training {
            points: vec![point(5, 0.0), point(10, 1.0), point(15, 2.0), point(20, 0.5)],
            ..Training::default()
        };
        let course = Followed::of(&run);
        let charts = charts(&[("grpo".to_owned(), &course)]);
        assert_eq!(charts.len(), 1, "what is not logged is not drawn");
        let line = &charts[0].lines[0];
        assert_eq!(line.points, [(5.0, 0.0), (10.0, 1.0), (15.0, 2.0), (20.0, 0.5)]);
        assert_eq!((line.name.as_str(), charts[0].kind), ("grpo", Kind::Runs));
    }

    #[test]
    fn long_runs_are_thinned_and_say_so() {
        let mut course = Followed::default();
        (0..4000).for_each(|step| course.push("reward", f64::from(step), Some(0.5)));
        let charts = charts(&[("run".to_owned(), &course)]);
        assert!(charts[0].lines[0].points.len() <= MAX_POINTS);
        assert!(charts[0].caption.contains("One step in 3"), "{}", charts[0].caption);
    }

    #[test]
    fn the_last_step_is_always_among_those_a_page_holds() {
        let file = |step| StepFile { run: String::new(), step, path: PathBuf::new() };
        let kept = some((0..1000).map(file).collect());
        assert!(kept.len() <= MAX_FILES && kept.last().is_some_and(|one| one.step == 999));
    }
}
