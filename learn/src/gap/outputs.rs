//! Problems to all of their outputs, as token sequences, and their probability under a model.

use anyhow::{Context, Result, bail};
use tealight_datasets::{Dataset, Problem, Verdict};

use tealight_nn::model::Decoder;
use tealight_nn::policy::Sequence;
use tealight_nn::tokenizer::Tokenizer;

use crate::listed::{encoded, logp};

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
            let mut outputs = Self::new(dataset, problem, &texts, (tokenizer, longest))
                .with_context(|| format!("problem `{}` of {}", problem.id, dataset.name))?;
            outputs.base = logp(base, &outputs.rows, temperature, &mut || Ok(()))?;
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
        let mut outputs = Self { rows: Vec::new(), class: Vec::new(), base: Vec::new() };
        let mut classes: Vec<String> = Vec::new();
        for one in encoded(dataset, problem, texts, (tokenizer, longest))? {
            let class = match one.verdict {
                Verdict::Correct { class, .. } => {
                    let known = classes.iter().position(|known| *known == class);
                    Some(known.unwrap_or_else(|| {
                        classes.push(class);
                        classes.len() - 1
                    }))
                }
                _ => None,
            };
            outputs.class.extend(one.rows.iter().map(|_| class));
            outputs.rows.extend(one.rows);
        }
        if classes.is_empty() {
            bail!("it has no correct output");
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
