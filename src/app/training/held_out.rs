//! Evaluations during training: curves of held-out Pass@k, and the best model by one of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tealight_datasets::Dataset;
use tealight_eval::evaluate::EvalJob;
use tealight_eval::report::grid;
use tealight_eval::rules::Rules;
use tealight_eval::{Summary, Truncated};

use crate::app::evaluate::progress::EvalBar;
use crate::app::session::{SamplingRequest, Session};
use crate::app::settings::DataOptions;
use tealight_nn::model::Decoder;
use tealight_system::files::{MAX_SMALL, read_limited, read_text, write_atomic};
use tealight_system::range::{COUNT, LIMIT, LIMIT_OR_ZERO};
use tealight_system::telemetry::JsonLines;

/// The file of a run that evaluations during training go to.
const FILE: &str = "evals.jsonl";
/// What says how good the best model is.
const BEST_FILE: &str = "best.json";

/// An evaluation during training.
#[derive(Debug, Clone)]
pub(crate) struct HeldOut {
    /// Steps done.
    pub(crate) step: usize,
    /// Pass@k on the held-out problems, by k.
    pub(crate) pass_at_k: Vec<(usize, f64)>,
    /// Distinct correct answers among all samples of a problem.
    pub(crate) distinct: f64,
}

impl HeldOut {
    /// The evaluation after `step` steps, with `n` samples of each problem.
    fn new(step: usize, summary: &Summary, n: usize) -> Self {
        Self {
            step,
            pass_at_k: summary.pass_at_k.iter().map(|(k, e)| (*k, e.value)).collect(),
            distinct: summary.unique_correct[&n].value,
        }
    }
}

/// How a run is evaluated while it goes.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct HeldOutOptions {
    /// Steps between evaluations on --eval-dataset, which also happen at the start and at the end; 0 disables them.
    #[arg(long, default_value_t = 0, add = LIMIT_OR_ZERO, help_heading = "Evaluation")]
    pub eval_steps: usize,
    /// Held-out problems for --eval-steps. The best model is chosen on these problems, so they must be neither
    /// training problems nor test problems that you report.
    #[arg(long, help_heading = "Evaluation")]
    pub eval_dataset: Option<String>,
    /// Number of problems of --eval-dataset to use, from the start.
    #[arg(long, default_value_t = 64, add = LIMIT, help_heading = "Evaluation")]
    pub eval_max_samples: usize,
    /// Number of samples of each problem in the evaluations of --eval-steps.
    #[arg(long, default_value_t = 16, add = COUNT, help_heading = "Evaluation")]
    pub eval_num_samples: usize,
    /// Measure that chooses the best model: pass@K, for a K up to --eval-num-samples, or distinct.
    #[arg(long, default_value = "pass@1", help_heading = "Evaluation")]
    pub metric_for_best_model: String,
}

/// The held-out problems of a run and how they are asked.
pub(crate) struct HeldOutSet {
    dataset: Arc<Dataset>,
    options: HeldOutOptions,
    metric: Metric,
    /// What truncated completions count as.
    truncated: Truncated,
}

#[derive(Clone, Copy)]
enum Metric {
    PassAt(usize),
    Distinct,
}

/// The step and value of the best model so far.
#[derive(Serialize, Deserialize)]
pub(crate) struct Best {
    step: usize,
    metric: String,
    value: f64,
}

impl HeldOutOptions {
    /// The set, where evaluations are asked for.
    pub(crate) fn open(
        &self,
        data: &DataOptions,
        truncated: Truncated,
    ) -> Result<Option<HeldOutSet>> {
        let (every, spec) = (self.eval_steps, &self.eval_dataset);
        let Some(spec) = spec.as_ref().filter(|_| every > 0) else {
            if every > 0 {
                bail!("--eval-steps needs --eval-dataset: problems that are held out");
            }
            if self.eval_dataset.is_some() {
                bail!("--eval-dataset needs --eval-steps: how often it is evaluated");
            }
            return Ok(None);
        };
        let limited = DataOptions { max_samples: Some(self.eval_max_samples), ..data.clone() };
        let dataset = Arc::new(limited.open(spec)?);
        let metric = self.metric()?;
        let options = self.clone();
        Ok(Some(HeldOutSet { dataset, options, metric, truncated }))
    }

    fn metric(&self) -> Result<Metric> {
        let (name, most) = (self.metric_for_best_model.as_str(), self.eval_num_samples);
        let k = name.strip_prefix("pass@").and_then(|k| k.parse().ok());
        match (name, k) {
            ("distinct", _) => Ok(Metric::Distinct),
            (_, Some(k)) if (1..=most).contains(&k) => Ok(Metric::PassAt(k)),
            _ => bail!(
                "--metric-for-best-model `{name}`: choose pass@K with a K from 1 to {most} (--eval-num-samples), or \
                 distinct"
            ),
        }
    }
}

impl HeldOutSet {
    /// The problems.
    pub(crate) fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The same to be changed, before anything else holds it.
    pub(crate) fn dataset_mut(&mut self) -> Option<&mut Dataset> {
        Arc::get_mut(&mut self.dataset)
    }

    /// Whether step `step` is evaluated, the last of a run or not.
    pub(crate) fn is_due(&self, step: usize, is_last: bool) -> bool {
        step.is_multiple_of(self.options.eval_steps) || is_last
    }

    /// Evaluates a model and writes a line; returns what was found, and what is to be recorded of it where it is the
    /// best so far.
    pub(crate) fn check(
        &self,
        session: &Session<'_>,
        decoder: &Decoder,
        draw: &SamplingRequest<'_>,
        (step, output): (usize, &Path),
    ) -> Result<(HeldOut, Option<Best>)> {
        let n = self.options.eval_num_samples;
        let draw = SamplingRequest { n, ..*draw };
        let label = format!("step {step} on {}", self.dataset.name);
        let (ranks, solver) = (&session.ranks, draw.solver(decoder, &session.base.tokenizer));
        let job = EvalJob {
            ranks,
            rules: Rules { truncated: self.truncated, ..Rules::default() },
            progress: Box::new(EvalBar::silent(label, session.stop)),
            ..EvalJob::new(&self.dataset, n, &solver)
        };
        let tallies = job.run()?;
        let ks = match self.metric {
            Metric::PassAt(k) => grid(&[k, n], n),
            Metric::Distinct => grid(&[n], n),
        };
        let summary = Summary::new(&tallies, &ks)?;
        let point = HeldOut::new(step, &summary, n);
        let mut row =
            Map::from_iter([("step".to_owned(), json!(step)), ("n".to_owned(), json!(n))]);
        for (k, value) in &point.pass_at_k {
            row.insert(format!("pass@{k}"), json!(value));
        }
        row.insert("distinct".into(), json!(point.distinct));
        let value = match self.metric {
            Metric::PassAt(k) => summary.pass_at_k[&k].value,
            Metric::Distinct => point.distinct,
        };
        let best = ranks.first(|| {
            JsonLines::append(&output.join(FILE))?.write(&Value::Object(row))?;
            let known = read_limited(&output.join(BEST_FILE), MAX_SMALL).ok();
            let known: Option<Best> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let metric = self.options.metric_for_best_model.clone();
            let is_best = known.is_none_or(|best| best.metric != metric || value > best.value);
            Ok(is_best.then_some(Best { step, metric, value }))
        })?;
        Ok((point, best))
    }

    /// Leaves of an earlier part of a run what it goes on from: the lines up to `step`.
    pub(crate) fn go_back(output: &Path, step: Option<usize>) -> Result<()> {
        let path = output.join(FILE);
        if !path.exists() {
            return Ok(());
        }
        let text = read_text(&path, MAX_SMALL)?;
        // What a full disk, say, cut off is from after the checkpoint.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut kept = String::new();
        for (number, line) in whole.split_inclusive('\n').enumerate() {
            let row: Value = serde_json::from_str(line).unwrap_or_default();
            let at = row["step"]
                .as_u64()
                .with_context(|| format!("{}:{}: not an evaluation", path.display(), number + 1))?;
            if step.is_some_and(|step| at as usize <= step) {
                kept.push_str(line);
            }
        }
        write_atomic(&path, kept.as_bytes())
    }
}

impl Best {
    /// Records it, once the model itself is there: a run that dies between saves the model again.
    pub(crate) fn record(&self, output: &Path) -> Result<()> {
        write_atomic(&output.join(BEST_FILE), serde_json::to_string_pretty(self)?.as_bytes())
    }
}
