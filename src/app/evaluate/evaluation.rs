//! One evaluation: opened, which writes and samples nothing, then set by set.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use tealight_datasets::Dataset;
use tealight_datasets::suite::SuiteSet;
use tealight_eval::results::{Results, VERSION};

use super::EvalOptions;
use super::engine::Engine;
use super::eval_sets::{EvalSet, eval_sets};
use super::outcome::{self, Judged};
use super::request::prepare;
use super::set::SetEvaluation;
use crate::app::directory::{Destination, Existing};
use crate::app::settings;
use tealight_learn::listed::{self, ListedAnswers};
use tealight_system::claim::Claim;
use tealight_system::process::Process;

/// An evaluation that can begin.
pub(super) struct Evaluation<'a> {
    /// The settings, with every default resolved.
    options: EvalOptions,
    /// Treatment of the files that the directory has.
    existing: Existing,
    process: &'a Process,
    sets: Vec<SuiteSet>,
    /// The problems of each set.
    datasets: Vec<Dataset>,
    engine: Engine,
    /// Most tokens of a completion.
    length: usize,
    /// For --exact the listed answers to every problem, by the name of the dataset.
    listed: BTreeMap<String, ListedAnswers>,
    started: Instant,
}

impl<'a> Evaluation<'a> {
    /// Checks the settings, opens the sets, and loads the model or asks the server.
    pub(super) fn open(
        options: &EvalOptions,
        existing: Existing,
        process: &'a Process,
    ) -> Result<Self> {
        let mut options = options.clone();
        Destination::check(options.output.as_deref(), existing)?;
        options.k = settings::estimable(&options.k, &[1, 4, 16, 64], options.n)?;
        options.check_scoring()?;
        let recorded = options.output.as_deref().filter(|_| existing == Existing::Keep);
        options.model.template.set_date(recorded, &process.ranks)?;
        let (sets, mut datasets) = options.open()?;
        options.check_engine()?;
        if options.exact {
            listed::check(&datasets).context("--exact")?;
        }
        let started = Instant::now();
        let engine = Engine::open(&options, &process.ranks)?;
        options.check_default(engine.model().map(|model| &model.tokenizer))?;
        for dataset in &mut datasets {
            engine.filter(&options.data, options.decoding.max_completion_length, dataset)?;
        }
        let asked = options.decoding.max_completion_length;
        let length = engine.completion_length(asked, &datasets)?;
        options.decoding.max_completion_length = Some(length);
        // Everything is listed before anything is sampled: a dataset that cannot be listed costs nothing.
        let mut listed = BTreeMap::new();
        if let Some(model) = engine.model().filter(|_| options.exact) {
            for dataset in &datasets {
                let answers =
                    ListedAnswers::of_dataset(dataset, (&model.tokenizer, length), usize::MAX)
                        .context("--exact")?;
                listed.insert(dataset.name.clone(), answers);
            }
        }
        Ok(Self { options, existing, process, sets, datasets, engine, length, listed, started })
    }

    /// Draws the missing samples, judges all, and writes the results.
    pub(super) fn run(self) -> Result<Judged> {
        let Self { options, process, engine, .. } = &self;
        let ranks = &process.ranks;
        let sets = eval_sets(&self.sets, &self.datasets, &options.decoding.temperature)?;
        let destination = Destination::resolve(options.output.as_deref(), &process.stop)?;
        let output = destination.path();
        let mut claim = None;
        let is_continued = ranks.first(|| {
            let taken = claim.insert(Claim::take(output)?);
            let request = options.request(&sets, self.length, engine)?;
            let is_continued = prepare(taken, output, request, self.existing)?;
            if destination.is_saved() {
                settings::record_config(options, output)?;
            }
            Ok(is_continued)
        })?;
        process.stop.saves();
        let listed = &self.listed;
        let evaluated = |set: &EvalSet<'_>| {
            SetEvaluation { set, options, engine, process, output, listed, is_continued }.result()
        };
        let results = Results {
            schema_version: VERSION,
            tealight: format!("{} {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
            model: options.shown_model()?,
            config: serde_json::to_value(options)?,
            sets: sets.iter().map(evaluated).collect::<Result<_>>()?,
            seconds: self.started.elapsed().as_secs_f64(),
        };
        let reasons = ranks.first(|| {
            claim.as_ref().map_or(Ok(()), Claim::check)?;
            outcome::write(&results, None, &destination)
        })?;
        let verifiers = self.datasets.iter().map(|dataset| &*dataset.verifier);
        let doubt = outcome::doubt(&results, verifiers, &reasons, options.max_unjudged);
        Ok(Judged { results, doubt })
    }
}
