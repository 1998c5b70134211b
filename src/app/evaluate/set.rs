//! One set of an evaluation: samples that are known judged again, the others drawn, all of them to estimates.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use tealight_core::names;
use tealight_eval::evaluate::EvalJob;
use tealight_eval::number::counted;
use tealight_eval::results::{Question, SetResult};
use tealight_eval::rules::Rules;
use tealight_eval::store::{Index, SampleStore};
use tealight_eval::{Summary, Tally};

use super::EvalOptions;
use super::engine::Engine;
use super::eval_sets::EvalSet;
use super::outcome;
use super::progress::EvalBar;
use tealight_learn::listed::ListedAnswers;
use tealight_learn::train::rlvr::LENGTH;
use tealight_nn::generate::SamplingParams;
use tealight_system::process::Process;

pub(super) struct SetEvaluation<'a> {
    pub(super) set: &'a EvalSet<'a>,
    pub(super) options: &'a EvalOptions,
    pub(super) engine: &'a Engine,
    pub(super) process: &'a Process,
    /// The directory of the evaluation.
    pub(super) output: &'a Path,
    /// For --exact the listed answers to every problem, by the name of the dataset.
    pub(super) listed: &'a BTreeMap<String, ListedAnswers>,
    /// Whether the directory may hold samples of an earlier call.
    pub(super) is_continued: bool,
}

/// The samples at the set's temperature, or the one at temperature 0.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Sampled,
    Greedy,
}

impl SetEvaluation<'_> {
    /// Evaluates the set.
    pub(super) fn result(&self) -> Result<SetResult> {
        let (set, options) = (self.set, self.options);
        let mut tallies = self.tallies(Pass::Sampled)?;
        if !options.no_greedy && set.temperature > 0.0 {
            for (tally, greedy) in tallies.iter_mut().zip(self.tallies(Pass::Greedy)?) {
                // A server may refuse temperature 0.
                tally.greedy = (greedy.samples > 0).then_some(greedy.correct > 0);
            }
        }
        let summary = outcome::summary(&tallies, &options.k, || self.first_reason())
            .with_context(|| set.name.clone())?;
        let exact = match self.listed.get(&set.dataset.name) {
            Some(listed) => {
                self.engine.exact(listed, set.temperature, &options.k, &self.process.stop)?
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
        let (set, options, ranks) = (self.set, self.options, &self.process.ranks);
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
                "  {} of an earlier call in {} are not counted: the results are of the first {n} samples of each of {}",
                counted(uncounted, "sample"),
                path.display(),
                counted(problems.len(), "problem")
            );
        }
        let solver = self.engine.solver(&options.draw(n, &params));
        let job = EvalJob {
            problems,
            n,
            solver: &*solver,
            judge: &*set.dataset.verifier,
            rules: Rules { truncated: options.truncated, failed: options.failed },
            ranks,
            store,
            progress: Box::new(EvalBar::new(label, &self.process.stop)),
        };
        job.run()
    }

    fn params(&self, temperature: f64) -> SamplingParams {
        let decoding = &self.options.decoding;
        let length = decoding.max_completion_length.unwrap_or(LENGTH);
        decoding.params(temperature, length)
    }
}

/// Where a set's problems are, the same from every folder: a file's whole path.
fn source(dataset: &str) -> String {
    let path = Path::new(dataset);
    let whole = path.canonicalize().ok().filter(|whole| whole.is_file());
    whole.map_or_else(|| dataset.to_owned(), |whole| whole.display().to_string())
}
