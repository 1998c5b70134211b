//! The listed correct answers to some problems, as token sequences that a model gives probabilities to.
//!
//! An answer is a class of the verifier, its spellings are what [`tealight_datasets::Dataset::spellings`] lists of it.
//! A spelling is scored as the tokens that the tokenizer encodes it to, followed by an end-of-sequence token, each of
//! those there are; completions of the same text in other tokens are not listed. An answer's probability is the sum
//! over its token sequences. No sequence is the beginning of another, so that the probabilities of a problem add up to
//! at most 1: to the chance that a sample is a listed spelling.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use tealight_datasets::{Dataset, Problem, Verdict, judge};
use tealight_eval::exact::{ListedProblem, Mode};

use tealight_nn::model::Decoder;
use tealight_nn::policy::{Sequence, by_row, token_logp};
use tealight_nn::tokenizer::Tokenizer;

/// Completions in one forward pass.
pub const ROWS: usize = 128;

/// A text that a completion may be.
pub(crate) struct EncodedText<'a> {
    text: &'a str,
    /// What the tokens of the text say.
    read: String,
    pub(crate) verdict: Verdict,
    /// The tokens, followed by each token that ends a sequence.
    pub(crate) rows: Vec<Sequence>,
}

/// Texts as completions of a problem's prompt, which may have `longest` tokens; a text with the tokens of an earlier
/// one is left out.
pub(crate) fn encoded<'a>(
    dataset: &Dataset,
    problem: &Problem,
    texts: &'a [String],
    (tokenizer, longest): (&dyn Tokenizer, usize),
) -> Result<Vec<EncodedText<'a>>> {
    let prompt = tokenizer.encode_prompt(&problem.prompt)?;
    let (mut known, mut all) = (HashSet::new(), Vec::new());
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
        let verdict = judge::verify(&*dataset.verifier, problem, &read);
        let rows = ended(&prompt, &ids, tokenizer);
        if known.insert(ids) {
            all.push(EncodedText { text, read, verdict, rows });
        }
    }
    Ok(all)
}

/// The sequences of a completion, one for each token that ends a sequence.
fn ended(prompt: &[u32], ids: &[u32], tokenizer: &dyn Tokenizer) -> Vec<Sequence> {
    let row = |end: &u32| Sequence { prompt: prompt.into(), completion: [ids, &[*end]].concat() };
    tokenizer.eos().iter().map(row).collect()
}

/// The log-probability of each sequence under a model; `advance` hears of every pass.
///
/// # Errors
/// A failed pass, an error of `advance`.
pub fn logp(
    decoder: &Decoder,
    rows: &[Sequence],
    temperature: f64,
    advance: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(rows.len());
    for part in rows.chunks(ROWS) {
        let logp = by_row(&token_logp(decoder, part, temperature)?.logp, part)?;
        all.extend(logp.iter().map(|row| row.iter().map(|x| f64::from(*x)).sum::<f64>()));
        advance()?;
    }
    Ok(all)
}

/// Answers and their token sequences, those of a problem together.
#[derive(Default)]
pub struct ListedAnswers {
    /// Distinct answers, those of a problem together.
    pub modes: Vec<Mode>,
    rows: Vec<Sequence>,
    /// The answer of each row.
    mode_of: Vec<usize>,
    /// How many correct answers each problem of a dataset has, listed or not.
    totals: Vec<Option<u64>>,
}

impl ListedAnswers {
    /// The answers to all problems of `dataset`, in at most `most` token sequences.
    ///
    /// # Errors
    /// A problem with too many answers to be listed: measures of the other problems alone would be those of another
    /// dataset. An answer that cannot be sampled.
    pub fn of_dataset(
        dataset: &Dataset,
        (tokenizer, longest): (&dyn Tokenizer, usize),
        most: usize,
    ) -> Result<Self> {
        check(std::slice::from_ref(dataset))?;
        let mut all = Self::default();
        for problem in &dataset.problems {
            let at = || format!("problem `{}` of {}", problem.id, dataset.name);
            let texts = dataset.spellings.and_then(|list| list(problem)).unwrap_or_default();
            if texts.is_empty() {
                bail!(
                    "the correct answers to {} are too many to be listed; choose another dataset",
                    at()
                );
            }
            all.add(dataset, problem, &texts, (tokenizer, longest)).with_context(at)?;
            all.totals.push(problem.total);
            if all.sequences() > most {
                bail!(
                    "more than {most} token sequences would be scored ({} problems are enough for that); lower the \
                     number of problems",
                    all.totals.len()
                );
            }
        }
        Ok(all)
    }

    /// Adds the spellings of a problem's answers, those of one class together; completions may have `longest` tokens.
    fn add(
        &mut self,
        dataset: &Dataset,
        problem: &Problem,
        texts: &[String],
        (tokenizer, longest): (&dyn Tokenizer, usize),
    ) -> Result<()> {
        let first = self.modes.len();
        for one in encoded(dataset, problem, texts, (tokenizer, longest))? {
            let Verdict::Correct { class, .. } = one.verdict else {
                bail!(
                    "the listed answer `{}` is read back as `{}`, which the verifier {} does not accept",
                    one.text,
                    one.read,
                    dataset.verifier.name()
                );
            };
            let known_mode = self.modes[first..].iter().position(|mode| mode.answer == class);
            let index = known_mode.map_or(self.modes.len(), |place| first + place);
            if known_mode.is_none() {
                self.modes.push(Mode { problem: problem.id.clone(), answer: class, spellings: 0 });
            }
            self.modes[index].spellings += one.rows.len();
            self.mode_of.extend(one.rows.iter().map(|_| index));
            self.rows.extend(one.rows);
        }
        Ok(())
    }

    /// Correct answers of a problem, each a text of its own.
    ///
    /// # Errors
    /// A prompt or a text that cannot be encoded.
    pub fn of_texts(
        problem: &Problem,
        texts: &[String],
        tokenizer: &dyn Tokenizer,
    ) -> Result<Self> {
        let prompt = tokenizer.encode_prompt(&problem.prompt)?;
        let mut listed = Self::default();
        for text in texts {
            let rows = ended(&prompt, &tokenizer.encode_completion(text)?, tokenizer);
            listed.mode_of.extend(rows.iter().map(|_| listed.modes.len()));
            let (problem, answer, spellings) = (problem.id.clone(), text.clone(), rows.len());
            listed.modes.push(Mode { problem, answer, spellings });
            listed.rows.extend(rows);
        }
        Ok(listed)
    }

    /// Token sequences that are scored.
    pub fn sequences(&self) -> usize {
        self.rows.len()
    }

    /// The natural logarithm of the probability of every answer under a model; `advance` hears of every pass.
    ///
    /// # Errors
    /// A failed pass, an error of `advance`.
    pub fn logp(
        &self,
        decoder: &Decoder,
        temperature: f64,
        advance: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<f64>> {
        Ok(self.summed(&logp(decoder, &self.rows, temperature, advance)?))
    }

    /// Log-probabilities of all answers to a dataset, problem by problem.
    pub fn problems(&self, mut logp: &[f64]) -> Vec<ListedProblem> {
        let by_problem = self.modes.chunk_by(|a, b| a.problem == b.problem);
        let of_problem = |(modes, total): (&[Mode], &Option<u64>)| {
            let (own, rest) = logp.split_at(modes.len());
            logp = rest;
            ListedProblem { logp: own.to_vec(), total: *total }
        };
        by_problem.zip(&self.totals).map(of_problem).collect()
    }

    /// Adds up the probabilities of each answer's sequences.
    fn summed(&self, of_rows: &[f64]) -> Vec<f64> {
        // log sum_s e^(logp_s), the largest of an answer taken out: a long spelling's probability underflows.
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
}

/// Refuses datasets whose answers cannot be listed, before anything is sampled.
///
/// # Errors
/// The first of them.
pub fn check(datasets: &[Dataset]) -> Result<()> {
    match datasets.iter().find(|dataset| dataset.spellings.is_none()) {
        None => Ok(()),
        Some(dataset) => bail!(
            "the correct answers to {} cannot be listed; those of countdown can, and those of every task that \
             `tealight tasks` lists",
            dataset.name
        ),
    }
}
