//! What a model's own log-probabilities say of coverage, without sampling it: of all right answers where
//! they are known, of the base's stored right answers where there are some.

use std::path::Path;

use anyhow::Result;
use tealight_datasets::Dataset;
use tealight_eval::Tally;

use super::session::Session;
use crate::model::Decoder;
use crate::policy::{Sequence, token_logp};
use crate::presample::{self, PromptSamples};
use crate::rollout::Encoded;
use crate::tokenizer::Tokenizer;

/// Completions in one forward pass.
const ROWS: usize = 64;

/// Fills in, for every problem whose right answers can be listed, `KL(p* || pi)` in nats with p* uniform on
/// them: `(1/N) sum_y log(1/N) - log pi(y)`, the end of sequence included.
pub(super) fn enumerated(
    session: &Session<'_>,
    decoder: &Decoder,
    dataset: &Dataset,
    temperature: f64,
    tallies: &mut [Tally],
) -> Result<()> {
    let Some(answers) = dataset.answers else { return Ok(()) };
    let tokenizer = &session.base.tokenizer;
    for (problem, tally) in dataset.problems.iter().zip(tallies) {
        let Some(answers) = answers(problem).filter(|all| !all.is_empty()) else { continue };
        let prompt = tokenizer.encode_prompt(&problem.prompt)?;
        let sequence = |answer: &String| -> Result<Sequence> {
            let mut completion = tokenizer.encode_completion(answer)?;
            completion.push(tokenizer.eos()[0]);
            Ok(Sequence { prompt: prompt.clone(), completion })
        };
        let rows: Vec<Sequence> = answers.iter().map(sequence).collect::<Result<_>>()?;
        let count = rows.len() as f64;
        let total: f64 = logps(decoder, &rows, temperature)?.iter().sum();
        tally.kl_pstar = Some(-count.ln() - total / count);
    }
    Ok(())
}

/// Fills in, for every problem with stored right answers of the base a, the mean of `log pi(y) - log a(y)`
/// over them: what the model lost of the base's coverage, in nats; it differs from `-KL(p* || pi)` by a
/// constant of the base.
pub(super) fn stored(
    session: &Session<'_>,
    dataset: &Dataset,
    temperature: f64,
    max_completion_length: usize,
    directory: &Path,
    tallies: &mut [Tally],
) -> Result<()> {
    let request = presample::Request {
        temperature,
        max_completion_length,
        dataset: dataset.name.clone(),
        ..presample::stored_request(directory)?
    };
    let context = session.base.architecture.max_positions;
    let tokenizer = &session.base.tokenizer;
    let problems = Encoded::all(&dataset.problems, tokenizer, context, max_completion_length)?;
    let presamples = presample::load(directory, &problems, &request)?;
    for (prompt, tally) in presamples.prompts.iter().zip(tallies) {
        if prompt.correct() > 0 {
            tally.base_coverage = Some(-mean_gap(session, prompt, temperature)?);
        }
    }
    Ok(())
}

/// Mean of `log a(y) - log model(y)` over the base's right completions of a prompt.
pub(super) fn mean_gap(
    session: &Session<'_>,
    prompt: &PromptSamples,
    temperature: f64,
) -> Result<f64> {
    let right: Vec<_> = prompt.samples.iter().filter(|sample| sample.is_correct()).collect();
    let rows: Vec<Sequence> = right
        .iter()
        .map(|sample| Sequence { prompt: prompt.prompt.clone(), completion: sample.tokens.clone() })
        .collect();
    let said = logps(&session.reference, &rows, temperature)?;
    let base = right.iter().map(|sample| sample.logp.iter().map(|x| f64::from(*x)).sum::<f64>());
    Ok(base.zip(said).map(|(a, model)| a - model).sum::<f64>() / right.len() as f64)
}

/// The model's log-probability of each completion.
fn logps(decoder: &Decoder, rows: &[Sequence], temperature: f64) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(rows.len());
    for part in rows.chunks(ROWS) {
        let logp = token_logp(decoder, part, temperature)?.logp.sum(1)?;
        all.extend(logp.to_vec1::<f32>()?.into_iter().map(f64::from));
    }
    Ok(all)
}
