//! The log of a run: metrics of every step, and warnings.

use std::path::PathBuf;

use anyhow::Result;
use tealight_core::run_folder::METRICS;
use tealight_datasets::Verdict;

use super::held_out::HeldOut;
use super::setup::{OnStep, RunSetup};
use tealight_learn::rollout::Encoded;
use tealight_learn::train::rlvr::{Health, Metrics, RlvrConfig, Step};
use tealight_nn::generate::Finish;
use tealight_system::telemetry::completions::{self, Logged};
use tealight_system::telemetry::{JsonLines, MetricsTarget, Progress};

/// Where the metrics of a run go, and what they warn of.
pub(crate) struct Journal<'a> {
    lines: JsonLines,
    targets: Vec<Box<dyn MetricsTarget>>,
    progress: Progress,
    health: Health,
    output: PathBuf,
    log_completions: usize,
    has_unjudged: bool,
    on_step: Option<&'a OnStep<'a>>,
}

impl<'a> Journal<'a> {
    pub(crate) fn new(
        config: &RlvrConfig,
        setup: &RunSetup<'a>,
        step: usize,
        rounding: f64,
    ) -> Result<Self> {
        let settings = &config.settings;
        let lines = JsonLines::append(&setup.output.join(METRICS))?;
        let targets = settings.report_to.iter().map(|one| one.open(setup.output, step + 1));
        let targets: Vec<Option<_>> = targets.collect::<Result<_>>()?;
        Ok(Self {
            lines,
            targets: targets.into_iter().flatten().collect(),
            progress: match settings.max_steps.saturating_sub(step) {
                left if setup.on_step.is_some() => Progress::silent(setup.label, left),
                left => Progress::new(setup.label, left).after(step),
            },
            health: Health::new(rounding, settings.truncated),
            output: setup.output.to_owned(),
            log_completions: settings.log_completions,
            has_unjudged: false,
            on_step: setup.on_step,
        })
    }

    /// Logs a step, which may be the last.
    pub(crate) fn record(
        &mut self,
        step: &Step<'_>,
        problems: &[Encoded<'_>],
        is_last: bool,
    ) -> Result<()> {
        let metrics = step.metrics;
        self.lines.write(metrics)?;
        let row = serde_json::to_value(metrics)?;
        let fields = row.as_object().into_iter().flatten();
        let numbers = fields.filter_map(|(name, value)| {
            Some((format!("train/{name}"), value.as_f64().filter(|_| name != "step")?))
        });
        self.scalars(metrics.step, &numbers.collect::<Vec<_>>())?;
        if let Some(on_step) = self.on_step {
            on_step(&row)?;
        }
        let every = self.log_completions;
        if every > 0 && metrics.step.is_multiple_of(every) && !step.groups.is_empty() {
            completions::write(&self.output, metrics.step, &logged(step, problems))?;
        }
        self.progress.advance(|| line(metrics));
        if !self.has_unjudged
            && let Some(warning) = unjudged(step, problems)
        {
            self.has_unjudged = true;
            self.progress.warn(&warning);
        }
        let warnings = self.health.check(metrics, is_last);
        warnings.iter().for_each(|warning| self.progress.warn(warning));
        Ok(())
    }
}

impl Journal<'_> {
    fn scalars(&mut self, step: usize, values: &[(String, f64)]) -> Result<()> {
        self.targets.iter_mut().try_for_each(|target| target.scalars(step, values))
    }

    /// Logs an evaluation on the way.
    pub(crate) fn held_out(&mut self, point: &HeldOut) -> Result<()> {
        let mut numbers: Vec<(String, f64)> =
            point.pass_at_k.iter().map(|(k, value)| (format!("eval/pass@{k}"), *value)).collect();
        numbers.push(("eval/distinct".into(), point.distinct));
        self.scalars(point.step, &numbers)?;
        let scores: Vec<String> =
            numbers.iter().map(|(name, value)| format!("{} {value:.3}", &name[5..])).collect();
        self.progress.note(format!("held out, step {}: {}", point.step, scores.join(", ")));
        Ok(())
    }
}

/// A step's line in a progress bar.
fn line(metrics: &Metrics) -> String {
    let (Some(reward), Some(entropy)) = (metrics.reward, metrics.entropy) else {
        return format!("loss {:.3}", metrics.loss);
    };
    let kl = metrics.kl.map_or(String::new(), |kl| format!(" kl {kl:.2}"));
    format!("reward {reward:.3} entropy {entropy:.2}{kl}")
}

/// The first completion of a step that no verdict was given on, for a warning.
fn unjudged(step: &Step<'_>, problems: &[Encoded<'_>]) -> Option<String> {
    let mut all = step.groups.iter().flat_map(|group| {
        group.rollouts.iter().map(|rollout| (&problems[group.problem].problem.id, &rollout.verdict))
    });
    all.find_map(|(id, verdict)| match verdict {
        Verdict::Unjudged { why, .. } => Some(format!(
            "step {}, problem `{id}`: a completion could not be judged and gets reward 0: {why}",
            step.metrics.step
        )),
        _ => None,
    })
}

/// The completions of a step as they are logged.
fn logged(step: &Step<'_>, problems: &[Encoded<'_>]) -> Vec<Logged> {
    let mut advantage = step.advantage.iter();
    let mut rows = Vec::new();
    for group in step.groups {
        let problem = problems[group.problem].problem;
        for rollout in &group.rollouts {
            rows.push(Logged {
                problem: problem.id.clone(),
                prompt: problem.prompt.plain(),
                gold: problem.answer.clone(),
                completion: rollout.text.clone(),
                reward: rollout.reward(),
                advantage: advantage.next().copied().unwrap_or(0.0),
                verdict: rollout.verdict.name().to_owned(),
                is_finished: rollout.completion.finish == Finish::Stop,
                tokens: rollout.completion.tokens.len(),
            });
        }
    }
    rows
}
