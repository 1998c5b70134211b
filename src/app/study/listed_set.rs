//! The log-probability of every listed correct answer to some problems of a set, at the base and at checkpoints.
//!
//! [`tealight_learn::listed`] has the scored answers. Probabilities are at the temperature of an evaluation and without
//! its filters; they come from the pass that training computes log-probabilities by.
//!
//! A checkpoint's lines are one file in the folder of its samples, written whole; one that is there is not computed
//! again.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_core::names;
use tealight_eval::exact::Mode;

use super::sets::{Model, StudySet};
use crate::app::session::Session;
use tealight_learn::listed::{ListedAnswers, ROWS};
use tealight_nn::tokenizer::Tokenizer;
use tealight_system::files::{read_limited, write_atomic};
use tealight_system::telemetry::Progress;

/// Most token sequences: each is scored at every checkpoint.
const MOST_SEQUENCES: usize = 200_000;
/// Largest file of a checkpoint's lines.
const MOST_BYTES: u64 = 256 << 20;

/// Every listed answer of some problems, as what is scored.
pub(crate) struct ListedSet {
    pub(crate) dataset: String,
    file: String,
    pub(crate) answers: ListedAnswers,
}

/// A line of a checkpoint's file.
#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    mode: Mode,
    logp: f64,
}

impl ListedSet {
    /// The answers to the problems of a set; completions may have `longest` tokens.
    pub(crate) fn new(set: &StudySet, tokenizer: &dyn Tokenizer, longest: usize) -> Result<Self> {
        let dataset = &*set.dataset;
        Ok(Self {
            dataset: dataset.name.clone(),
            file: format!("answers-{}.jsonl", names::file_name(&dataset.name)),
            answers: ListedAnswers::of_dataset(dataset, (tokenizer, longest), MOST_SEQUENCES)?,
        })
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
        (temperature, folder): (f64, &Path),
    ) -> Result<Vec<f64>> {
        let path = names::inside(folder, &self.file)?;
        if let Some(known) = self.read(&path)? {
            return Ok(known);
        }
        let decoder =
            (model.load)().with_context(|| format!("{}: cannot be scored", model.name))?;
        let label = format!("{} answers", model.name);
        let mut progress = Progress::new(&label, self.sequences().div_ceil(ROWS));
        let logp = self.answers.logp(&decoder, temperature, &mut || {
            progress.advance(String::new);
            session.stop.check()
        })?;
        tealight_system::files::writable_subfolder(folder)?;
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
                    "{}: does not have the answers of this study; remove the file to compute it again",
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
}
