//! `tealight study`: the whole question in one command. Evaluate the base, fine-tune it under each
//! objective from the same seeds on the same prompts with the same number of sampled completions,
//! evaluate each result, and report what became of accuracy and diversity.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{ArgMatches, Args};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_datasets::Dataset;
use tealight_eval::compare::kept;
use tealight_eval::report::{Evaluated, Study, Training, TrainingPoint, Tuned, grid, html};
use tealight_eval::{Summary, Tally};

use super::fine_tune::Place;
use super::layers;
use super::options::{self, DataOptions, ModelOptions};
use super::place;
use super::probes;
use super::session::{Draw, Session};
use super::table;
use crate::adapter;
use crate::files::{Claim, write_atomic};
use crate::generate::Filters;
use crate::hub;
use crate::model::Decoder;
use crate::objective::Objective;
use crate::telemetry::{print, say};
use crate::train::rlvr::{RlvrConfig, Settings, wants_extra_check, wants_presamples};
use crate::train::{Stop, checkpoint};

/// What the default study is run with: the embedded model on Countdown in a few minutes on two
/// cores. Any flag or `--config` overrides these; see `recipes/countdown-study.toml`.
const DEFAULTS: &str = include_str!("../../recipes/countdown-study.toml");

/// Options of `tealight study`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct StudyOptions {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataOptions,
    /// A generated task, NAME/train and NAME/test: countdown, chain, walk or sql. Those but countdown need a
    /// base of their own (recipes/walk-base.toml).
    #[arg(long, conflicts_with_all = ["dataset", "test_dataset"])]
    task: Option<String>,
    /// Held-out problems, evaluated but never trained on.
    #[arg(long, default_value = "countdown/test")]
    test_dataset: String,
    /// The objectives to compare; each may carry settings (see `tealight train --help`).
    #[arg(long, value_delimiter = ',', default_value = "grpo,kl-full,dph-f,dph-js")]
    objectives: Vec<Objective>,
    /// What a bare name among --objectives stands for, such as dph-f:0.3.
    #[arg(long, value_delimiter = ',')]
    tuned: Vec<Objective>,
    /// One run of each objective for each seed.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    seeds: Vec<u64>,
    /// Samples a problem in evaluations.
    #[arg(short, default_value_t = 64)]
    n: usize,
    /// Report Pass@k at these k, none above -n; unless given, those of 1, 4, 16 and 64 that are not.
    #[arg(short, value_delimiter = ',')]
    #[serde(default)]
    k: Vec<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    settings: Settings,
    /// Where everything goes; without it `study`, or `study-2` and so on where that is taken.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Go on with the study in --output (`study` unless named) where it was stopped or killed.
    #[arg(long)]
    #[serde(skip)]
    resume: bool,
    /// Begin anew where --output holds a study: what Tealight wrote there is removed.
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    overwrite: bool,
    /// Show nothing but the results, warnings and errors.
    #[arg(long)]
    quiet: bool,
}

/// The options of this command. With the embedded model, [`DEFAULTS`] lie below files and flags.
pub(super) fn resolve(matches: &ArgMatches) -> Result<StudyOptions> {
    let mut options: StudyOptions = layers::resolve(matches, None)?;
    if options.model.model == hub::EMBEDDED || options.task.is_some() {
        options = layers::resolve(matches, Some(("recipes/countdown-study.toml", DEFAULTS)))?;
    }
    if let Some(task) = &options.task {
        if options.model.model == hub::EMBEDDED && task != "countdown" {
            bail!(
                "the embedded model knows countdown alone: make a base of {task} (tealight sft --config \
                 recipes/{task}-base.toml --output {task}-base) and name it, --model {task}-base/final"
            );
        }
        (options.data.dataset, options.test_dataset) =
            (format!("{task}/train"), format!("{task}/test"));
    }
    options.resume = matches.get_flag("resume");
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}

pub(super) fn run(options: &StudyOptions, stop: &Stop) -> Result<()> {
    let started = Instant::now();
    let mut options = options.clone();
    options.k = options::estimable(&options.k, &[1, 4, 16, 64], options.n, options.quiet)?;
    options.settings.check()?;
    if options.objectives.is_empty() || options.seeds.is_empty() {
        bail!("a study needs at least one objective and one seed");
    }
    let objectives = options.resolved_objectives()?;
    let output = match &options.output {
        Some(output) => output.clone(),
        None if options.resume => PathBuf::from("study"),
        None => place::next_free(Path::new("study")),
    };
    let _claim = match options.resume {
        true => Claim::take(&output)?,
        false => place::fresh(&output, options.overwrite)?,
    };
    let quiet = options.quiet;
    let train = options.data.open(&options.data.dataset, quiet)?;
    let test = options.data.open(&options.test_dataset, quiet)?;
    refuse_overlap(&train, &test)?;
    let (base, device) = options.model.load_to_train(quiet)?;
    let problems = train.problems.iter().chain(&test.problems);
    let asked = options.settings.max_completion_length;
    options.settings.max_completion_length =
        Some(options::completion_length(asked, problems, &base, quiet)?);
    let options = &options;
    if options.resume {
        place::refuse_other_settings(options, &output)?;
    }
    place::clear(&output, options.overwrite)?;
    stop.saves();
    options::record_config(options, &output, quiet)?;
    let session = Session::new(&base, device, stop, quiet)?;

    let params = options.settings.sampling(&base.tokenizer);
    let evaluate = |decoder: &Decoder, who: &str, folder: &Path| -> Result<[Vec<Tally>; 2]> {
        crate::files::writable_directory(folder)?;
        let seed = options.seeds[0];
        let draw = Draw {
            n: options.n,
            params: &params,
            seed,
            max_num_seqs: options.settings.max_num_seqs,
        };
        let one = |set: &Dataset, which: &str| {
            let label = format!("{who} on {which}");
            let samples = folder.join(format!("samples-{which}.jsonl"));
            let mut tallies = session.evaluate_the_rest(decoder, set, &draw, &label, &samples)?;
            if params.filters == Filters::default() {
                let temperature = params.temperature;
                probes::enumerated(&session, decoder, set, temperature, &mut tallies)?;
            }
            Ok::<_, anyhow::Error>(tallies)
        };
        Ok([one(&train, "train")?, one(&test, "test")?])
    };
    let grid = grid(&options.k, options.n);
    let summary = |tallies: &[Tally]| Summary::new(tallies, &grid);

    let base_tallies = evaluate(&session.reference, "base", &output.join("base"))?;
    let mut datasets = Vec::new();
    for (set, tallies) in [&train, &test].into_iter().zip(&base_tallies) {
        datasets.push(Evaluated {
            name: set.name.clone(),
            base: summary(tallies)?,
            base_correct: tallies.iter().map(|tally| tally.correct).collect(),
            tuned: Vec::new(),
        });
    }
    let (mut training, mut drawn) = (Vec::new(), HashSet::new());
    for (seed, objective) in
        options.seeds.iter().flat_map(|s| objectives.iter().map(move |o| (s, o)))
    {
        let presamples = output.join(format!("presamples-seed{seed}"));
        let config = options.budget(objective, *seed, train.problems.len(), &presamples)?;
        let is_ours = config.settings.presamples.as_ref() == Some(&presamples);
        if is_ours && drawn.insert(*seed) {
            let wants = |other: &Objective| {
                options.config(other, *seed).plan().is_ok_and(|plan| wants_extra_check(&plan))
            };
            session.presample(&train, &config, objectives.iter().any(wants), &presamples)?;
        }
        let name = format!("{}-seed{seed}", objective.slug());
        let folder = output.join(&name);
        crate::files::writable_directory(&folder)?;
        let tuned = options.tuned_model(&session, &train, &config, &folder)?;
        let tallies = evaluate(&tuned, &objective.to_string(), &folder)?;
        for ((evaluated, tallies), base) in datasets.iter_mut().zip(&tallies).zip(&base_tallies) {
            evaluated.tuned.push(Tuned {
                objective: objective.to_string(),
                seed: *seed,
                summary: summary(tallies)?,
                correct: tallies.iter().map(|tally| tally.correct).collect(),
                kept: kept(base, tallies),
            });
        }
        training.push(history(objective, *seed, &folder)?);
    }
    let study = Study {
        model: base.name.clone(),
        n: options.n,
        ks: options.k.clone(),
        grid: grid.clone(),
        temperature: options.settings.temperature,
        prompts_per_step: options.settings.prompts_per_step,
        num_generations: options.settings.num_generations,
        learning_rate: options.settings.schedule.learning_rate,
        datasets,
        training,
        seconds: started.elapsed().as_secs_f64(),
    };
    write_atomic(&output.join("results.json"), serde_json::to_string_pretty(&study)?.as_bytes())?;
    write_atomic(&output.join("results.md"), table::markdown(&study).as_bytes())?;
    write_atomic(&output.join("report.html"), html(&study)?.as_bytes())?;
    print(table::study(&study))?;
    print(table::pairs(&study))?;
    say(quiet, format!("{:.0} s; open {}", study.seconds, output.join("report.html").display()));
    Ok(())
}

impl StudyOptions {
    /// The objectives, bare names replaced by what they stand for; each can run on every seed.
    fn resolved_objectives(&self) -> Result<Vec<Objective>> {
        let mut resolved: Vec<Objective> = Vec::new();
        for objective in &self.objectives {
            let tuned = self.tuned.iter().find(|tuned| tuned.name() == objective.name());
            let chosen = tuned.filter(|_| objective.is_bare()).unwrap_or(objective);
            if resolved.contains(chosen) {
                bail!("objective `{chosen}` is listed twice");
            }
            self.config(chosen, 0).plan()?;
            resolved.push(chosen.clone());
        }
        Ok(resolved)
    }

    fn config(&self, objective: &Objective, seed: u64) -> RlvrConfig {
        RlvrConfig { objective: objective.clone(), seed, settings: self.settings.clone() }
    }

    /// The model that a run came to: trained now, continued, or read where it has ended before.
    fn tuned_model(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        config: &RlvrConfig,
        folder: &Path,
    ) -> Result<Decoder> {
        let last = folder.join("final");
        let is_done = ["config.json", adapter::CONFIG].iter().any(|file| last.join(file).exists());
        let decoder = if is_done {
            session.base.tuned(&last, &session.device)?
        } else {
            let label = format!("train {}", config.objective);
            let resume = checkpoint::find(folder, "")?;
            let place =
                Place { label: &label, output: folder, resume: resume.as_deref(), json: false };
            let tuned = session.fine_tune(train, config, &place)?;
            session.stop.check()?;
            session.save(&tuned, &last)?;
            tuned.policy.frozen().clone()
        };
        // What the run could go on from; now there is its result.
        checkpoint::discard(folder)?;
        Ok(decoder)
    }

    /// The settings of one run. Every run stops at the same number of sampled completions, those of
    /// the base included; one that samples the base first therefore trains for fewer steps.
    fn budget(
        &self,
        objective: &Objective,
        seed: u64,
        prompts: usize,
        presamples: &Path,
    ) -> Result<RlvrConfig> {
        let mut config = self.config(objective, seed);
        let plan = config.plan()?;
        let needs_presamples = wants_presamples(&config, &plan);
        let settings = &mut config.settings;
        let step = settings.prompts_per_step.min(prompts) * settings.num_generations;
        settings.max_completions = Some(settings.max_steps * step);
        if needs_presamples && settings.presamples.is_none() {
            settings.presamples = Some(presamples.to_owned());
        }
        if needs_presamples && plan.is_on_policy() {
            let each = settings.num_presamples + usize::from(wants_extra_check(&plan));
            let spent = (each * prompts).div_ceil(step);
            let left = settings.max_steps.checked_sub(spent).filter(|left| *left > 0);
            settings.max_steps = left.with_context(|| {
                format!(
                    "objective `{objective}`: sampling the base {each} times a prompt costs as much as \
                     {spent} steps, all of --max-steps {}; lower --num-presamples",
                    settings.max_steps
                )
            })?;
        }
        Ok(config)
    }
}

/// Problems that are both trained and tested on would flatter every number.
fn refuse_overlap(train: &Dataset, test: &Dataset) -> Result<()> {
    let trained: std::collections::HashSet<_> =
        train.problems.iter().map(|problem| problem.prompt.plain()).collect();
    let shared = test.problems.iter().filter(|problem| trained.contains(&problem.prompt.plain()));
    match shared.count() {
        0 => Ok(()),
        count => bail!(
            "{count} problems of {} are in {} too; choose a --test-dataset that is held out",
            test.name,
            train.name
        ),
    }
}

/// What a run's metrics say of its course.
fn history(objective: &Objective, seed: u64, folder: &Path) -> Result<Training> {
    let rows = tealight_datasets::read::table(&folder.join("metrics.jsonl"))?;
    let number = |row: &Row, name: &str| row.get(name).and_then(Value::as_f64);
    let count =
        |name: &str| rows.last().and_then(|row| row.get(name)?.as_u64()).unwrap_or(0) as usize;
    Ok(Training {
        objective: objective.to_string(),
        seed,
        steps: count("step"),
        completions: count("num_completions"),
        tokens: count("num_tokens"),
        seconds: rows.iter().filter_map(|row| number(row, "step_time")).sum(),
        points: rows
            .iter()
            .map(|row| TrainingPoint {
                step: row.get("step").and_then(Value::as_u64).unwrap_or(0) as usize,
                reward: number(row, "reward"),
                entropy: number(row, "entropy"),
                kl: number(row, "kl"),
            })
            .collect(),
    })
}

/// A row of metrics.
type Row = serde_json::Map<String, Value>;
