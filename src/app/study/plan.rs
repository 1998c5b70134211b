//! `study --plan`: what a study would run, how long, and the least difference that it could find. Nothing is kept.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tealight_core::run_folder::METRICS;
use tealight_datasets::Dataset;
use tealight_eval::curve::{Power, Variances, plan};
use tealight_eval::evaluate::EvalJob;
use tealight_eval::number::counted;

use super::configuration::Configuration;
use super::listed_set::ListedSet;
use super::sets::StudySet;
use super::tuning::{self, TuningSet};
use super::{Prepared, StudyOptions, distinct};
use crate::app::directory::{self, Existing};
use crate::app::evaluate::progress::EvalBar;
use crate::app::session::{SamplingRequest, Session};
use crate::app::training::setup::RunSetup;
use tealight_system::process::Process;
use tealight_system::telemetry::ReportTo;

/// Problems whose samples the time is measured by.
const PROBLEMS: usize = 32;
/// Training steps that the time is measured by; the first does not count.
const STEPS: usize = 3;
/// A training step's time where sampling alone is known: sampling, then as much again for gradients.
const STEP_TO_SAMPLING: f64 = 2.0;
/// Task of the study that [`VARIANCES`] are of.
const VARIANCES_OF: &str = "colouring";
/// Variances between objectives of distinct correct answers among 32 samples in a study of six divergences on
/// [`VARIANCES_OF`] (docs/log.md, 2026-11-26).
const VARIANCES: Variances = Variances { seed: 0.28, problem: 0.32, rest: 2.9 };

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
    options.model.template.set_date(None, &process.ranks)?;
    let study = Prepared::open(options, configurations, &process.ranks)?;
    let mut text = toml::to_string(&study.options)?;
    let prompts = counted(study.train.problems.len(), "prompt");
    text.push_str(&format!("\ntrained on {}: {prompts}\n", study.train.name));
    for set in &study.sets {
        let problems = counted(set.dataset.problems.len(), "problem");
        text.push_str(&format!("evaluated on {}: {problems}\n", set.dataset.name));
    }
    for one in &study.configurations {
        let budget = study.options.budget(one, study.seeds[0], Path::new(""))?;
        let steps = counted(budget.settings.max_steps, "step");
        let (seeds, what) = match tuning::tuned(&study.configurations).contains(&one) {
            true => (distinct(&study.options.tuning_seeds).len(), " for the choice of one"),
            false => (study.seeds.len(), ""),
        };
        let seeds = counted(seeds, "seed");
        text.push_str(&format!("{}: {seeds} of {steps}{what}\n", one.label()));
    }
    Ok(text)
}

/// Finds out what a study would do, and the least difference that it could find with assumed variances: a few samples
/// and training steps are timed, and thrown away.
pub fn planned(options: &StudyOptions, process: &Process) -> Result<Plan> {
    let (options, configurations) = options.checked()?;
    let study = Prepared::open(options, configurations, &process.ranks)?;
    let session = Session::new(&study.base, study.device.clone(), &process.stop)?;
    let rates = study.rates(&session)?;
    let parts = study.parts(&rates)?;
    let objectives = study.studied().len();
    let problems = study.test().dataset.problems.len();
    let has_curves = study.options.eval_steps > 0 && objectives > 1;
    let tests = objectives - 1;
    let test = &study.test().dataset.name;
    // Nobody knows those of another task before it was studied.
    let unknown = match test.split('/').next() {
        Some(VARIANCES_OF) => String::new(),
        _ => format!("; those of {test} are unknown, and so is its minimum detectable difference"),
    };
    let power = has_curves.then(|| plan(&VARIANCES, study.seeds.len(), problems, tests, 0.95));
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
            "{}, {} in all, {}, {}; with the variances of distinct answers of 32 samples in a study of {VARIANCES_OF}\
             {unknown}",
            counted(objectives, "objective"),
            counted(tests, "test"),
            counted(study.seeds.len(), "seed"),
            counted(problems, "problem")
        ),
    })
}

impl Prepared {
    /// One configuration of each objective: tuning chooses among those that cost as much.
    fn studied(&self) -> Vec<&Configuration> {
        let mut all: Vec<&Configuration> = Vec::new();
        for one in &self.configurations {
            if all.iter().all(|known| known.family != one.family) {
                all.push(one);
            }
        }
        all
    }

    /// Every part with its time.
    fn parts(&self, rates: &Rates) -> Result<Vec<Part>> {
        let (options, seeds) = (&self.options, self.seeds.len());
        let (tried, tuning_seeds) =
            (tuning::tuned(&self.configurations), distinct(&options.tuning_seeds).len());
        let prompts = self.train.problems.len();
        let sampled = |name: &str, count: usize, completions: usize| Part {
            name: name.to_owned(),
            count,
            completions: completions as f64,
            seconds: completions as f64 * rates.tokens_a_completion / rates.tokens_a_second,
        };
        let (mut parts, mut presamples) = (Vec::new(), 0);
        let mut points = [0, 0];
        let studied = self.studied();
        let tuning = tried.iter().map(|one| (0, *one, tuning_seeds));
        for (place, one, seeds) in tuning.chain(studied.iter().map(|one| (1, *one, seeds))) {
            let config = options.budget(one, self.seeds[0], Path::new(""))?;
            let plan = config.plan()?;
            if plan.needs_presamples() {
                let each = config.settings.num_presamples + usize::from(plan.wants_extra_check());
                presamples = presamples.max(each * prompts);
            }
            let settings = &config.settings;
            let step = settings.prompts_per_step.min(prompts) * settings.num_generations;
            let steps = settings.max_steps;
            let reached =
                options.path_points(steps).map_or(0, |points| points.reached(steps).len());
            points[place] += reached * seeds;
            let name = if place == 0 { one.label() } else { one.family.clone() };
            parts.push(Part {
                name: format!("{} {name} ({})", ["tune", "train"][place], counted(steps, "step")),
                count: seeds,
                completions: (seeds * steps * step) as f64,
                seconds: (seeds * steps) as f64 * rates.seconds_a_step,
            });
        }
        if presamples > 0 && options.settings.presamples.is_none() {
            let times = seeds + if tried.is_empty() { 0 } else { tuning_seeds };
            parts.insert(0, sampled("sample the base for training", times, times * presamples));
        }
        let models = 1 + studied.len() * seeds;
        let greedy = usize::from(!options.sets.no_greedy);
        let of_sets = self.sets.iter().map(|set| set.dataset.problems.len() * (options.n + greedy));
        parts.push(sampled("evaluate ends", models, models * of_sets.sum::<usize>()));
        // Sequences of one evaluation of a set: listed answers are scored, of others samples are drawn.
        let cost = |set: &StudySet, listed: Option<&ListedSet>| {
            listed.map_or(set.dataset.problems.len() * options.n, ListedSet::sequences)
        };
        if let Some(TuningSet { set, listed }) = &self.tuning {
            let all = (points[0] + 1) * cost(set, listed.as_ref());
            parts.push(sampled("evaluate tuning", points[0], all));
        }
        if options.eval_steps > 0 {
            let test = cost(self.test(), self.listed.as_ref());
            // Answers are scored at the ends too; the ends' samples are there already.
            let of_test = match self.listed {
                Some(_) => points[1] + 1,
                None => points[1].saturating_sub(studied.len() * seeds),
            };
            parts.push(sampled("evaluate checkpoints", points[1], of_test * test));
            let has_reference = options.reference(&self.configurations).is_some();
            let averaged = if has_reference { seeds * options.average_share.len() } else { 0 };
            let baselines = averaged + options.base_temperature.len();
            parts.push(sampled("evaluate baselines", baselines, baselines * test));
        }
        Ok(parts)
    }

    /// How long sampling and a training step take here.
    fn rates(&self, session: &Session<'_>) -> Result<Rates> {
        let (tokens, completions, seconds) = self.sampling(session)?;
        let tokens_a_completion = tokens / completions;
        let tokens_a_second = tokens / seconds;
        let seconds_a_step = match self.training_step(session)? {
            Some(seconds) => seconds,
            None => {
                let settings = &self.options.settings;
                let prompts = settings.prompts_per_step.min(self.train.problems.len());
                let step = (prompts * settings.num_generations) as f64;
                STEP_TO_SAMPLING * step * tokens_a_completion / tokens_a_second
            }
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
        let full = &*self.test().dataset;
        let some = Dataset {
            problems: full.problems.iter().take(PROBLEMS).cloned().collect(),
            ..full.clone()
        };
        let params = self.options.sets.sampling(&self.options.settings, &self.base.tokenizer);
        let max_num_seqs = self.options.settings.max_num_seqs;
        let draw = SamplingRequest { n: self.options.n, params: &params, seed: 0, max_num_seqs };
        let solver = draw.solver(&session.base_decoder, &session.base.tokenizer);
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
            config.plan().is_ok_and(|plan| plan.is_on_policy() && !plan.needs_presamples())
        };
        let Some(configuration) = self.configurations.iter().find(needs_none) else {
            return Ok(None);
        };
        let mut config = self.options.config(configuration, 0);
        let settings = &mut config.settings;
        (settings.max_steps, settings.save_steps, settings.log_completions) = (STEPS, 0, 0);
        settings.report_to = vec![ReportTo::None];
        let folder = tempfile::tempdir()
            .context("no room for a training step in the temporary folder (TMPDIR)")?;
        let setup = RunSetup::plain("a training step", folder.path());
        session.fine_tune(&self.train, &config, &setup)?;
        session.stop.check()?;
        let times = tealight_datasets::read::table(&folder.path().join(METRICS))?;
        let step_time =
            |row: &serde_json::Map<String, serde_json::Value>| row.get("step_time")?.as_f64();
        let times: Vec<f64> = times.iter().filter_map(step_time).skip(1).collect();
        Ok((!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64))
    }
}
