//! The course of training runs: what their metrics say against steps, as charts.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use tealight_core::lines::Lines;
use tealight_core::regular;

use super::Training;
use super::view::{Chart, Kind, Line};

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
/// Most bytes of a step's metrics, most values of a metric that are kept, and most numbers of tries.
const MAX_ROW: usize = 1 << 20;
const MAX_VALUES: usize = 1 << 20;
const MAX_METRICS: usize = 64;

/// The metrics of a run: step and value, by metric.
#[derive(Default)]
pub(super) struct Metrics(BTreeMap<String, Vec<(f64, f64)>>);

impl Metrics {
    /// The training of a study's run.
    pub(super) fn from_training(run: &Training) -> Self {
        let mut metrics = Self::default();
        for point in &run.points {
            let values = [("reward", point.reward), ("entropy", point.entropy), ("kl", point.kl)];
            for (key, value) in values {
                metrics.push(key, point.step as f64, value);
            }
        }
        metrics
    }

    /// Those in the whole lines of a file of `folder`: the last line of a run that was killed may be cut off.
    pub(super) fn read(folder: &Path, path: &Path) -> Result<Self> {
        let at = || path.display().to_string();
        let file = regular::open_own(folder, path).with_context(at)?;
        let mut metrics = Self::default();
        for line in Lines::new(BufReader::new(file)) {
            let line = line.with_context(at)?;
            let is_blank = line.bytes.trim_ascii().is_empty();
            if line.is_whole && !is_blank && metrics.add(&line.bytes).is_none() {
                let shown = at();
                bail!("{shown}:{}: no metrics of a step: remove the line", line.number);
            }
        }
        Ok(metrics)
    }

    /// Those of `other` as well, where a metric is missing.
    pub(super) fn or(mut self, other: Self) -> Self {
        for (key, points) in other.0 {
            self.0.entry(key).or_insert(points);
        }
        self
    }

    fn push(&mut self, key: &str, step: f64, value: Option<f64>) {
        // Beyond it the axis of a chart has no end.
        if let Some(value) = value.filter(|value| value.abs() < 1e30) {
            if self.0.len() >= MAX_METRICS && !self.0.contains_key(key) {
                return;
            }
            let values = self.0.entry(key.to_owned()).or_default();
            if values.len() == MAX_VALUES {
                let mut is_kept = false;
                values.retain(|_| {
                    is_kept = !is_kept;
                    is_kept
                });
            }
            values.push((step, value));
        }
    }

    /// The last step of a metric, and its value there.
    pub(super) fn last(&self, metric: &str) -> Option<(f64, f64)> {
        self.0.get(metric)?.last().copied()
    }

    /// Where a metric was in the first and in the last fifth of the steps.
    pub(super) fn trend(&self, metric: &str) -> Option<String> {
        let values = self.0.get(metric).filter(|values| values.len() >= 10)?;
        let count = values.len() / 5;
        let mean = |part: &[(f64, f64)]| part.iter().map(|at| at.1).sum::<f64>() / count as f64;
        let (first, last) = (mean(&values[..count]), mean(&values[values.len() - count..]));
        Some(format!(
            "The mean {metric} was {first:.3} in the first {count} of them and {last:.3} in the last {count}, on training \
             prompts: an evaluation says whether the model is better."
        ))
    }

    /// Adds the values of a line, if it is that of a step.
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let line = Some(line).filter(|line| line.len() <= MAX_ROW)?;
        let row: Map<String, Value> = serde_json::from_slice(line).ok()?;
        let step = row.get("step")?.as_f64().filter(|step| step.abs() < 1e15)?;
        let keys = DRAWN.iter().map(|(key, ..)| (*key).to_owned());
        let ks = row.keys().filter(|key| tries(key).is_some()).take(MAX_KS).cloned();
        for key in keys.chain(ks).collect::<Vec<_>>() {
            self.push(&key, step, row.get(&key).and_then(Value::as_f64));
        }
        Some(())
    }
}

/// The k of `pass@k`.
fn tries(key: &str) -> Option<usize> {
    key.strip_prefix("pass@")?.parse().ok()
}

/// Every chart that the metrics allow; runs of one name are drawn as mean and range.
pub(super) fn charts(runs: &[(String, &Metrics)]) -> Vec<Chart> {
    let mut ks: Vec<usize> =
        runs.iter().flat_map(|(_, run)| run.0.keys().filter_map(|key| tries(key))).collect();
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

fn chart(runs: &[(String, &Metrics)], key: &str, title: &str, mut about: String) -> Option<Chart> {
    let points = |run: &Metrics| run.0.get(key).filter(|points| points.len() > 1).cloned();
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
        let metrics = Metrics::from_training(&run);
        let charts = charts(&[("grpo".to_owned(), &metrics)]);
        assert_eq!(charts.len(), 1, "what is not logged is not drawn");
        let line = &charts[0].lines[0];
        assert_eq!(line.points, [(5.0, 0.0), (10.0, 1.0), (15.0, 2.0), (20.0, 0.5)]);
        assert_eq!((line.name.as_str(), charts[0].kind), ("grpo", Kind::Runs));
    }

    #[test]
    fn long_runs_are_thinned_with_a_note() {
        let mut metrics = Metrics::default();
        (0..4000).for_each(|step| metrics.push("reward", f64::from(step), Some(0.5)));
        let charts = charts(&[("run".to_owned(), &metrics)]);
        assert!(charts[0].lines[0].points.len() <= MAX_POINTS);
        assert!(charts[0].caption.contains("One step in 3"), "{}", charts[0].caption);
    }

    #[test]
    fn endless_and_other_lines_are_refused_and_metric_names_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":1}\nhello\n").unwrap();
        let refused = Metrics::read(folder.path(), &path).err().unwrap().to_string();
        assert!(refused.contains("metrics.jsonl:2: no metrics"), "{refused}");
        std::fs::write(&path, "{\"step\":1,\"reward\":0.5}\n").unwrap();
        // A hundred gigabytes of nothing, on no disk.
        let file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.set_len(100 << 30).unwrap();
        let refused = format!("{:#}", Metrics::read(folder.path(), &path).err().unwrap());
        assert!(refused.contains("a line of more than"), "{refused}");
        let mut metrics = Metrics::default();
        (0..1000).for_each(|k| metrics.push(&format!("pass@{k}"), 1.0, Some(0.5)));
        assert_eq!(metrics.0.len(), MAX_METRICS);
        (0..3_000_000).for_each(|step| metrics.push("pass@1", f64::from(step), Some(0.5)));
        assert!(metrics.0["pass@1"].len() <= MAX_VALUES);
        assert_eq!(metrics.last("pass@1"), Some((2_999_999.0, 0.5)));
    }
}
