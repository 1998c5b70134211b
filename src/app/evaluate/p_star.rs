//! The distance `KL(p* || pi)` of a model from the base given a correct answer, where all correct answers are known: by
//! log-probabilities of every answer.

use anyhow::Result;
use tealight_datasets::Dataset;
use tealight_eval::Tally;

use tealight_learn::listed::ListedAnswers;
use tealight_nn::model::Decoder;
use tealight_nn::tokenizer::HubTokenizer;

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
    for (problem, tally) in dataset.problems.iter().zip(tallies) {
        let Some(answers) = answers(problem).filter(|all| !all.is_empty()) else { continue };
        let answers = ListedAnswers::of_texts(problem, &answers, base.tokenizer)?;
        let of_base = answers.logp(base.decoder, temperature, &mut || Ok(()))?;
        let of_model = match std::ptr::eq(base.decoder, decoder) {
            true => of_base.clone(),
            false => answers.logp(decoder, temperature, &mut || Ok(()))?,
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
