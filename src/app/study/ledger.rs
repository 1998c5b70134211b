//! The ledger of a study: the log-probability of every listed correct answer of some held-out problems, at the base
//! and at every checkpoint.
//!
//! [`crate::app::listed`] has the scored answers. Probabilities are at the temperature of the set's evaluation and
//! without its filters; they come from the pass that training computes log-probabilities by.
//!
//! A checkpoint's lines are one file in the folder of its samples, written whole; one that is there is not computed
//! again.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_datasets::names;
use tealight_eval::Tally;
use tealight_eval::ledger::{Ledger, Mode, Scored, csv};

use super::sets::{Model, StudySet};
use crate::app::listed::{ListedAnswers, ROWS};
use crate::app::session::Session;
use crate::nn::tokenizer::Tokenizer;
use crate::system::files::{read_limited, write_atomic};
use crate::system::telemetry::Progress;

/// Most token sequences of a ledger: each is scored at every checkpoint.
const MOST_SEQUENCES: usize = 200_000;
/// Largest file of a checkpoint's lines.
const MOST_BYTES: u64 = 256 << 20;

/// Every listed answer of some problems, as what is scored.
pub(crate) struct LedgerSet {
    dataset: String,
    file: String,
    temperature: f64,
    answers: ListedAnswers,
}

/// A line of a checkpoint's file.
#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    mode: Mode,
    logp: f64,
}

/// A checkpoint that has been scored.
pub(crate) struct Checkpoint {
    pub(crate) step: usize,
    pub(crate) updates: usize,
    pub(crate) sampled: Option<f64>,
    pub(crate) logp: Vec<f64>,
}

impl LedgerSet {
    /// The answers to the first `count` problems of a set; completions may have `longest` tokens.
    ///
    /// # Errors
    /// A task whose answers cannot be listed, an answer that the verifier does not accept or that is too long to be
    /// sampled, too many of them.
    pub(crate) fn new(
        set: &StudySet,
        count: usize,
        tokenizer: &dyn Tokenizer,
        longest: usize,
    ) -> Result<Self> {
        let dataset = &*set.dataset;
        let Some(list) = dataset.spellings else {
            bail!(
                "--ledger: the correct answers to {} cannot be listed; those of the generated tasks countdown, chain and \
                 walk can (--task countdown), and those of every task that `tealight tasks` lists",
                dataset.name
            );
        };
        let mut all = Self {
            dataset: dataset.name.clone(),
            file: format!("ledger-{}.jsonl", names::file_name(&dataset.name)),
            temperature: set.temperature,
            answers: ListedAnswers::default(),
        };
        for problem in dataset.problems.iter().take(count) {
            let texts = list(problem).filter(|texts| !texts.is_empty()).with_context(|| {
                format!(
                    "--ledger: the correct answers to problem `{}` of {} are too many to be listed; choose another \
                     held-out set",
                    problem.id, dataset.name
                )
            })?;
            all.answers.add(dataset, problem, &texts, (tokenizer, longest)).with_context(|| {
                format!("--ledger: problem `{}` of {}", problem.id, dataset.name)
            })?;
            if all.sequences() > MOST_SEQUENCES {
                bail!(
                    "--ledger {count}: more than {MOST_SEQUENCES} token sequences would be scored at every checkpoint \
                     ({} problems are enough for that); lower it",
                    all.answers.modes.chunk_by(|a, b| a.problem == b.problem).count()
                );
            }
        }
        Ok(all)
    }

    /// Token sequences that are scored.
    pub(crate) fn sequences(&self) -> usize {
        self.answers.sequences()
    }

    /// The log-probability of every answer under a model, from the file in `folder` or computed into it; the model is
    /// loaded only where that is not there.
    pub(crate) fn scored(
        &self,
        session: &Session<'_>,
        model: &Model<'_>,
        folder: &Path,
    ) -> Result<Vec<f64>> {
        let path = names::inside(folder, &self.file)?;
        if let Some(known) = self.read(&path)? {
            return Ok(known);
        }
        let decoder =
            (model.load)().with_context(|| format!("{}: cannot be scored", model.name))?;
        let label = format!("{} ledger", model.name);
        let mut progress = Progress::new(&label, self.sequences().div_ceil(ROWS));
        let logp = self.answers.logp(&decoder, self.temperature, &mut || {
            progress.advance(String::new);
            session.stop.check()
        })?;
        crate::system::files::writable_subfolder(folder)?;
        let lines: Vec<String> = self
            .answers
            .modes
            .iter()
            .zip(&logp)
            .map(|(mode, logp)| serde_json::to_string(&Entry { mode: mode.clone(), logp: *logp }))
            .collect::<std::result::Result<_, _>>()?;
        write_atomic(&path, (lines.join("\n") + "\n").as_bytes())?;
        Ok(logp)
    }

    /// The lines of a file that is there; one of other answers is an error.
    fn read(&self, path: &Path) -> Result<Option<Vec<f64>>> {
        if !path.exists() {
            return Ok(None);
        }
        let shown = path.display().to_string();
        let text = String::from_utf8(read_limited(path, MOST_BYTES)?).context(shown.clone())?;
        let mut logp = Vec::with_capacity(self.answers.modes.len());
        for (number, line) in text.lines().enumerate() {
            let at = || format!("{shown}:{}", number + 1);
            let entry: Entry = serde_json::from_str(line).with_context(at)?;
            if self.answers.modes.get(number) != Some(&entry.mode) || !entry.logp.is_finite() {
                bail!(
                    "{}: is not the ledger of this study; remove the file to compute it again",
                    at()
                );
            }
            logp.push(entry.logp);
        }
        if logp.len() < self.answers.modes.len() {
            bail!(
                "{shown}: has {} of {} answers; remove the file",
                logp.len(),
                self.answers.modes.len()
            );
        }
        Ok(Some(logp))
    }

    /// Pass@1 on the problems of the ledger, by samples of its set.
    pub(crate) fn sampled(&self, tallies: &[Tally]) -> Option<f64> {
        let problems: HashSet<&str> =
            self.answers.modes.iter().map(|mode| &*mode.problem).collect();
        let of_ledger = tallies.iter().filter(|tally| problems.contains(tally.problem.as_str()));
        let rates: Vec<f64> = of_ledger
            .filter(|tally| tally.samples > 0)
            .map(|tally| tally.correct as f64 / tally.samples as f64)
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }

    /// The ledger for a study's report; every line goes to `ledger.csv` in its folder.
    pub(crate) fn report(&self, base: &Scored, all: &[Scored], output: &Path) -> Result<Ledger> {
        let lines: Vec<&Scored> = std::iter::once(base).chain(all).collect();
        write_atomic(&output.join("ledger.csv"), csv(&self.answers.modes, &lines).as_bytes())?;
        Ok(Ledger::new((&self.dataset, self.temperature), &self.answers.modes, base, all))
    }
}

impl Checkpoint {
    /// The same as one of a run.
    pub(crate) fn of(self, objective: &str, seed: Option<u64>) -> Scored {
        let Self { step, updates, sampled, logp } = self;
        Scored { objective: objective.to_owned(), seed, step, updates, sampled, logp }
    }
}
