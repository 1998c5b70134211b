//! One evaluation: opened, which writes and samples nothing, then set by set.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use tealight_core::names;
use tealight_datasets::Dataset;
use tealight_datasets::suite::SuiteSet;
use tealight_eval::evaluate::EvalJob;
use tealight_eval::exact::Exact;
use tealight_eval::number::{counted, with_verb};
use tealight_eval::results::{Question, Results, SetResult, VERSION};
use tealight_eval::rules::Rules;
use tealight_eval::store::{Index, SampleStore};
use tealight_eval::{Summary, Tally};

use super::EvalOptions;
use super::engine::Engine;
use super::eval_sets::{EvalSet, eval_sets};
use super::outcome::{self, Judged};
use super::progress::EvalBar;
use super::request::prepare;
use crate::app::directory::{Destination, Existing};
use crate::app::{recorded_settings, settings};
use crate::solvers::sampled::Sampled;
use tealight_learn::listed::{self, ListedAnswers};
use tealight_nn::generate::SamplingParams;
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
        let engine = Engine::open(&options, process)?;
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
        let Self { options, process, .. } = &self;
        let ranks = &process.ranks;
        let sets = eval_sets(&self.sets, &self.datasets, &options.decoding.temperature)?;
        let destination = Destination::resolve(options.output.as_deref(), &process.stop)?;
        let output = destination.path();
        let mut claim = None;
        let is_continued = ranks.first(|| {
            let taken = claim.insert(Claim::take(output)?);
            let request = options.request(&sets, self.length, &self.engine)?;
            let is_continued = prepare(taken, output, request, self.existing)?;
            if destination.is_saved() {
                recorded_settings::record_config(options, output)?;
            }
            Ok(is_continued)
        })?;
        process.stop.saves();
        let evaluated =
            |set: &EvalSet<'_>| SetEvaluation { of: &self, set, output, is_continued }.result();
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

/// One set of an evaluation: judges its stored samples again, samples the missing ones, and estimates the measures.
struct SetEvaluation<'a> {
    of: &'a Evaluation<'a>,
    set: &'a EvalSet<'a>,
    /// The directory of the evaluation.
    output: &'a Path,
    /// Whether the directory may hold samples of an earlier call.
    is_continued: bool,
}

/// The samples at the set's temperature, or the one at temperature 0.
enum Pass {
    Sampled,
    Greedy,
}

impl SetEvaluation<'_> {
    /// Evaluates the set.
    fn result(&self) -> Result<SetResult> {
        let (set, of) = (self.set, self.of);
        let options = &of.options;
        let mut tallies = self.tallies(Pass::Sampled)?;
        if !options.no_greedy && set.temperature > 0.0 {
            for (tally, greedy) in tallies.iter_mut().zip(self.tallies(Pass::Greedy)?) {
                // A server may refuse temperature 0.
                tally.greedy = (greedy.samples > 0).then_some(greedy.correct > 0);
            }
        }
        let summary = outcome::summary(&tallies, &options.k, || self.first_reason())
            .with_context(|| set.name.clone())?;
        let decoder = of.engine.model().and_then(Sampled::decoder);
        let exact = match of.listed.get(&set.dataset.name).zip(decoder) {
            Some((listed, decoder)) => {
                let stop = &of.process.stop;
                let logp = listed.logp(decoder, set.temperature, &mut || stop.check())?;
                Exact::new(&listed.problems(&logp), &options.k)
            }
            None => None,
        };
        Ok(SetResult {
            name: set.name.clone(),
            dataset: source(&set.set.dataset),
            domain: set.set.domain.map(|domain| format!("{domain:?}").to_lowercase()),
            verifier: set.dataset.verifier.name().into(),
            temperature: Some(set.temperature),
            summary: Summary { exact, ..summary },
            questions: Question::all(set.dataset),
            problems: tallies,
            unusable: set.dataset.unusable.clone(),
            samples: Some(format!("samples/{}.jsonl", set.file)),
        })
    }

    /// The first reason why completions of the set could not be judged, where its samples say so.
    fn first_reason(&self) -> Option<String> {
        let samples = self.output.join("samples");
        let path = names::inside(&samples, &format!("{}.jsonl", self.set.file)).ok()?;
        outcome::reasons(&Index::open(&path).ok()?).ok()?.into_iter().next()
    }

    fn tallies(&self, pass: Pass) -> Result<Vec<Tally>> {
        let (set, options, process) = (self.set, &self.of.options, self.of.process);
        let ranks = &process.ranks;
        let (n, params, file, label) = match pass {
            Pass::Sampled => {
                (options.n, self.params(set.temperature), set.file.clone(), set.name.clone())
            }
            Pass::Greedy => {
                let file = format!("{}.greedy", set.file);
                (1, self.params(0.0), file, format!("{} greedy", set.name))
            }
        };
        params.check()?;
        let path = names::inside(&self.output.join("samples"), &format!("{file}.jsonl"))?;
        let problems = &set.dataset.problems;
        let store = match self.is_continued {
            true => SampleStore::open(&path, problems, ranks)?,
            false => SampleStore::create(&path, ranks)?,
        };
        store.notes.iter().for_each(|note| tracing::info!("  {note}"));
        let uncounted = store.uncounted(problems, n);
        if uncounted > 0 {
            tracing::info!(
                "  {} not counted: {} has more than {} of a problem, or samples of other problems",
                with_verb(uncounted, "stored sample", "are"),
                path.display(),
                counted(n, "sample")
            );
        }
        let solver = self.of.engine.solver(&options.draw(n, &params));
        let job = EvalJob {
            problems,
            n,
            solver: &*solver,
            judge: &*set.dataset.verifier,
            rules: Rules { truncated: options.truncated, failed: options.failed },
            ranks,
            store,
            progress: Box::new(EvalBar::new(label, &process.stop)),
        };
        job.run()
    }

    fn params(&self, temperature: f64) -> SamplingParams {
        self.of.options.decoding.params(temperature, self.of.length)
    }
}

/// Where a set's problems are, the same from every folder: a file's whole path.
fn source(dataset: &str) -> String {
    let path = Path::new(dataset);
    let whole = path.canonicalize().ok().filter(|whole| whole.is_file());
    whole.map_or_else(|| dataset.to_owned(), |whole| whole.display().to_string())
}
