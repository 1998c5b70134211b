//! The ledger of a study: the log-probability of every listed correct answer of some held-out problems, at the base
//! and at every checkpoint.
//!
//! An answer is a class of the verifier, its spellings are what [`tealight_datasets::Dataset::spellings`] lists of
//! it. A spelling is scored as the tokens that the tokenizer encodes it to, followed by an end-of-sequence token,
//! each of those there are; completions of the same text in other tokens are not listed. An answer's probability is
//! the sum over its token sequences, at the temperature of the set's evaluation and without its filters. No sequence
//! is the beginning of another, so that the probabilities of a problem add up to at most 1: to the chance that a
//! sample is a listed spelling. They come from the pass that training computes log-probabilities by.
//!
//! A checkpoint's lines are one file in the folder of its samples, written whole; one that is there is not computed
//! again.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_datasets::{Dataset, Problem, Verdict, names};
use tealight_eval::Tally;
use tealight_eval::ledger::{Ledger, Mode, Scored, csv};

use super::sets::{Model, StudySet};
use crate::app::session::Session;
use crate::nn::policy::{Sequence, by_row, token_logp};
use crate::nn::tokenizer::Tokenizer;
use crate::system::files::{read_limited, write_atomic};
use crate::system::telemetry::Progress;

/// Completions in one forward pass.
const ROWS: usize = 128;
/// Most token sequences of a ledger: each is scored at every checkpoint.
const MOST_SEQUENCES: usize = 200_000;
/// Largest file of a checkpoint's lines.
const MOST_BYTES: u64 = 256 << 20;

/// Every listed answer of some problems, as what is scored.
pub(crate) struct LedgerSet {
    dataset: String,
    file: String,
    temperature: f64,
    pub(crate) modes: Vec<Mode>,
    rows: Vec<Sequence>,
    /// The answer of each row.
    mode_of: Vec<usize>,
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
            modes: Vec::new(),
            rows: Vec::new(),
            mode_of: Vec::new(),
        };
        for problem in dataset.problems.iter().take(count) {
            let texts = list(problem).filter(|texts| !texts.is_empty()).with_context(|| {
                format!(
                    "--ledger: the correct answers to problem `{}` of {} are too many to be listed; choose another \
                     held-out set",
                    problem.id, dataset.name
                )
            })?;
            all.add(dataset, problem, &texts, tokenizer, longest).with_context(|| {
                format!("--ledger: problem `{}` of {}", problem.id, dataset.name)
            })?;
            if all.rows.len() > MOST_SEQUENCES {
                bail!(
                    "--ledger {count}: more than {MOST_SEQUENCES} token sequences would be scored at every checkpoint \
                     ({} problems are enough for that); lower it",
                    all.modes.chunk_by(|a, b| a.problem == b.problem).count()
                );
            }
        }
        Ok(all)
    }

    /// Adds the spellings of a problem's answers, those of one class together.
    fn add(
        &mut self,
        dataset: &Dataset,
        problem: &Problem,
        texts: &[String],
        tokenizer: &dyn Tokenizer,
        longest: usize,
    ) -> Result<()> {
        let prompt = tokenizer.encode_prompt(&problem.prompt)?;
        let first = self.modes.len();
        let mut known = HashSet::new();
        for text in texts {
            let ids = tokenizer.encode_completion(text)?;
            if ids.len() >= longest {
                bail!(
                    "the answer `{text}` has {} tokens with the end of sequence, and --max-completion-length is \
                     {longest}: raise it",
                    ids.len() + 1
                );
            }
            // Of what a sample with these tokens would say.
            let read = tokenizer.decode(&ids)?;
            let Verdict::Correct { class, .. } = dataset.verifier.verify(problem, &read) else {
                bail!(
                    "the listed answer `{text}` is read back as `{read}`, which the verifier {} does not accept",
                    dataset.verifier.name()
                );
            };
            if !known.insert(ids.clone()) {
                continue;
            }
            let known_mode = self.modes[first..].iter().position(|mode| mode.answer == class);
            let index = known_mode.map_or(self.modes.len(), |place| first + place);
            if known_mode.is_none() {
                self.modes.push(Mode { problem: problem.id.clone(), answer: class, spellings: 0 });
            }
            for end in tokenizer.eos() {
                let completion = [ids.as_slice(), &[*end]].concat();
                self.rows.push(Sequence { prompt: prompt.clone(), completion });
                self.mode_of.push(index);
                self.modes[index].spellings += 1;
            }
        }
        Ok(())
    }

    /// Token sequences that are scored.
    pub(crate) fn sequences(&self) -> usize {
        self.rows.len()
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
        let mut of_rows = Vec::with_capacity(self.rows.len());
        let label = format!("{} ledger", model.name);
        let mut progress = Progress::new(&label, self.rows.len().div_ceil(ROWS));
        for part in self.rows.chunks(ROWS) {
            let scores = token_logp(&decoder, part, self.temperature)?;
            let logp = by_row(&scores.logp, part)?;
            of_rows.extend(logp.iter().map(|row| row.iter().map(|x| f64::from(*x)).sum::<f64>()));
            progress.advance(String::new);
            session.stop.check()?;
        }
        let logp = self.summed(&of_rows);
        crate::system::files::writable_subfolder(folder)?;
        let lines: Vec<String> = self
            .modes
            .iter()
            .zip(&logp)
            .map(|(mode, logp)| serde_json::to_string(&Entry { mode: mode.clone(), logp: *logp }))
            .collect::<std::result::Result<_, _>>()?;
        write_atomic(&path, (lines.join("\n") + "\n").as_bytes())?;
        Ok(logp)
    }

    /// Adds up the probabilities of each answer's sequences.
    fn summed(&self, of_rows: &[f64]) -> Vec<f64> {
        let mut top = vec![f64::NEG_INFINITY; self.modes.len()];
        for (mode, logp) in self.mode_of.iter().zip(of_rows) {
            top[*mode] = top[*mode].max(*logp);
        }
        let mut mass = vec![0.0; self.modes.len()];
        for (mode, logp) in self.mode_of.iter().zip(of_rows) {
            mass[*mode] += (logp - top[*mode]).exp();
        }
        top.iter().zip(mass).map(|(top, mass)| top + f64::ln(mass)).collect()
    }

    /// The lines of a file that is there; one of other answers is an error.
    fn read(&self, path: &Path) -> Result<Option<Vec<f64>>> {
        if !path.exists() {
            return Ok(None);
        }
        let shown = path.display().to_string();
        let text = String::from_utf8(read_limited(path, MOST_BYTES)?).context(shown.clone())?;
        let mut logp = Vec::with_capacity(self.modes.len());
        for (number, line) in text.lines().enumerate() {
            let at = || format!("{shown}:{}", number + 1);
            let entry: Entry = serde_json::from_str(line).with_context(at)?;
            if self.modes.get(number) != Some(&entry.mode) || !entry.logp.is_finite() {
                bail!(
                    "{}: is not the ledger of this study; remove the file to compute it again",
                    at()
                );
            }
            logp.push(entry.logp);
        }
        if logp.len() < self.modes.len() {
            bail!("{shown}: has {} of {} answers; remove the file", logp.len(), self.modes.len());
        }
        Ok(Some(logp))
    }

    /// Pass@1 on the problems of the ledger, by samples of its set.
    pub(crate) fn sampled(&self, tallies: &[Tally]) -> Option<f64> {
        let problems: HashSet<&str> = self.modes.iter().map(|mode| &*mode.problem).collect();
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
        write_atomic(&output.join("ledger.csv"), csv(&self.modes, &lines).as_bytes())?;
        Ok(Ledger::new((&self.dataset, self.temperature), &self.modes, base, all))
    }
}

impl Checkpoint {
    /// The same as one of a run.
    pub(crate) fn of(self, objective: &str, seed: Option<u64>) -> Scored {
        let Self { step, updates, sampled, logp } = self;
        Scored { objective: objective.to_owned(), seed, step, updates, sampled, logp }
    }
}
