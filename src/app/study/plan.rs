//! `study --plan`: what a study would run, how long, and the least difference that it could find. Nothing is kept.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tealight_core::json_file;
use tealight_datasets::Dataset;
use tealight_eval::curve::tasks::TaskCurves;
use tealight_eval::curve::{Comparison, Curves, Power, Variances, plan};
use tealight_eval::evaluate::EvalJob;
use tealight_eval::number::counted;
use tealight_eval::results::MAX_RESULTS;

use super::configuration::Configuration;
use super::{Prepared, StudyOptions, TestMeasure};
use crate::app::directory::{self, Existing};
use crate::app::evaluate::progress::EvalBar;
use crate::app::session::{SamplingRequest, Session};
use crate::app::training::setup::RunSetup;
use crate::learn::objective::ImportanceCorrection;
use crate::learn::train::rlvr::{wants_extra_check, wants_presamples};
use crate::system::process::Process;
use crate::system::telemetry::ReportTo;

/// Problems whose samples the time is measured by.
const PROBLEMS: usize = 32;
/// Training steps that the time is measured by; the first does not count.
const STEPS: usize = 3;
/// A training step's time where sampling alone is known: sampling, then as much again for gradients.
const STEP_TO_SAMPLING: f64 = 2.0;
/// Variances between objectives of Pass@32 in a study of Countdown (docs/log.md), where no other study is named.
const VARIANCES: Variances = Variances { seed: 6e-6, problem: 0.0355, rest: 0.0712 };
/// The same of distinct correct answers among 32 samples in a study of six divergences (docs/log.md, 2026-11-26).
const DISTINCT_VARIANCES: Variances = Variances { seed: 0.28, problem: 0.32, rest: 2.9 };

/// A study that has not run.
pub struct Plan {
    /// Its tasks, with a header: how often, sampled tokens, seconds.
    pub rows: Vec<Vec<String>>,
    /// The time of everything.
    pub seconds: f64,
    /// Where the time comes from.
    pub measured: String,
    /// The least difference between two curves that is found with probability .8; none with one seed or without curves.
    pub power: Option<Power>,
    /// Where the variances that it is computed from come from.
    pub assumed: String,
}

/// How fast this machine is.
struct Rates {
    tokens_a_second: f64,
    tokens_a_completion: f64,
    seconds_a_step: f64,
    measured: String,
}

/// One part of a study.
struct Part {
    name: String,
    /// How often it is done.
    count: usize,
    completions: f64,
    seconds: f64,
}

/// What a study would run, in words: the settings, the data and the runs. Nothing is sampled or written.
///
/// # Errors
/// As of a study: settings that do not go together, a model or data that cannot be read.
pub fn dry_run(options: &StudyOptions, process: &Process) -> Result<String> {
    let (mut options, configurations) = options.checked()?;
    if let Some(output) = &options.output {
        directory::check(output, Existing::Keep)?;
    }
    options.model.template = options.model.template.dated(None, &process.ranks)?;
    let study = Prepared::open(options, configurations, &process.ranks)?;
    let mut text = toml::to_string(&study.options)?;
    let prompts = counted(study.train.problems.len(), "prompt");
    text.push_str(&format!("\ntrained on {}: {prompts}\n", study.train.name));
    for set in &study.sets {
        let problems = counted(set.dataset.problems.len(), "problem");
        text.push_str(&format!("evaluated on {}: {problems}\n", set.dataset.name));
    }
    for one in &study.configurations {
        let budget =
            study.options.budget(one, study.seeds[0], study.train.problems.len(), Path::new(""))?;
        let steps = counted(budget.settings.max_steps, "step");
        let seeds = counted(study.seeds.len(), "seed");
        text.push_str(&format!("{}: {seeds} of {steps}\n", one.label()));
    }
    Ok(text)
}

/// Finds out what a study would do, and the least difference that it could find with the variances of `earlier`, a
/// study's folder or its results.json: a few samples and training steps are timed, and thrown away.
pub fn planned(options: &StudyOptions, earlier: Option<&Path>, process: &Process) -> Result<Plan> {
    planned_among(options, earlier, process, 1)
}

/// The plan of a study of one task among so many: p-values are adjusted for the tests of all of them.
pub(super) fn planned_among(
    options: &StudyOptions,
    earlier: Option<&Path>,
    process: &Process,
    tasks: usize,
) -> Result<Plan> {
    let (options, configurations) = options.checked()?;
    let study = Prepared::open(options, configurations, &process.ranks)?;
    let session = Session::new(&study.base, study.device.clone(), &process.stop)?;
    let rates = study.rates(&session)?;
    let parts = study.parts(&rates)?;
    let task = study.options.data.dataset.split('/').next().unwrap_or_default();
    let (variances, assumed) = variances(earlier, task, study.options.test_measure)?;
    let objectives = study.objectives();
    let problems = study.report_problems();
    let has_curves = study.held_out.is_some() && objectives > 1;
    let tests = (objectives - 1) * tasks;
    let power = has_curves.then(|| plan(&variances, study.seeds.len(), problems, tests, 0.95));
    let mut rows = vec![["part", "times", "completions", "seconds"].map(str::to_owned).to_vec()];
    rows.extend(parts.iter().map(|part| {
        vec![
            part.name.clone(),
            part.count.to_string(),
            format!("{:.0}", part.completions),
            format!("{:.0}", part.seconds),
        ]
    }));
    Ok(Plan {
        rows,
        seconds: parts.iter().map(|part| part.seconds).sum(),
        measured: rates.measured,
        power: power.flatten(),
        assumed: format!(
            "{}, {} in all, {}, {}; {assumed}",
            counted(objectives, "objective"),
            counted(tests, "test"),
            counted(study.seeds.len(), "seed"),
            counted(problems, "problem")
        ),
    })
}

impl Prepared {
    /// Objectives that are trained.
    fn objectives(&self) -> usize {
        let mut families: Vec<&str> =
            self.configurations.iter().map(|one| one.family.as_str()).collect();
        families.dedup();
        families.len()
    }

    /// Problems of the set that curves report.
    fn report_problems(&self) -> usize {
        let test = self.sets.iter().find(|set| set.domain != "train");
        test.map_or(0, |set| set.dataset.problems.len())
    }

    /// Every part with its time.
    fn parts(&self, rates: &Rates) -> Result<Vec<Part>> {
        let (options, seeds) = (&self.options, self.seeds.len());
        let prompts = self.train.problems.len();
        let sampled = |name: &str, count: usize, completions: usize| Part {
            name: name.to_owned(),
            count,
            completions: completions as f64,
            seconds: completions as f64 * rates.tokens_a_completion / rates.tokens_a_second,
        };
        let mut parts = Vec::new();
        let (mut presamples, mut points) = (0, 0);
        for configuration in &self.configurations {
            let config = options.budget(configuration, self.seeds[0], prompts, Path::new(""))?;
            let plan = config.plan()?;
            if wants_presamples(&config, &plan) {
                let each = config.settings.num_presamples + usize::from(wants_extra_check(&plan));
                presamples = presamples.max(each * prompts);
            }
            let settings = &config.settings;
            let step = settings.prompts_per_step.min(prompts) * settings.num_generations;
            let steps = settings.max_steps;
            points += options.path_points(&config).map_or(0, |points| points.reached(steps).len());
            parts.push(Part {
                name: format!("train {} ({steps} steps)", configuration.label()),
                count: seeds,
                completions: (seeds * steps * step) as f64,
                seconds: (seeds * steps) as f64 * rates.seconds_a_step,
            });
        }
        if presamples > 0 && options.settings.presamples.is_none() {
            parts.insert(0, sampled("sample the base for training", seeds, seeds * presamples));
        }
        let runs = self.configurations.len() * seeds;
        let models = 1 + runs * (1 + options.variants.len());
        let greedy = usize::from(!options.sets.no_greedy);
        let of_sets = self.sets.iter().map(|set| set.dataset.problems.len() * (options.n + greedy));
        parts.push(sampled("evaluate ends", models, models * of_sets.sum::<usize>()));
        let problems: usize = self.sets.iter().map(|set| set.dataset.problems.len()).sum();
        parts.push(sampled("draw the base again", 1, problems * options.n));
        if let Some(held_out) = &self.held_out {
            let valid_n = options.held_out.eval_num_samples.max(options.largest());
            let valid = held_out.dataset().problems.len() * valid_n;
            // Answers are scored at the ends too; the ends' samples are there already.
            let (test, of_test) = match &self.listed {
                Some(listed) => (listed.sequences(), points * seeds + 1),
                None => (self.report_problems() * options.n, (points * seeds).saturating_sub(runs)),
            };
            let colder = options.temperatures.len() * (points * seeds + 1);
            let all = (points * seeds + 1) * valid + (of_test + colder) * test;
            parts.push(sampled("evaluate checkpoints", points * seeds, all));
            let reference = options.reference(&self.configurations);
            let is_averaged = |one: &&Configuration| reference.as_ref() == Some(&one.family);
            let averaged = self.configurations.iter().filter(is_averaged).count() * seeds;
            let baselines = averaged * options.average_share.len() + options.base_temperature.len();
            parts.push(sampled("evaluate baselines", baselines, baselines * test));
        }
        if let Some(ledger) = &self.ledger {
            let scored = 1 + seeds * points.max(self.configurations.len());
            parts.push(sampled("score the ledger", scored, scored * ledger.sequences()));
        }
        Ok(parts)
    }

    /// How long sampling and a training step take here, or what follows from a stated rate.
    fn rates(&self, session: &Session<'_>) -> Result<Rates> {
        let (tokens, completions, seconds) = self.sampling(session)?;
        let tokens_a_completion = tokens / completions;
        let settings = &self.options.settings;
        let prompts = settings.prompts_per_step.min(self.train.problems.len());
        let step = (prompts * settings.num_generations) as f64;
        if let Some(rate) = self.options.plan_rate {
            let seconds_a_step = STEP_TO_SAMPLING * step * tokens_a_completion / rate;
            return Ok(Rates {
                tokens_a_second: rate,
                tokens_a_completion,
                seconds_a_step,
                measured: format!(
                    "by {rate} tokens sampled a second, as stated; a training step counts as twice its sampling"
                ),
            });
        }
        let tokens_a_second = tokens / seconds;
        let seconds_a_step = match self.training_step(session)? {
            Some(seconds) => seconds,
            None => STEP_TO_SAMPLING * step * tokens_a_completion / tokens_a_second,
        };
        Ok(Rates {
            tokens_a_second,
            tokens_a_completion,
            seconds_a_step,
            measured: format!(
                "measured now, beside whatever else this machine does: {tokens_a_second:.0} tokens sampled a second, \
                 {tokens_a_completion:.1} tokens a completion, {seconds_a_step:.2} s a training step"
            ),
        })
    }

    /// Tokens and completions of a short evaluation of the base, and its seconds.
    fn sampling(&self, session: &Session<'_>) -> Result<(f64, f64, f64)> {
        let Some(set) = self.sets.iter().find(|set| set.domain != "train") else {
            bail!("a study needs a held-out set");
        };
        let full = &*set.dataset;
        let some = Dataset {
            problems: full.problems.iter().take(PROBLEMS).cloned().collect(),
            ..full.clone()
        };
        let params = self.options.sets.sampling(&self.options.settings, &self.base.tokenizer);
        let max_num_seqs = self.options.settings.max_num_seqs;
        let draw = SamplingRequest { n: self.options.n, params: &params, seed: 0, max_num_seqs };
        let solver = session.solver(&session.reference, &draw);
        let job = EvalJob {
            progress: Box::new(EvalBar::silent("plan".into(), session.stop)),
            ..EvalJob::new(&some, draw.n, &solver)
        };
        let started = Instant::now();
        let tallies = job.run()?;
        let seconds = started.elapsed().as_secs_f64();
        let tokens: usize = tallies.iter().map(|tally| tally.tokens).sum();
        let completions: usize = tallies.iter().map(|tally| tally.samples).sum();
        if completions == 0 || tokens == 0 {
            bail!("no completion of {} could be judged: the time cannot be measured", some.name);
        }
        Ok((tokens as f64, completions as f64, seconds))
    }

    /// Seconds of a training step of the first configuration that needs no samples of the base.
    fn training_step(&self, session: &Session<'_>) -> Result<Option<f64>> {
        let needs_none = |one: &&Configuration| {
            let config = self.options.config(one, 0);
            config.plan().is_ok_and(|plan| plan.is_on_policy() && !wants_presamples(&config, &plan))
        };
        let Some(configuration) = self.configurations.iter().find(needs_none) else {
            return Ok(None);
        };
        let mut config = self.options.config(configuration, 0);
        let settings = &mut config.settings;
        (settings.max_steps, settings.save_steps, settings.log_completions) = (STEPS, 0, 0);
        settings.report_to = vec![ReportTo::None];
        let folder = tempfile::tempdir().context("no room for a training step")?;
        let setup = RunSetup {
            label: "a training step",
            output: folder.path(),
            resume: None,
            begin: &|| Ok(()),
            on_step: None,
            held_out: None,
            path: None,
            engine: None,
            device_link: None,
            correction: ImportanceCorrection::default(),
        };
        session.fine_tune(&self.train, &config, &setup)?;
        session.stop.check()?;
        let times = tealight_datasets::read::table(&folder.path().join("metrics.jsonl"))?;
        let step_time =
            |row: &serde_json::Map<String, serde_json::Value>| row.get("step_time")?.as_f64();
        let times: Vec<f64> = times.iter().filter_map(step_time).skip(1).collect();
        Ok((!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64))
    }
}

/// Variances of differences between curves of `measure`, and where they come from: of an earlier study on several tasks
/// those of `task`.
fn variances(
    earlier: Option<&Path>,
    task: &str,
    measure: TestMeasure,
) -> Result<(Variances, String)> {
    /// A study of one task, or of several.
    #[derive(Deserialize)]
    struct Earlier {
        #[serde(default)]
        curves: Vec<Curves>,
        #[serde(default)]
        tasks: Vec<TaskCurves>,
    }
    let Some(path) = earlier else {
        let (variances, source) = match measure {
            TestMeasure::PassAtK => (VARIANCES, "pass@32 in a study of Countdown"),
            TestMeasure::Distinct => {
                (DISTINCT_VARIANCES, "distinct answers of 32 samples in a study of six divergences")
            }
        };
        let assumed = "are assumed (--plan-from STUDY takes those of another)";
        return Ok((variances, format!("the variances of {source} {assumed}")));
    };
    let file = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let at = || file.display().to_string();
    let earlier: Earlier = json_file::read(&file, MAX_RESULTS)
        .with_context(|| format!("{}: not the results of a study", at()))?;
    let is_tested = |one: &&Comparison| one.p_value.is_some() && one.seeds > 1;
    let of_task = earlier.tasks.iter().find(|one| one.task == task);
    let first = earlier.curves.first().or(of_task.and_then(|one| one.curves.as_ref()));
    if let Some(other) = first.filter(|curves| !measure.is(curves.measure)) {
        bail!(
            "{}: the tested measure there is {}; name it with --test-measure",
            at(),
            other.measure
        );
    }
    let all = first.iter().flat_map(|curves| &curves.comparisons).filter(is_tested);
    let variances: Vec<Variances> = all.filter_map(|one| one.variances).collect();
    if variances.is_empty() {
        bail!("{}: no objective is tested there on {task} over several seeds", at());
    }
    let mean = |component: fn(&Variances) -> f64| {
        variances.iter().map(component).sum::<f64>() / variances.len() as f64
    };
    let variances =
        Variances { seed: mean(|v| v.seed), problem: mean(|v| v.problem), rest: mean(|v| v.rest) };
    Ok((variances, format!("mean variances of {}", at())))
}
