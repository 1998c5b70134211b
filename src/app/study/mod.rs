//! A study: the whole question at once. Evaluate the base, fine-tune it under each
//! objective from the same seeds on the same prompts with the same number of sampled completions,
//! evaluate each result, and report what became of accuracy and diversity.

mod markdown;
mod runs;
mod sets;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;
use tealight_eval::report::{Evaluated, Measured, Study, Tuned, grid, html};
use tealight_eval::{Summary, Tally};

use crate::app::place;
use crate::app::session::{self, Draw, Session};
use crate::app::settings::{self, DataOptions, ModelOptions};
use crate::app::training::held_out::HeldOutOptions;
use crate::files::{Claim, write_atomic};
use crate::model::Decoder;
use crate::objective::Objective;
use crate::process::Process;
use crate::ranks::Ranks;
use crate::train::rlvr::Settings;
use runs::history;
pub use runs::{Matched, Variant};
use sets::{SetOptions, StudySet};

/// Options of `tealight study`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct StudyOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// A generated task, NAME/train and NAME/test: countdown, chain, walk or sql. Those but countdown need a
    /// base of their own (recipes/walk-base.toml).
    #[arg(long, conflicts_with_all = ["dataset", "test_dataset", "test_suite"])]
    pub task: Option<String>,
    /// What models are evaluated on.
    #[command(flatten)]
    #[serde(flatten)]
    pub sets: SetOptions,
    /// The objectives to compare; each may carry settings (see `tealight train --help`).
    #[arg(long, value_delimiter = ',', default_value = "grpo,kl-full,forward-kl,js")]
    pub objectives: Vec<Objective>,
    /// What a bare name among --objectives stands for, such as js:2.4.
    #[arg(long, value_delimiter = ',')]
    pub tuned: Vec<Objective>,
    /// One run of each objective for each seed; A..B are those from A to B, both included.
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = seeds)]
    #[serde(deserialize_with = "read_seeds")]
    pub seeds: Vec<Seeds>,
    /// In what every run is given as much.
    #[arg(id = "match", long, value_enum, default_value_t = Matched::Completions)]
    #[serde(rename = "match")]
    pub matched: Matched,
    /// Models made of each run without training, evaluated like it: early stopping, averaging of weights.
    #[arg(long, value_enum, value_delimiter = ',')]
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Samples a problem in evaluations.
    #[arg(short, default_value_t = 64)]
    pub n: usize,
    /// Report Pass@k at these k, none above -n; unless given, those of 1, 8 and 32 that are not.
    #[arg(short, value_delimiter = ',')]
    #[serde(default)]
    pub k: Vec<usize>,
    /// The settings of every run.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
    /// What runs are evaluated on while they go.
    #[command(flatten)]
    #[serde(flatten)]
    pub held_out: HeldOutOptions,
    /// Where everything goes; without it `study`, or `study-2` and so on where that is taken.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Go on with the study in --output (`study` unless named) where it was stopped or killed.
    #[arg(long)]
    #[serde(skip)]
    pub resume: bool,
    /// Begin anew where --output holds a study: what Tealight wrote there is removed.
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    pub overwrite: bool,
}

/// Evaluates the base, fine-tunes it under every objective from every seed, evaluates what came of it, and writes
/// results and report to the study's folder. Ranks divide the base's samples and the runs; the first alone reports.
///
/// # Errors
/// Settings that do not go together, files that cannot be read or written, a run that failed or was stopped.
pub fn run(options: &StudyOptions, process: &Process) -> Result<Option<Finished>> {
    let Process { stop, ranks } = process;
    let started = Instant::now();
    let mut options = options.clone();
    options.k = settings::estimable(&options.k, &[1, 8, 32], options.n)?;
    options.settings.check()?;
    let seeds = distinct(&options.seeds);
    if options.objectives.is_empty() || seeds.is_empty() {
        bail!("a study needs at least one objective and one seed");
    }
    if options.variants.contains(&Variant::Best) && options.held_out.eval_steps == 0 {
        bail!(
            "--variants best needs --eval-steps and --eval-dataset, which the best model is chosen by"
        );
    }
    let objectives = options.resolved_objectives()?;
    let mut claim = None;
    let output = ranks.first(|| {
        let output = match &options.output {
            Some(output) => output.clone(),
            None if options.resume => PathBuf::from("study"),
            None => place::next_free(Path::new("study")),
        };
        claim = Some(match options.resume {
            true => Claim::take(&output)?,
            false => place::fresh(&output, options.overwrite)?,
        });
        Ok(output)
    })?;
    let train = options.data.open(&options.data.dataset)?;
    let sets = options.sets.open(&options.data, &train, options.settings.temperature)?;
    let held_out = options.held_out.open(&options.data)?;
    if let Some(held_out) = &held_out {
        for other in std::iter::once(&train).chain(sets.iter().map(|set| &*set.dataset)) {
            settings::refuse_overlap(other, held_out.dataset(), "--eval-dataset")?;
        }
    }
    for objective in &objectives {
        options.budget(objective, seeds[0], train.problems.len(), Path::new(""))?;
    }
    options.model.precision.check(options.settings.lora.use_peft)?;
    options.model.refuse_rollout_dtype()?;
    let (base, device) = options.model.load_on(ranks, ModelOptions::load_to_train)?;
    let problems = sets.iter().flat_map(|set| &set.dataset.problems).chain(&train.problems);
    let asked = options.settings.max_completion_length;
    options.settings.max_completion_length =
        Some(settings::completion_length(asked, problems, base.room())?);
    let options = &options;
    ranks.first(|| {
        if options.resume {
            place::refuse_other_settings(options, &output)?;
        }
        place::clear(&output, options.overwrite)?;
        settings::record_config(options, &output)
    })?;
    stop.saves();
    let session = Session::new(&base, device, stop)?.among(ranks);

    let params = options.sets.sampling(&options.settings, &base.tokenizer);
    let draw = Draw {
        n: options.n,
        params: &params,
        seed: seeds[0],
        max_num_seqs: options.settings.max_num_seqs,
    };
    let grid = grid(&options.k, options.n);
    let measured = |tallies: Vec<Tally>| -> Result<Measured> {
        Ok(Measured { summary: Summary::new(&tallies, &grid)?, problems: tallies })
    };
    let greedy = !options.sets.no_greedy;
    let evaluate =
        |session: &Session<'_>, set: &StudySet, model: (&Decoder, &str), folder: &Path| {
            measured(set.tallies(session, model, &draw, greedy, folder)?)
        };
    let again = Draw { seed: session::seed_of_second_draw(seeds[0]), ..draw };
    let mut datasets = Vec::new();
    for set in &sets {
        let (second, folder) =
            ((&session.reference, "base, second draw"), output.join(place::SECOND_DRAW));
        datasets.push(Evaluated {
            name: set.dataset.name.clone(),
            domain: set.domain.to_owned(),
            temperature: set.temperature,
            base: evaluate(&session, set, (&session.reference, "base"), &output.join("base"))?,
            second: Some(set.tallies(&session, second, &again, false, &folder)?),
            tuned: Vec::new(),
            contrasts: Vec::new(),
        });
    }
    for seed in &seeds {
        options.presample(&session, &train, &objectives, *seed, &output)?;
    }
    // A run is one rank's; when all are done, the first finds them as an interrupted study would.
    let session = session.among(&Ranks::alone());
    let all = || seeds.iter().flat_map(|seed| objectives.iter().map(move |o| (*seed, o)));
    let models = |(seed, objective): (u64, &Objective)| {
        options.models(&session, &train, objective, seed, held_out.as_ref(), &output)
    };
    if ranks.size() > 1 {
        for (_, run) in all().enumerate().filter(|(place, _)| ranks.is_own(*place)) {
            for (label, decoder, folder) in models(run)? {
                for set in &sets {
                    evaluate(&session, set, (&decoder, &label), &folder)?;
                }
            }
        }
        ranks.wait()?;
        if !ranks.is_first() {
            return Ok(None);
        }
    }
    let mut training = Vec::new();
    for (seed, objective) in all() {
        for (label, decoder, folder) in models((seed, objective))? {
            for (evaluated, set) in datasets.iter_mut().zip(&sets) {
                let measured = evaluate(&session, set, (&decoder, &label), &folder)?;
                evaluated.tuned.push(Tuned { objective: label.clone(), seed, measured });
            }
        }
        let folder = StudyOptions::folder(&output, objective, seed);
        training.push(history(objective, seed, &folder)?);
    }
    let named = options.named(&objectives);
    let labels: Vec<String> = named.iter().map(|(label, _)| label.clone()).collect();
    datasets.iter_mut().for_each(|set| set.contrast(&labels, &grid));
    let study = options.study(&base.name, &train, (named, datasets, training), started);
    write_atomic(&output.join("results.json"), serde_json::to_string(&study)?.as_bytes())?;
    write_atomic(&output.join("results.md"), markdown::markdown(&study).as_bytes())?;
    write_atomic(&output.join("report.html"), html(&study)?.as_bytes())?;
    Ok(Some(Finished { study, output }))
}

/// A study that is done.
pub struct Finished {
    /// What was found: `results.json`.
    pub study: Study,
    /// Its folder.
    pub output: PathBuf,
}

impl StudyOptions {
    /// Every label with what it stands for.
    fn named(&self, objectives: &[Objective]) -> Vec<(String, String)> {
        let metric = &self.held_out.metric_for_best_model;
        let of = |objective: &Objective| {
            let own = (objective.to_string(), objective.resolved());
            let variants = self.variants.iter().map(|v| (v.label(objective), v.about(metric)));
            std::iter::once(own).chain(variants).collect::<Vec<_>>()
        };
        objectives.iter().flat_map(of).collect()
    }

    fn study(
        &self,
        model: &str,
        train: &Dataset,
        (objectives, datasets, training): Found,
        started: Instant,
    ) -> Study {
        let settings = &self.settings;
        Study {
            model: model.to_owned(),
            n: self.n,
            ks: self.k.clone(),
            grid: grid(&self.k, self.n),
            temperature: settings.temperature,
            prompts: train.problems.len(),
            prompts_per_step: settings.prompts_per_step,
            num_generations: settings.num_generations,
            learning_rate: settings.schedule.learning_rate,
            matched: match self.matched {
                Matched::Completions => "sampled completions, the base's included",
                Matched::Tokens => "sampled tokens, the base's included",
                Matched::Updates => "optimizer steps; samples of the base come on top",
            }
            .to_owned(),
            objectives,
            datasets,
            training,
            fronts: Vec::new(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

/// Labels and what they stand for, what was found on each set, the runs.
type Found = (Vec<(String, String)>, Vec<Evaluated>, Vec<tealight_eval::report::Training>);

/// A seed, or a range of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(std::ops::RangeInclusive<u64>);

/// Most seeds of a study.
const MOST_SEEDS: u64 = 1000;

fn seeds(text: &str) -> Result<Seeds> {
    let number = |text: &str| -> Result<u64> {
        text.trim().parse().map_err(|_| anyhow::anyhow!("`{text}` is not a seed, nor A..B"))
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if last < first || last - first >= MOST_SEEDS {
        bail!("`{text}`: A..B are the seeds from A to B, at most {MOST_SEEDS}");
    }
    Ok(Seeds(first..=last))
}

/// The seeds, each once, in the order they were given in.
fn distinct(seeds: &[Seeds]) -> Vec<u64> {
    let mut known = HashSet::new();
    seeds.iter().flat_map(|range| range.0.clone()).filter(|seed| known.insert(*seed)).collect()
}

impl Serialize for Seeds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (first, last) = (*self.0.start(), *self.0.end());
        match first == last {
            true => serializer.serialize_u64(first),
            false => serializer.collect_str(&format_args!("{first}..{last}")),
        }
    }
}

/// Seeds in a file: numbers, or ranges as text.
fn read_seeds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Seeds>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    let written = Vec::<Written>::deserialize(deserializer)?;
    let one = |written| match written {
        Written::Number(number) => seeds(&number.to_string()),
        Written::Text(text) => seeds(&text),
    };
    let all: Result<Vec<Seeds>> = written.into_iter().map(one).collect();
    all.map_err(|error| serde::de::Error::custom(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_and_ranges() {
        let all = ["3", "0..2", "1"].map(|text| seeds(text).unwrap());
        assert_eq!(distinct(&all), [3, 0, 1, 2]);
        assert!(seeds("3..2").is_err() && seeds("x").is_err() && seeds("0..5000").is_err());
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"[3,"0..2",1]"#);
    }
}
