//! Problems to all of their outputs, as token sequences, and their probability under a model.

use anyhow::{Context, Result, bail};
use tealight_datasets::{Dataset, Problem, Verdict, judge};

use tealight_nn::model::Decoder;
use tealight_nn::policy::{Sequence, by_row, token_logp};
use tealight_nn::tokenizer::Tokenizer;

use crate::listed::ROWS;

/// Every output of a problem: the texts that are written like an answer, each followed by an end-of-sequence token.
/// All other completions are one further output, which is incorrect.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// The token sequences.
    pub rows: Vec<Sequence>,
    /// For each sequence the class of the answer; none where it is incorrect.
    pub class: Vec<Option<usize>>,
    /// The log-probability of each sequence under the base.
    pub base: Vec<f64>,
}

impl Outputs {
    /// The outputs of every problem, with the base's log-probabilities; completions may have `longest` tokens.
    ///
    /// # Errors
    /// A dataset or problem whose outputs cannot be listed, or are too long to be sampled; a failed pass.
    pub fn all(
        dataset: &Dataset,
        (tokenizer, longest): (&dyn Tokenizer, usize),
        (base, temperature): (&Decoder, f64),
        advance: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Self>> {
        let Some(list) = dataset.outputs else {
            bail!(
                "the outputs to {} cannot be listed; those of some tasks can (tealight tasks), such as colouring",
                dataset.name
            )
        };
        let one = |problem: &Problem| {
            let texts = list(problem).with_context(|| {
                format!(
                    "problem `{}` of {} has more than {} outputs, too many to list; choose a task or parameters with \
                     fewer, such as colouring or sat",
                    problem.id,
                    dataset.name,
                    tealight_datasets::task::MAX_TEXTS
                )
            })?;
            let mut outputs = Self::new(dataset, problem, &texts, (tokenizer, longest))?;
            outputs.base = logp(base, &outputs.rows, temperature)?;
            advance()?;
            Ok(outputs)
        };
        dataset.problems.iter().map(one).collect()
    }

    fn new(
        dataset: &Dataset,
        problem: &Problem,
        texts: &[String],
        (tokenizer, longest): (&dyn Tokenizer, usize),
    ) -> Result<Self> {
        let prompt = tokenizer.encode_prompt(&problem.prompt)?;
        let mut outputs = Self { rows: Vec::new(), class: Vec::new(), base: Vec::new() };
        let mut classes: Vec<String> = Vec::new();
        for text in texts {
            let ids = tokenizer.encode_completion(text)?;
            if ids.len() >= longest {
                bail!(
                    "problem `{}`: the output `{text}` has {} tokens with the end of sequence, and the run's \
                     completions have at most {longest}",
                    problem.id,
                    ids.len() + 1
                );
            }
            let class = match judge::verify(&*dataset.verifier, problem, text) {
                Verdict::Correct { class, .. } => {
                    let known = classes.iter().position(|known| *known == class);
                    Some(known.unwrap_or_else(|| {
                        classes.push(class);
                        classes.len() - 1
                    }))
                }
                _ => None,
            };
            for end in tokenizer.eos() {
                let completion = [ids.as_slice(), &[*end]].concat();
                outputs.rows.push(Sequence { prompt: prompt.clone(), completion });
                outputs.class.push(class);
            }
        }
        if classes.is_empty() {
            bail!("problem `{}` of {} has no correct output", problem.id, dataset.name);
        }
        Ok(outputs)
    }

    /// Whether a sequence is correct.
    pub fn is_correct(&self, row: usize) -> bool {
        self.class[row].is_some()
    }

    /// The base's chance of a correct output.
    pub fn base_validity(&self) -> f64 {
        let rows = self.base.iter().zip(&self.class);
        rows.filter(|(_, class)| class.is_some()).map(|(logp, _)| logp.exp()).sum::<f64>().min(1.0)
    }
}

/// The log-probability of each sequence under a model.
///
/// # Errors
/// A failed pass.
pub fn logp(decoder: &Decoder, rows: &[Sequence], temperature: f64) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(rows.len());
    for part in rows.chunks(ROWS) {
        let logp = by_row(&token_logp(decoder, part, temperature)?.logp, part)?;
        all.extend(logp.iter().map(|row| row.iter().map(|x| f64::from(*x)).sum::<f64>()));
    }
    Ok(all)
}
