//! The distance `KL(p* || pi)` of a model from the base given a correct answer, where all correct answers are known: by
//! log-probabilities of every answer.

use anyhow::Result;
use tealight_datasets::Dataset;
use tealight_eval::Tally;

use tealight_learn::listed;
use tealight_nn::model::Decoder;
use tealight_nn::policy::Sequence;
use tealight_nn::tokenizer::{HubTokenizer, Tokenizer};

/// A model whose log-probabilities are asked, with the tokenizer that turns texts into its token ids.
pub(crate) struct Scorer<'a> {
    pub(crate) decoder: &'a Decoder,
    pub(crate) tokenizer: &'a HubTokenizer,
}

/// Fills in, for every problem whose correct answers can be listed, `KL(p* || pi)` in nats: p* is the base given that
/// the answer is correct, so each correct answer has the base's own weight among them, the end of sequence included. Of
/// the base itself this is `-log A`, its chance of a correct answer.
pub(crate) fn enumerated(
    base: &Scorer<'_>,
    decoder: &Decoder,
    dataset: &Dataset,
    temperature: f64,
    tallies: &mut [Tally],
) -> Result<()> {
    let Some(answers) = dataset.answers else { return Ok(()) };
    let tokenizer = base.tokenizer;
    for (problem, tally) in dataset.problems.iter().zip(tallies) {
        let Some(answers) = answers(problem).filter(|all| !all.is_empty()) else { continue };
        let prompt = tokenizer.encode_prompt(&problem.prompt)?;
        let texts = answers.iter().map(String::as_str);
        let texts = EndedTexts::new(&prompt, texts, tokenizer)?;
        let of_base = texts.logps(base.decoder, temperature)?;
        let of_model = match std::ptr::eq(base.decoder, decoder) {
            true => of_base.clone(),
            false => texts.logps(decoder, temperature)?,
        };
        tally.kl_pstar = Some(kl_from_filtered(&of_base, &of_model));
    }
    Ok(())
}

/// `KL(p* || pi)` from the log-probabilities of all correct answers under the base and under pi.
fn kl_from_filtered(base: &[f64], model: &[f64]) -> f64 {
    let top = base.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_validity = top + base.iter().map(|a| (a - top).exp()).sum::<f64>().ln();
    let term = |(a, pi): (&f64, &f64)| {
        // p*(y) = a(y) / A on correct answers.
        let log_p = a - log_validity;
        log_p.exp() * (log_p - pi)
    };
    base.iter().zip(model).map(term).sum()
}

/// Completions as texts: each is a sequence for every end-of-sequence token, and its probability is their sum.
struct EndedTexts {
    /// The sequences of one text together.
    rows: Vec<Sequence>,
    ends: usize,
}

impl EndedTexts {
    fn new<'a>(
        prompt: &[u32],
        texts: impl Iterator<Item = &'a str>,
        tokenizer: &HubTokenizer,
    ) -> Result<Self> {
        let mut rows = Vec::new();
        for text in texts {
            let ids = tokenizer.encode_completion(text)?;
            rows.extend(tokenizer.eos().iter().map(|end| Sequence {
                prompt: prompt.to_vec(),
                completion: [ids.as_slice(), &[*end]].concat(),
            }));
        }
        Ok(Self { rows, ends: tokenizer.eos().len() })
    }

    /// The log-probability of each text.
    fn logps(&self, decoder: &Decoder, temperature: f64) -> Result<Vec<f64>> {
        let of_rows = listed::logp(decoder, &self.rows, temperature, &mut || Ok(()))?;
        let of_text = |logps: &[f64]| {
            let top = logps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            top + logps.iter().map(|logp| (logp - top).exp()).sum::<f64>().ln()
        };
        Ok(of_rows.chunks(self.ends).map(of_text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_from_p_star_weighs_answers_as_the_base_does() {
        // Right answers of mass .5 under the base, in proportions 4 to 1.
        let base = [0.4_f64.ln(), 0.1_f64.ln()];
        assert!((kl_from_filtered(&base, &base) + 0.5_f64.ln()).abs() < 1e-12);
        let filtered = [0.8_f64.ln(), 0.2_f64.ln()];
        assert!(kl_from_filtered(&base, &filtered).abs() < 1e-12);
        // Uniform on them is not p*.
        assert!(kl_from_filtered(&base, &[0.5_f64.ln(); 2]) > 0.1);
    }
}
